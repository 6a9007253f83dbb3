"""Checks of a run, and the report of one that fails: its shrunk plan, its trace, and how to replay it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from actors.simulation.campaign.runs import Run, run
from actors.simulation.campaign.setting import SCENARIOS, USUAL, Setting
from actors.simulation.invariants.observing import Violation
from runtime.faults.vocabulary import Fault, format_faults
from runtime.simulation.shrinking import shrunk


@functools.lru_cache(maxsize=SCENARIOS)
def _undisturbed(scenario: int, setting: Setting) -> Run:
    return run(scenario, (), setting=setting)


def check(seed: int, faults: Sequence[Fault] | None = None, *, setting: Setting = USUAL, traced: bool = False) -> Run:
    """A run; also checked for coming to the same end state as the run of its scenario without faults."""
    disturbed = run(seed, faults, setting=setting, traced=traced)
    disturbed.checked["the same end as without faults"] += 1
    if not disturbed.violations:
        disturbed.violations += _compared(disturbed, _undisturbed(seed % SCENARIOS, setting))
    return disturbed


def _compared(disturbed: Run, calm: Run) -> Iterable[Violation]:
    if calm.violations:
        for one in calm.violations:
            yield Violation(one.at, one.invariant, f"{one.text} (in the run of seed {calm.seed} without faults)")
    elif disturbed.end != calm.end:
        text = "; ".join(_differences(calm.end, disturbed.end))
        yield Violation(disturbed.seconds, "the same end as without faults", text)


def _differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterable[str]:
    for what in sorted({*expected, *found}):
        if expected.get(what) != found.get(what):
            yield f"{what}: {found.get(what)}, without faults {expected.get(what)}"


def small(failed: Run, *, setting: Setting = USUAL) -> Run:
    """The same failure with the fewest faults that cause it, traced."""
    names = {violation.invariant for violation in failed.violations}

    def fails(faults: tuple[Fault, ...]) -> bool:
        return any(v.invariant in names for v in check(failed.seed, faults, setting=setting).violations)

    return check(failed.seed, shrunk(failed.faults, fails), setting=setting, traced=True)


def report(failed: Run) -> str:
    """The violations, the faults, the end of the trace, and the command that replays the run."""
    lines = [f"seed {failed.seed} violates:"]
    lines += [f"  {violation}" for violation in failed.violations]
    lines += ["faults:", *(f"  {fault}" for fault in failed.faults)]
    lines += ["trace:", *failed.trace]
    which = "" if failed.setting == USUAL.name else f" --setting {failed.setting}"
    replay = f'python -m kcm.simulate{which} --seed {failed.seed} --faults "{format_faults(failed.faults)}"'
    lines += ["replay:", f"  {replay}"]
    return "\n".join(lines)


def must_hold(seed: int, *, setting: Setting = USUAL) -> None:
    """For tests: raises AssertionError with the report of a run that violates an invariant, shrunk."""
    one = check(seed, setting=setting)
    if one.violations:
        raise AssertionError(report(small(one, setting=setting)))
