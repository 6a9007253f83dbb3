"""Owners of the pods that commands concern, by the information of the submitting process."""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation.invariants.ownership import Ownership
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
    """Owner as the server returned it.

    epoch: epoch of the table at that time; versions of different epochs cannot be compared.
    """

    uid: str
    version: int
    epoch: int
    wanted: int


class Owners:
    """Owners with a number of pods, by the tables of one process and the responses that it received.

    A table may be late: it may contain an older version of an owner, or a deleted owner of the same name.
    """

    def __init__(self, system: ControllerSystem, ownership: Ownership) -> None:
        self._tables, self._ownership = system.tables, ownership
        self._named: dict[tuple[str, Key], _Returned] = {}  # by resource and key
        self._known: dict[str, _Returned] = {}  # by uid

    def returned(self, command: Get | Update, body: bytes) -> None:
        """Record the response to a read or a write of an owner."""
        owner, table = decode_object(body), self._tables[command.resource]
        wanted = self._ownership.replicas(owner, table.resource.kind)
        found = _Returned(uid_of(owner), int(resource_version_of(owner)), table.epoch, wanted)
        self._named[command.resource, key_of(owner)] = self._known[found.uid] = found

    def named(self, resource: str, key: Key) -> OwnerRef | None:
        """Return the newest known owner of this name; None if it is unknown."""
        table = self._tables.get(resource)
        if table is None:
            return None
        entry, returned = table.get(key), self._named.get((resource, key))
        uid = "" if entry is None else entry.uid
        if returned is not None and returned.epoch == table.epoch and returned.version > table.version:
            uid = returned.uid
        return OwnerRef(table.resource.api_version, table.resource.kind, split_key(key)[1], uid) if uid else None

    def wanted(self, namespace: str, owner: OwnerRef) -> list[int]:
        """Return the possible replicas of the owner, by its table and by responses; empty for an unknown owner."""
        table = self._tables[self._ownership.counted[owner.kind].owner.id]
        entry, returned = table.get(make_key(namespace, owner.name)), self._known.get(owner.uid)
        wanted = []
        if entry is not None and entry.uid == owner.uid:
            wanted.append(self._ownership.replicas(table.object_of(entry), owner.kind))
        if returned is not None and returned.epoch == table.epoch and returned.version > table.version:
            wanted.append(returned.wanted)
        return wanted

    def version(self, uid: str) -> int:
        """Return the newest version of the owner that the server returned; 0 for none."""
        returned = self._known.get(uid)
        return 0 if returned is None else returned.version

    def concerned(self, command: Command) -> tuple[str, OwnerRef] | None:
        """Return (namespace, owner) of the pod, or the owner itself, that a command concerns; otherwise None.

        The owner follows from the command itself or from the process's tables.
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
    """Return (namespace, owner) if the command lets an owner adopt a pod; otherwise None."""
    if not isinstance(command, Patch) or command.resource != PODS.id:
        return None
    owner = controller_of(decode_object(command.body))
    return None if owner is None else (split_key(command.key)[0], owner)
