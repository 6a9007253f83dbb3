"""What must be before a controller may act: whole tables, and in them all that was answered under its name before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcm.protocols.messages.commands import Command, Create, Delete, DeleteCollection
from kcm.protocols.objects import controller_of, decode_object, make_key, split_key
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import AnyTable, tables_of


class Readiness:
    """How far a new incarnation is from its first reconciliation, which waits for static tables alone; and when the
    table of a discovered resource may be read.

    unsynced: tables, by id, whose informer has not said yet that they are whole. attached: the dispatcher has answered
    that nothing of an earlier incarnation is on its way any more.
    """

    def __init__(self, tables: Mapping[str, AnyTable]) -> None:
        """tables: the static ones, by Resource.id."""
        self._tables = tables
        self.unsynced = {one.id for table in tables.values() for one in tables_of(table)}
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

    def may_be_read(self, table: AnyTable, *, epoch: int) -> bool:
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
        """Return the version that a table must reach, by Resource.id."""
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
            raise StaleTableError(f"the table of {table} has not heard from the server yet")
        if age > stale_after:
            raise StaleTableError(f"the table of {table} is {age:.0f} s old")


def _depended_on(tables: Tables, commands: Sequence[Command]) -> Iterable[str]:
    """Tables by Resource.id."""
    for command in commands:
        if isinstance(command, (Delete, DeleteCollection)):
            for one in _named(tables, command):
                yield one.partition(" ")[0]


def _named(tables: Tables, command: Delete | DeleteCollection) -> Iterable[str]:
    """What a deletion rests on, as in Delete.depends_on."""
    if command.depends_on is not None:
        return command.depends_on
    return [resource_id for resource_id in tables.overlays() if resource_id in tables.static]


def check_readable(tables: Tables, commands: Sequence[Command]) -> None:
    """Nothing is made that may be there, and nothing deleted for what is not known. Raises UnreadableError.

    A creation waits while an object of its resource and namespace cannot be read that may be its owner's. A deletion
    waits while its object cannot be read, or one that it depends on: of a whole table those of its namespace, and all
    of a cluster-scoped resource, but those of other owners.
    """
    if not tables.has_unreadable():
        return
    for command in commands:
        match command:
            case Create(resource, namespace, body, subresource=""):
                overlay = tables.overlay(resource)
                if overlay is not None and (doubts := overlay.table.unreadable()):
                    owner = controller_of(decode_object(body))
                    _refuse(overlay.table, doubts, namespace, owner="" if owner is None else owner.uid)
            case Delete() | DeleteCollection():
                _check_deletion(tables, command)


def _check_deletion(tables: Tables, command: Delete | DeleteCollection) -> None:
    key = command.key if isinstance(command, Delete) else make_key(command.namespace, "")
    namespace = split_key(key)[0]
    own = tables.overlay(command.resource)
    doomed = None if own is None else own.get(key)
    for one in [f"{command.resource} {key}", *_named(tables, command)]:
        resource_id, _, named = one.partition(" ")
        overlay = tables.overlay(resource_id)
        doubts = overlay.table.unreadable() if overlay is not None else []
        if overlay is None or not doubts:
            continue
        if named:
            _refuse(overlay.table, [each for each in doubts if each.key == named], split_key(named)[0])
        elif resource_id == command.resource and doomed is not None and doomed.controller is not None:
            _refuse(overlay.table, doubts, namespace, owner=doomed.controller.uid)
        else:
            _refuse(overlay.table, doubts, namespace)


def _refuse(table: AnyTable, doubts: Iterable[Unreadable], namespace: str, *, owner: str = "") -> None:
    """Raises UnreadableError for the first that is in this namespace, or in none, and may be of that owner."""
    for one in doubts:
        where = split_key(one.key)[0]
        if (not where or not namespace or where == namespace) and (not owner or one.may_be_of(owner)):
            raise UnreadableError(table.resource, one)
