"""Checks of arguments that authors pass. They raise TypeError or ValueError with the argument's name.

Without them a mistake causes an AttributeError elsewhere, often long after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def check_type(what: str, given: object, expected: type | tuple[type, ...], words: str) -> None:
    """Check the type. words: the expected value, such as "a Resource(…)"."""
    if not isinstance(given, expected):
        raise TypeError(f"{what} takes {words}, not {given!r:.80}")


def check_text(what: str, given: object, *, may_be_empty: bool = False) -> None:
    check_type(what, given, str, "text")
    if not given and not may_be_empty:
        raise ValueError(f"{what} is empty")


def check_number(
    what: str, given: object, *, least: float | None = None, above: float | None = None, whole: bool = False
) -> None:
    """Check the type and the range of a number.

    least: inclusive lower bound.
    above: exclusive lower bound.
    whole: require an integer.
    """
    is_number = isinstance(given, int if whole else (int, float)) and not isinstance(given, bool)
    if not is_number:
        raise TypeError(f"{what} takes {'an integer' if whole else 'a number'}, not {given!r:.80}")
    number: Any = given
    if number != number:
        raise ValueError(f"{what} takes a number, not {given!r}")
    if least is not None and not number >= least:
        raise ValueError(f"{what} takes a number of at least {least:g}, not {given!r}")
    if above is not None and not number > above:
        raise ValueError(f"{what} takes a number above {above:g}, not {given!r}")


def check_function(what: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{what} takes a function, not {given!r:.80}")


def check_each(what: str, given: object, check: Callable[[str, Any], None]) -> None:
    """Check each element of a tuple or list. A single value or a string is rejected."""
    if not isinstance(given, tuple | list):
        raise TypeError(f"{what}: expected a tuple, got {given!r:.80}")
    for number, element in enumerate(given):
        check(f"{what}[{number}]", element)


def check_mapping(what: str, given: object) -> None:
    check_type(what, given, Mapping, "a map")


def check_sequence(what: str, given: object, words: str) -> None:
    """Check for a sequence other than a string."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise TypeError(f"{what} takes {words}, not {given!r:.80}")


def one_of(what: str, given: object, allowed: Iterable[str]) -> None:
    known = tuple(allowed)
    if given not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {given!r:.80}")
