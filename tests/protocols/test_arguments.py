"""Checks of arguments that authors pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.protocols.arguments import (
    check_each,
    check_function,
    check_mapping,
    check_number,
    check_sequence,
    check_text,
    one_of,
)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: check_text("a", 3), "a takes text, not 3"),
        (lambda: check_text("a", ""), "a is empty"),
        (lambda: check_number("a", "3"), "a takes a number, not '3'"),
        (lambda: check_number("a", True), "a takes a number, not True"),
        (lambda: check_number("a", 1.5, whole=True), "a takes an integer, not 1.5"),
        (lambda: check_number("a", float("nan")), "a takes a number, not nan"),
        (lambda: check_number("a", 1, least=2), "a takes a number of at least 2, not 1"),
        (lambda: check_number("a", 0, above=0), "a takes a number above 0, not 0"),
        (lambda: check_function("a", 3), "a takes a function, not 3"),
        (lambda: check_each("a", "xy", check_text), "a: expected a tuple, got 'xy'"),
        (lambda: check_each("a", ("x", 3), check_text), "a[1] takes text, not 3"),
        (lambda: check_mapping("a", [1]), "a takes a map, not [1]"),
        (lambda: check_sequence("a", "xy", "a list"), "a takes a list, not 'xy'"),
        (lambda: one_of("a", "x", ("y", "z")), "a is one of y, z, not 'x'"),
    ],
)
def test_wrong_argument_is_named(check: Callable[[], None], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        check()
    assert str(raised.value) == text


def test_right_arguments_pass() -> None:
    check_text("a", "", may_be_empty=True)
    check_number("a", 2, least=2, whole=True)
    check_function("a", len)
    check_each("a", ["x"], check_text)
    check_mapping("a", {})
    check_sequence("a", (), "a list")
    one_of("a", "y", ("y", "z"))
