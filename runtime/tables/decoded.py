"""The decoded form of entries, of which a bounded amount is kept."""

from __future__ import annotations

import contextlib
from collections import deque

from runtime.tables.entry import Entry

SMALL = 2048  # bytes of JSON
LEAST = 4


class DecodedEntries:
    """The entries of one table whose decoded form is cached, the oldest first.

    bound: how many there may be of objects of up to SMALL bytes; half as many of twice the size, and so on. What is
    decoded takes some ten times the memory of its JSON: a thousand versions of an Endpoints object with a thousand
    addresses would be 1.5 GB.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._by_size: dict[int, deque[Entry]] = {}  # by how often SMALL was doubled

    def add(self, entry: Entry) -> None:
        """An entry that has just been decoded; what it takes the place of is forgotten. Any thread."""
        doublings = max(0, (len(entry.raw) - 1) // SMALL).bit_length()
        entries = self._by_size.get(doublings)
        if entries is None:
            entries = self._by_size.setdefault(doublings, deque())
        entries.append(entry)
        if len(entries) > max(min(LEAST, self._bound), self._bound >> doublings):
            with contextlib.suppress(IndexError):  # another reader was faster
                entries.popleft().decoded = None
