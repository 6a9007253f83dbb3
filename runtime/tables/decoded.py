"""Bounded cache of decoded objects."""

from __future__ import annotations

import contextlib

from kcm.runtime.tables.entry import Entry

SMALL = 2048  # bytes of JSON
LEAST = 4


class DecodedEntries:
    """Entries of one table whose decoded form is cached, the oldest first.

    bound: maximum number of objects of up to SMALL bytes; half as many of twice the size, and so on.

    A decoded object takes about ten times the memory of its JSON: a thousand versions of an Endpoints object with a
    thousand addresses would take 1.5 GB. A replaced version must be removed;
    otherwise a growing Endpoints object fills the cache of each size that it has had.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._by_size: dict[int, dict[Entry, None]] = {}  # by the number of doublings of SMALL

    def add(self, entry: Entry) -> None:
        """Add an entry that was just decoded, and evict the oldest beyond the bound. Any thread."""
        doublings = _doublings(entry)
        entries = self._by_size.get(doublings)
        if entries is None:
            entries = self._by_size.setdefault(doublings, {})
        entries[entry] = None
        if len(entries) > max(min(LEAST, self._bound), self._bound >> doublings):
            with contextlib.suppress(StopIteration, RuntimeError, KeyError):  # another reader was faster
                oldest = next(iter(entries))
                del entries[oldest]
                oldest.decoded = None

    def forget(self, entry: Entry) -> None:
        """Drop the decoded form of a replaced version. It may still be decoded again. Any thread."""
        if entry.decoded is not None:
            entry.decoded = None
            entries = self._by_size.get(_doublings(entry))
            if entries is not None:
                entries.pop(entry, None)

    def entries(self) -> list[Entry]:
        """Return the entries. Any thread."""
        return [entry for entries in list(self._by_size.values()) for entry in list(entries)]

    def clear(self) -> None:
        """Drop all decoded forms. Any thread."""
        before, self._by_size = self._by_size, {}
        for entries in list(before.values()):
            for entry in list(entries):
                entry.decoded = None


def _doublings(entry: Entry) -> int:
    return max(0, (entry.size - 1) // SMALL).bit_length()
