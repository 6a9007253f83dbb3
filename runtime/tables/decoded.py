"""The decoded form of entries, of which a bounded amount is kept."""

from __future__ import annotations

import contextlib

from kcm.runtime.tables.entry import Entry

SMALL = 2048  # bytes of JSON
LEAST = 4


class DecodedEntries:
    """The entries of one table whose decoded form is cached, the oldest first.

    bound: how many there may be of objects of up to SMALL bytes; half as many of twice the size, and so on. What is
    decoded takes some ten times the memory of its JSON: a thousand versions of an Endpoints object with a thousand
    addresses would be 1.5 GB. A version that another has replaced is to be forgotten at once: else each
    size that a growing Endpoints object has had would keep its full share.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._by_size: dict[int, dict[Entry, None]] = {}  # by how often SMALL was doubled

    def add(self, entry: Entry) -> None:
        """An entry that has just been decoded; what it takes the place of is forgotten. Any thread."""
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
        """Another version has taken its place. Whoever still has it may decode it again. Any thread."""
        if entry.decoded is not None:
            entry.decoded = None
            entries = self._by_size.get(_doublings(entry))
            if entries is not None:
                entries.pop(entry, None)

    def clear(self) -> None:
        """Forget all of them. Any thread."""
        before, self._by_size = self._by_size, {}
        for entries in list(before.values()):
            for entry in list(entries):
                entry.decoded = None


def _doublings(entry: Entry) -> int:
    return max(0, (len(entry.raw) - 1) // SMALL).bit_length()
