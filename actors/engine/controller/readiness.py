"""What must be before a controller may act: whole tables, and in them all that was answered under its name before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from protocols.messages.commands import Command, Delete, DeleteCollection
from runtime.tables.overlay import Tables
from runtime.tables.table import Table


class Readiness:
    """How far a new incarnation is from its first reconciliation, which waits for static tables alone; and when the
    table of a discovered resource may be read.

    unsynced: resources whose informer has not said yet that the table is whole. attached: the dispatcher has answered
    that nothing of an earlier incarnation is on its way any more.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        """tables: the static ones, by Resource.id."""
        self._tables = tables
        self.unsynced = set(tables)
        self.attached = False
        self._barrier: dict[str, tuple[int, int]] = {}  # resource id → (epoch, version) that its table has to reach
        self._versions: Mapping[str, int] = {}  # as attached

    def attach(self, versions: Mapping[str, int]) -> None:
        """versions: by Resource.id, the newest that was answered under our name; of tables that we do not read too."""
        self.attached = True
        self._versions = versions
        self._barrier = {
            resource_id: (self._tables[resource_id].epoch, version)
            for resource_id, version in versions.items()
            if resource_id in self._tables
        }

    def is_reached(self) -> bool:
        if not self.attached or self.unsynced:
            return False
        self._barrier = {
            resource_id: (epoch, version)
            for resource_id, (epoch, version) in self._barrier.items()
            if self._tables[resource_id].version < version and self._tables[resource_id].epoch == epoch
        }
        return not self._barrier

    def may_be_read(self, table: Table, *, epoch: int) -> bool:
        """Whether a discovered resource's table is synced, and shows what was written under our name before.

        epoch: of the table when it was first asked about: versions of an earlier one mean nothing.
        """
        if not self.attached or not table.synced:
            return False
        return table.epoch != epoch or table.version >= self._versions.get(table.resource.id, 0)

    @property
    def waits_for_versions(self) -> bool:
        """No message tells when a table has reached one: somebody has to look."""
        return bool(self._barrier)

    def missing_versions(self) -> dict[str, int]:
        """By Resource.id: the version that a table has to reach."""
        return {resource_id: version for resource_id, (_, version) in self._barrier.items()}


class StaleTableError(RuntimeError):
    """A deletion was not sent, because a table that it depends on is too old, or not there. Retried after a while."""


def check_freshness(tables: Tables, commands: Sequence[Command], *, now: float, stale_after: float) -> None:
    """Every table that a deletion depends on has heard from the server lately. Raises StaleTableError."""
    for resource_id in dict.fromkeys(_depended_on(tables, commands)):
        overlay = tables.overlay(resource_id)
        if overlay is None:
            raise StaleTableError(f"there is no table of {resource_id}")
        table = overlay.table
        age = table.age(now)
        if age is None or not table.synced:
            raise StaleTableError(f"the table of {table.resource} has not heard from the server yet")
        if age > stale_after:
            raise StaleTableError(f"the table of {table.resource} is {age:.0f} s old")


def _depended_on(tables: Tables, commands: Sequence[Command]) -> Iterable[str]:
    """By Resource.id."""
    for command in commands:
        if isinstance(command, (Delete, DeleteCollection)):
            if command.depends_on is None:
                yield from (resource_id for resource_id in tables.overlays() if resource_id in tables.static)
            else:
                yield from command.depends_on
