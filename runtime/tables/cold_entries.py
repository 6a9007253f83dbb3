"""Compression of the entries of large tables that have not changed for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcm.runtime.process.memory import give_back_freed
from kcm.runtime.tables.table import Table

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGE = 1000  # entries; smaller tables stay as they are
EVERY = 20.0  # seconds from the end of a pass to the next one
SLICE = 3_000_000  # bytes of JSON that are compressed in one call; takes 10 to 20 ms
MUCH = 4_000_000  # bytes of compressed JSON after which memory is returned to the system


class _Passed(NamedTuple):
    """State of a table at the latest pass.

    lists: Table.lists.
    version: Table.version.
    done: version up to which entries have been considered.
    """

    lists: int
    version: int
    done: int


class ColdEntries:
    """Compresses, pass by pass, the entries that have not changed since the pass before.

    An entry that changes all the time is thus never compressed, and another one once after each change or list.
    """

    def __init__(self, now: float, log: FilteringBoundLogger) -> None:
        """Create it. now: monotonic time."""
        self._due, self._log, self._failed = now + EVERY, log, False
        self._pass: Iterator[int] | None = None
        self._passed: dict[str, _Passed] = {}  # by Table.id
        self._compressed = 0  # bytes of JSON since memory was returned

    def look(self, tables: Mapping[str, Table], now: float) -> None:
        """Continue a pass by a slice, or begin one if it is due. tables: by Table.id. now: monotonic time.

        An error is logged, and ends the compression: entries may stay as they are.
        """
        if self._failed:
            return
        try:
            self._continue(tables, now)
        except Exception:
            self._failed = True
            self._log.exception("compression of entries failed, they stay as they are until the next start")

    def _continue(self, tables: Mapping[str, Table], now: float) -> None:
        if self._pass is None:
            if now < self._due:
                return
            self._pass = self._slices(list(tables.values()))
        compressed = next(self._pass, None)
        if compressed is not None:
            self._compressed += compressed
            return
        self._pass, self._due = None, now + EVERY
        if self._compressed >= MUCH:
            self._compressed = 0
            give_back_freed()

    def _slices(self, tables: list[Table]) -> Iterator[int]:
        """Yield the number of bytes of compressed JSON after each slice."""
        self._passed = {table.id: self._passed[table.id] for table in tables if table.id in self._passed}
        for table in tables:
            if len(table) < LARGE or not table.synced:
                continue
            before, lists, version = self._passed.get(table.id), table.lists, table.version
            if before is None or before.lists != lists:
                self._passed[table.id] = _Passed(lists, version, done=-1)
                continue
            self._passed[table.id] = _Passed(lists, version, done=before.version)
            if before.done == before.version:
                continue
            compressed = 0
            for entry in table.entries():
                if before.done < entry.resource_version <= before.version and table.compress(entry):
                    compressed += entry.size
                    if compressed >= SLICE:
                        yield compressed
                        compressed = 0
            yield compressed
