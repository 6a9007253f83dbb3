"""Completion indexes: parsing, set operations, and upstream's errors about their format."""

from __future__ import annotations

import re

import pytest

from kcm.protocols.completion_indexes import Indexes, valid_intervals, validate_indexes


@pytest.mark.parametrize(
    ("text", "completions", "shown", "total"),
    [
        ("", 8, "", 0),
        ("0", 8, "0", 1),
        ("3,4,5-9,11,12", 20, "3-9,11,12", 9),
        ("3,5-9,11", 8, "3,5-7", 4),
        ("3-9", 3, "", 0),
        ("a,3-b,4", 9, "4", 1),
        ("1-2", 9, "1,2", 2),
    ],
)
def test_text_is_parsed_and_formatted_as_intervals(text: str, completions: int, shown: str, total: int) -> None:
    found = Indexes.parse(text, completions=completions)
    assert (str(found), found.total) == (shown, total)


def test_merged_sets_contain_the_indexes_of_both() -> None:
    found = Indexes.parse("0,3-5", completions=100).merged(Indexes.of([7, 1, 4, 6]))
    assert str(found) == "0,1,3-7"
    assert [i for i in range(10) if found.has(i)] == [0, 1, 3, 4, 5, 6, 7]
    assert found.first_missing(3, completions=10) == [2, 8, 9]
    assert found.first_missing(2, completions=10) == [2, 8]
    assert found.overlap(Indexes.parse("0-3,7-9", completions=10)) == 4


@pytest.mark.parametrize(
    ("text", "total"),
    [("", 0), ("0", 1), ("1,3-5", 4), ("+2,4", 2), ("7,8,9", 3)],
)
def test_valid_format_is_counted(text: str, total: int) -> None:
    assert validate_indexes(text, completions=10) == total


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1-2-3", "violates the requirement that an index interval can have at most two parts separated by '-'"),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("1-", 'cannot convert string to integer for index: ""'),
        ("9223372036854775808", 'cannot convert string to integer for index: "9223372036854775808"'),
        ("1,", 'cannot convert string to integer for index: ""'),
        ("1,10", 'too large index: "10"'),
        ("1-10", 'too large index: "10"'),
        ("5-3", "non-increasing order, previous: 5, current: 3"),
        ("3,3", "non-increasing order, previous: 3, current: 3"),
        ("1-4,2", "non-increasing order, previous: 4, current: 2"),
        ("4,3-x", 'cannot convert string to integer for index: "x"'),  # the interval is parsed before it is compared
    ],
)
def test_malformed_text_raises_the_error_of_upstream(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error) + "$"):
        validate_indexes(text, completions=10)


def test_malformed_intervals_are_skipped() -> None:
    assert list(valid_intervals("0,x,3-5,8-7,20", completions=10)) == [(0, 0), (3, 5)]
