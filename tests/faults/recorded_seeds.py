"""Seeds that are recorded because they find a bug. A change of the trials or of the simulator may outdate them."""

from __future__ import annotations

from collections.abc import Callable

MOST = 200  # seeds to search for another one


def must_be_found_by(seed: int, finds: Callable[[int], bool]) -> None:
    """Fail if a recorded seed does not find its bug any more, and name another seed that does.

    finds: reports whether a seed finds the bug.
    """
    if finds(seed):
        return
    others = (other for other in range(MOST) if other != seed)
    found = next((other for other in others if finds(other)), None)
    advice = f"none of the seeds below {MOST} finds it" if found is None else f"seed {found} does; record it instead"
    raise AssertionError(f"the recorded seed {seed} does not find this bug any more: {advice}")
