"""Number of decoded objects that are kept: it depends on their size, so that large ones do not fill the memory."""

from __future__ import annotations

import pytest

from kcm.runtime.tables.decoded import LEAST, SMALL, DecodedEntries
from kcm.runtime.tables.entry import Entry


def entry(size: int) -> Entry:
    """Return a decoded entry whose JSON has `size` bytes."""
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
def test_fewer_large_objects_are_kept(bound: int, size: int, kept: int) -> None:
    decoded, entries = DecodedEntries(bound), [entry(size) for _ in range(bound + 10)]
    for decoded_entry in entries:
        decoded.add(decoded_entry)
    assert [decoded_entry.decoded is not None for decoded_entry in entries] == [False] * (len(entries) - kept) + [
        True
    ] * kept


def test_large_objects_do_not_evict_small_ones() -> None:
    decoded, small = DecodedEntries(8), [entry(10) for _ in range(8)]
    for small_entry in small:
        decoded.add(small_entry)
        decoded.add(entry(SMALL * 8))
    assert all(small_entry.decoded is not None for small_entry in small)


def test_old_version_is_not_kept_decoded_and_takes_no_place() -> None:
    decoded, first, second, third = DecodedEntries(2), entry(10), entry(10), entry(10)
    decoded.add(first)
    decoded.add(second)
    decoded.forget(first)
    decoded.add(third)
    assert [version.decoded is not None for version in (first, second, third)] == [False, True, True]


def test_old_version_may_be_decoded_again() -> None:
    decoded, old_version = DecodedEntries(2), entry(10)
    decoded.add(old_version)
    decoded.forget(old_version)
    old_version.decoded = {}
    decoded.add(old_version)
    decoded.clear()
    assert old_version.decoded is None
