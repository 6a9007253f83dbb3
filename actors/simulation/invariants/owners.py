"""Owners of the pods that a command concerns, as the submitting process has observed them."""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation.invariants.ownership import OwnershipIndex
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.objects import (
    Key,
    OwnerRef,
    controller_of,
    decode_object,
    key_of,
    make_key,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import PODS


class _Returned(NamedTuple):
    """Owner in a response of the server.

    version: resourceVersion.
    epoch: epoch of the owner's informer cache at that time. A cache begins a new epoch when versions are no longer
        comparable.
    wanted: number of pods that its spec requests.
    """

    uid: str
    version: int
    epoch: int
    wanted: int


class Owners:
    """Owners whose spec requests a number of pods, as one process has observed them in its caches and in responses.

    A cache may be behind: it may contain an older version of an owner, or a deleted owner of the same name. Then a
    newer response takes precedence.
    """

    def __init__(self, system: ControllerSystem, ownership: OwnershipIndex) -> None:
        self._tables, self._ownership = system.tables, ownership
        self._named: dict[tuple[str, Key], _Returned] = {}  # by resource and key
        self._known: dict[str, _Returned] = {}  # by uid

    def returned(self, command: Get | Update, body: bytes) -> None:
        """Record an owner in the response to a read or a write. body: the encoded object."""
        owner, table = decode_object(body), self._tables[command.resource]
        wanted = self._ownership.replicas(owner, table.resource.kind)
        found = _Returned(uid_of(owner), int(resource_version_of(owner)), table.epoch, wanted)
        self._named[command.resource, key_of(owner)] = self._known[found.uid] = found

    def named(self, resource: str, key: Key) -> OwnerRef | None:
        """Return the owner with this key in its newest known version; None if it is unknown."""
        table = self._tables.get(resource)
        if table is None:
            return None
        entry, returned = table.get(key), self._named.get((resource, key))
        uid = "" if entry is None else entry.uid
        if returned is not None and returned.epoch == table.epoch and returned.version > table.version:
            uid = returned.uid
        return OwnerRef(table.resource.api_version, table.resource.kind, split_key(key)[1], uid) if uid else None

    def wanted(self, namespace: str, owner: OwnerRef) -> list[int]:
        """Return the numbers of pods that the owner requests in its cache and in a newer response; empty if unknown."""
        table = self._tables[self._ownership.counted[owner.kind].owner.id]
        entry, returned = table.get(make_key(namespace, owner.name)), self._known.get(owner.uid)
        wanted = []
        if entry is not None and entry.uid == owner.uid:
            wanted.append(self._ownership.replicas(table.object_of(entry), owner.kind))
        if returned is not None and returned.epoch == table.epoch and returned.version > table.version:
            wanted.append(returned.wanted)
        return wanted

    def version(self, uid: str) -> int:
        """Return the newest resourceVersion of an owner in responses; 0 if no response contained it."""
        returned = self._known.get(uid)
        return 0 if returned is None else returned.version

    def concerned(self, command: Command) -> tuple[str, OwnerRef] | None:
        """Return (namespace, owner) for a command on a pod or on an owner; None for other commands.

        The owner of a pod follows from the command itself or from the process's informer cache of pods.
        """
        match command:
            case Create(PODS.id, namespace, body, subresource=""):
                owner = controller_of(decode_object(body))
                return None if owner is None else (namespace, owner)
            case Delete(PODS.id, key) | Get(PODS.id, key) | Patch(PODS.id, key):
                pods = self._tables.get(PODS.id)
                entry = pods.get(key) if pods is not None else None
                owner = entry.controller if entry is not None else None
                return adopter(command) or (None if owner is None else (split_key(key)[0], owner))
            case Get(resource, key) | Update(resource, key) if resource in self._ownership.counted_ids:
                owner = self.named(resource, key)
                return None if owner is None else (split_key(key)[0], owner)
        return None


def adopter(command: Command) -> tuple[str, OwnerRef] | None:
    """Return (namespace, new owner) if the command is a patch by which an owner adopts a pod; otherwise None."""
    if not isinstance(command, Patch) or command.resource != PODS.id or b'"ownerReferences"' not in command.body:
        return None
    owner = controller_of(decode_object(command.body))
    return None if owner is None else (split_key(command.key)[0], owner)
