"""Checks of flags that several controllers share, with upstream's error texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kcm.actors.options import Check, Options


def at_least_one(flag: str, value_of: Callable[[Options], int]) -> Check:
    """Return a check that rejects values below 1.

    Upstream has it for few controllers. Other controllers do nothing with 0 workers.
    """

    def check(options: Options) -> Iterator[str]:
        value = value_of(options)
        if value < 1:
            yield f"{flag} must be greater than 0, but got {value}"

    return check


def outside(flag: str, value: int, *, largest: int) -> Iterator[str]:
    """Yield an error if the value is not between 1 and `largest`."""
    if value < 1:
        yield f"{flag} must not be less than 1, but got {value}"
    elif value > largest:
        yield f"{flag} must not be more than {largest}, but got {value}"
