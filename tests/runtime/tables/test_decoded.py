"""How many decoded objects are kept: by their size, so that versions of a large one do not fill the memory."""

from __future__ import annotations

import pytest

from kcm.runtime.tables.decoded import LEAST, SMALL, DecodedEntries
from kcm.runtime.tables.entry import Entry


def entry(size: int) -> Entry:
    """That has been decoded. size: bytes of its JSON."""
    made = Entry(key="default/a", uid="u", resource_version=1, raw=b"x" * size, controller=None, facts=None, values=())
    made.decoded = {}
    return made


@pytest.mark.parametrize(
    ("bound", "size", "kept"),
    [
        (64, 1, 64),
        (64, SMALL, 64),
        (64, SMALL + 1, 32),
        (64, SMALL * 2, 32),
        (64, SMALL * 2 + 1, 16),
        (64, SMALL * 100, LEAST),
        (2, SMALL, 2),
        (2, SMALL * 100, 2),
    ],
)
def test_the_larger_the_objects_the_fewer_are_kept(bound: int, size: int, kept: int) -> None:
    decoded, entries = DecodedEntries(bound), [entry(size) for _ in range(bound + 10)]
    for one in entries:
        decoded.add(one)
    assert [one.decoded is not None for one in entries] == [False] * (len(entries) - kept) + [True] * kept


def test_large_objects_take_no_room_of_small_ones() -> None:
    decoded, small = DecodedEntries(8), [entry(10) for _ in range(8)]
    for one in small:
        decoded.add(one)
        decoded.add(entry(SMALL * 8))
    assert all(one.decoded is not None for one in small)


def test_a_version_that_is_in_the_past_keeps_neither_its_decoded_form_nor_a_place() -> None:
    decoded, first, second, third = DecodedEntries(2), entry(10), entry(10), entry(10)
    decoded.add(first)
    decoded.add(second)
    decoded.forget(first)
    decoded.add(third)
    assert [one.decoded is not None for one in (first, second, third)] == [False, True, True]


def test_who_still_has_a_version_of_the_past_may_decode_it_again() -> None:
    decoded, one = DecodedEntries(2), entry(10)
    decoded.add(one)
    decoded.forget(one)
    one.decoded = {}
    decoded.add(one)
    decoded.clear()
    assert one.decoded is None
