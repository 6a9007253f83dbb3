"""Readiness of a controller: its tables are synced and contain the writes of its earlier incarnations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcm.protocols.messages.commands import Command, Create, Delete, DeleteCollection
from kcm.protocols.objects import controller_of, decode_object, make_key, split_key
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import AnyTable, tables_of


class Readiness:
    """Conditions for the first reconciliation of an incarnation, and for reading the table of a discovered resource.

    The first reconciliation waits for static tables only.

    unsynced: ids of the tables whose informer has not sent Synced yet.
    attached: the dispatcher has confirmed that no command of an earlier incarnation is in flight.
    """

    def __init__(self, tables: Mapping[str, AnyTable]) -> None:
        """Begin to wait for these tables. tables: static tables by Resource.id."""
        self._tables = tables
        self.unsynced = {part.id for table in tables.values() for part in tables_of(table)}
        self.attached = False
        self._barrier: dict[str, tuple[int, int]] = {}  # Resource.id → (epoch, version) that its table must reach
        self._versions: Mapping[str, int] = {}  # versions in Attached

    def attach(self, versions: Mapping[str, int]) -> None:
        """Handle Attached of the dispatcher.

        versions: newest version in a response to this controller, by Resource.id, also for resources that it does not
            read.
        """
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
        """Report whether a discovered resource's table is synced and contains the writes of earlier incarnations.

        epoch: epoch of the table when the controller first saw it. Versions of different epochs are not comparable.
        """
        if not self.attached or not table.synced:
            return False
        return table.epoch != epoch or table.version >= self._versions.get(table.resource.id, 0)

    @property
    def waits_for_versions(self) -> bool:
        """Report whether a table must still reach a version. No message announces that, so the controller polls."""
        return bool(self._barrier)

    def missing_versions(self) -> dict[str, int]:
        """Return the version that a table must reach, by Resource.id."""
        return {resource_id: version for resource_id, (_, version) in self._barrier.items()}


class StaleTableError(RuntimeError):
    """A deletion was not sent, because a table that it depends on is stale or missing. It is retried later.

    resource_id: Resource.id of the table.
    """

    def __init__(self, text: str, resource_id: str) -> None:
        super().__init__(text)
        self.resource_id = resource_id


def check_freshness(tables: Tables, commands: Sequence[Command], *, now: float, stale_after: float) -> None:
    """Check that the tables that these deletions depend on are current. Raises StaleTableError."""
    for resource_id in dict.fromkeys(_depended_on(tables, commands)):
        overlay = tables.overlay(resource_id)
        if overlay is None:
            raise StaleTableError(f"there is no table of {resource_id}", resource_id)
        table = overlay.table
        age = table.age(now)
        if age is None or not table.synced:
            raise StaleTableError(f"the table of {table} has not heard from the server yet", resource_id)
        if age > stale_after:
            raise StaleTableError(f"the table of {table} is {age:.0f} s old", resource_id)


def _depended_on(tables: Tables, commands: Sequence[Command]) -> Iterable[str]:
    """Yield the Resource.ids of tables that deletions depend on."""
    for command in commands:
        if isinstance(command, (Delete, DeleteCollection)):
            for dependency in _named(tables, command):
                yield dependency.partition(" ")[0]


def _named(tables: Tables, command: Delete | DeleteCollection) -> Iterable[str]:
    """Return the dependencies of a deletion, in the form of Delete.depends_on."""
    if command.depends_on is not None:
        return command.depends_on
    return [resource_id for resource_id in tables.overlays() if resource_id in tables.static]


def check_readable(tables: Tables, commands: Sequence[Command]) -> None:
    """Refuse creations and deletions that unreadable objects might make wrong. Raises UnreadableError.

    A creation waits while its namespace contains an unreadable object of the same resource that may belong to its
    owner, because that may be the object to create. A deletion waits while its object is unreadable, or an object that
    it depends on. If it depends on a whole table, these are the objects in its namespace and cluster-scoped ones,
    except those of other owners.
    """
    if not tables.has_unreadable():
        return
    for command in commands:
        match command:
            case Create(resource, namespace, body, subresource=""):
                overlay = tables.overlay(resource)
                if overlay is not None and (unreadable := overlay.table.unreadable()):
                    owner = controller_of(decode_object(body))
                    _refuse(overlay.table, unreadable, namespace, owner="" if owner is None else owner.uid)
            case Delete() | DeleteCollection():
                _check_deletion(tables, command)


def _check_deletion(tables: Tables, command: Delete | DeleteCollection) -> None:
    key = command.key if isinstance(command, Delete) else make_key(command.namespace, "")
    namespace = split_key(key)[0]
    own = tables.overlay(command.resource)
    target = None if own is None else own.get(key)
    for dependency in [f"{command.resource} {key}", *_named(tables, command)]:
        resource_id, _, named = dependency.partition(" ")
        overlay = tables.overlay(resource_id)
        doubts = overlay.table.unreadable() if overlay is not None else []
        if overlay is None or not doubts:
            continue
        if named:
            _refuse(overlay.table, [obj for obj in doubts if obj.key == named], split_key(named)[0])
        elif resource_id == command.resource and target is not None and target.controller is not None:
            _refuse(overlay.table, doubts, namespace, owner=target.controller.uid)
        else:
            _refuse(overlay.table, doubts, namespace)


def _refuse(table: AnyTable, unreadable: Iterable[Unreadable], namespace: str, *, owner: str = "") -> None:
    """Raise UnreadableError for the first object in this namespace, or cluster-scoped, that may belong to the owner."""
    for obj in unreadable:
        where = split_key(obj.key)[0]
        if (not where or not namespace or where == namespace) and (not owner or obj.may_be_of(owner)):
            raise UnreadableError(table.resource, obj)
