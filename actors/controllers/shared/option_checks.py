"""Checks of flags that several controllers have, in upstream's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kcm.actors.options import Check, Options


def at_least_one(flag: str, value_of: Callable[[Options], int]) -> Check:
    """Refuses a number below 1. Upstream checks few controllers' workers; with 0 of them the others do nothing."""

    def check(options: Options) -> Iterator[str]:
        value = value_of(options)
        if value < 1:
            yield f"{flag} must be greater than 0, but got {value}"

    return check


def outside(flag: str, value: int, *, largest: int) -> Iterator[str]:
    """What is wrong with a number that has to be from 1 to `largest`."""
    if value < 1:
        yield f"{flag} must not be less than 1, but got {value}"
    elif value > largest:
        yield f"{flag} must not be more than {largest}, but got {value}"
