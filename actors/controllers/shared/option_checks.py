"""Checks of flag values that several controllers use, with upstream's error texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kcm.actors.options import Check, Options


def at_least_one(flag: str, value_of: Callable[[Options], int]) -> Check:
    """Return a check of the command line that rejects values of a flag below 1.

    flag: name of the flag, for the error text. value_of: returns the flag's value.

    Upstream validates the number of workers of few controllers; other controllers silently do nothing with 0 workers.
    """

    def check(options: Options) -> Iterator[str]:
        value = value_of(options)
        if value < 1:
            yield f"{flag} must be greater than 0, but got {value}"

    return check


def range_errors(flag: str, value: int, *, largest: int) -> Iterator[str]:
    """Yield an error text if the value of the flag is not between 1 and `largest`."""
    if value < 1:
        yield f"{flag} must not be less than 1, but got {value}"
    elif value > largest:
        yield f"{flag} must not be more than {largest}, but got {value}"
