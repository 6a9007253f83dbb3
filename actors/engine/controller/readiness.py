"""What must be before a controller may act: whole tables, and in them all that was answered under its name before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocols.messages.commands import Command, Delete, DeleteCollection
from runtime.tables.overlay import Tables
from runtime.tables.table import Table


class Readiness:
    """How far a new incarnation is from its first reconciliation.

    unsynced: resources whose informer has not said yet that the table is whole. attached: the dispatcher has answered
    that nothing of an earlier incarnation is on its way any more.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        """tables: by Resource.id."""
        self._tables = tables
        self.unsynced = set(tables)
        self.attached = False
        self._barrier: dict[str, tuple[int, int]] = {}  # resource id → (epoch, version) that its table has to reach

    def attach(self, versions: Mapping[str, int]) -> None:
        """versions: by Resource.id, the newest that was answered under our name; of tables that we do not read too."""
        self.attached = True
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

    @property
    def waits_for_versions(self) -> bool:
        """No message tells when a table has reached one: somebody has to look."""
        return bool(self._barrier)

    def missing_versions(self) -> dict[str, int]:
        """By Resource.id: the version that a table has to reach."""
        return {resource_id: version for resource_id, (_, version) in self._barrier.items()}


class StaleTableError(RuntimeError):
    """A deletion was not sent, because a table that the controller reads is too old. Tried again with backoff."""


def check_freshness(tables: Tables, commands: Sequence[Command], *, now: float, stale_after: float) -> None:
    """Nothing is deleted on the word of a table that has not heard from the server for long. Raises StaleTableError."""
    if not any(isinstance(command, (Delete, DeleteCollection)) for command in commands):
        return
    for overlay in tables.overlays().values():
        table = overlay.table
        age = table.age(now)
        if age is None:
            raise StaleTableError(f"the table of {table.resource} has not heard from the server yet")
        if age > stale_after:
            raise StaleTableError(f"the table of {table.resource} is {age:.0f} s old")
