"""IntOrString: counts are returned, percentages scaled, and other values refused."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.percentages import IntOrString, scaled_value


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (0, 10, 0, 0),
        (5, 10, 5, 5),
        (5, 0, 5, 5),
        (-1, 10, -1, -1),
        ("0%", 10, 0, 0),
        ("39%", 10, 4, 3),
        ("25%", 4, 1, 1),
        ("25%", 3, 1, 0),
        ("1%", 1, 1, 0),
        ("100%", 7, 7, 7),
        ("150%", 10, 15, 15),
        ("50%", 0, 0, 0),
        ("-25%", 10, -2, -3),
        ("+5%", 100, 5, 5),
    ],
)
def test_counts_and_percentages(value: IntOrString, total: int, up: int, down: int) -> None:
    assert scaled_value(value, total, round_up=True) == up
    assert scaled_value(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["oops", "5", "", "%", "1.5%", "5 %", "5%%", "٥%", "a%", "5%\n", True, 1.5, [], {}])
def test_invalid_count_or_percentage_is_refused(value: IntOrString) -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        scaled_value(value, 10, round_up=True)


def test_none_is_refused() -> None:
    with pytest.raises(ValueError, match="nil value for IntOrString"):
        scaled_value(None, 10, round_up=True)


@given(st.integers(0, 300), st.integers(0, 10**9))
def test_percentages_are_rounded_exactly(percent: int, total: int) -> None:
    exact = Fraction(percent * total, 100)
    assert scaled_value(f"{percent}%", total, round_up=True) == ceil(exact)
    assert scaled_value(f"{percent}%", total, round_up=False) == floor(exact)
