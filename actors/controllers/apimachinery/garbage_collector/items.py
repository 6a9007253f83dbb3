"""The keys of the garbage collector, and the keys that a change enqueues.

There is no owner graph in memory: dependents are found by the tables' index of owners.

Source: kubernetes v1.36 pkg/controller/garbagecollector/graph_builder.go, processGraphChanges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.reconciliation import Change
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.watches import EventType, Interest
from kcm.protocols.objects import Key, Object, make_key, metadata, split_key
from kcm.protocols.objects import is_deleting as is_being_deleted
from kcm.protocols.resources import Resource, name_of_resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import FURTHER_OWNER, Entry
from kcm.runtime.tables.tables import Tables

DELETE_QUEUE = "garbage_collector_attempt_to_delete"
LOOKUP_QUEUE = "garbage_collector_look_up_owners"
ORPHAN_QUEUE = "garbage_collector_attempt_to_orphan"

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"  # the finalizers
FINALIZERS = frozenset({FOREGROUND, ORPHAN})
COLLECTED = frozenset({"delete", "list", "watch"})  # verbs that a resource must support to be collected
EVENTS = frozenset({"", "events.k8s.io"})  # API groups whose events are ignored

# Additions, deletions, changed owner references, and deletions that wait for one of the finalizers above.
INTERESTS = (Interest(owners=True), Interest(types=(EventType.MODIFIED,), finalizers=tuple(sorted(FINALIZERS))))


class Item(NamedTuple):
    """Coordinates of an object, which may or may not exist."""

    resource: str  # Resource.id
    key: Key
    uid: str
    gone: bool = False  # only in keys: the object was removed from its table, or the table was

    def __str__(self) -> str:
        return f"{name_of_resource(self.resource)} {self.key} {self.uid}"


def turn_of(item: Item) -> str:
    """Return the namespace, so that the queues are fair between namespaces."""
    return split_key(item.key)[0]


def is_collected(served: ServedResource) -> bool:
    return COLLECTED.issubset(served.verbs) and not (served.plural == "events" and served.group in EVENTS)


def references_of(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return metadata(obj).get("ownerReferences") or ()


def owner_key(of: Resource, item: Key, name: str) -> Key:
    """Return the key of an owner: in the namespace of its dependent, unless its kind is cluster-scoped."""
    return make_key(split_key(item)[0] if of.namespaced else "", name)


def shown(
    tables: Tables, item: Key, *, api_version: str, kind: str, name: str, uid: str
) -> tuple[Lister, Entry] | None:
    """Return the owner that a reference of this object names; None if it is in no table."""
    lister = tables.of_kind(api_version, kind)
    entry = None if lister is None else lister.entry(owner_key(lister.resource, item, name))
    return None if lister is None or entry is None or entry.uid != uid else (lister, entry)


def waits_for_dependents(lister: Lister, entry: Entry) -> bool:
    """Report whether the object is being deleted in the foreground."""
    return FOREGROUND in entry.finalizers and is_deleting(lister, entry)


def is_deleting(lister: Lister, entry: Entry) -> bool:
    # The bytes are searched first: of thousands of dependents only the few that match are decoded.
    return b'"deletionTimestamp"' in entry.raw and is_being_deleted(lister.object_of(entry))


def concerned(resource: Resource, change: Change, tables: Tables) -> Iterable[Item]:
    """Return the keys that a change enqueues.

    These are the object itself if its owners must be checked or it has one of the finalizers, the owners that waited
    for it, and the object as `gone` if it was deleted and has dependents. Source: processGraphChanges.
    """
    if change.type == EventType.DELETED:
        yield from _gone(resource, change.key, change.new, tables)
        return
    entry = tables[resource].entry(change.key)
    if entry is not None:
        waits = bool(entry.finalizers) and not FINALIZERS.isdisjoint(entry.finalizers)
        if waits or not _has_its_owners(entry, change, tables):
            yield Item(resource.id, change.key, entry.uid)
    before = change.old
    if before is None:
        return
    uid = metadata(before).get("uid") or ""
    if uid != (metadata(change.new).get("uid") or ""):
        yield from _gone(resource, change.key, before, tables)
        return
    still_blocking = {
        reference.get("uid") for reference in references_of(change.new) if reference.get("blockOwnerDeletion")
    }
    left = [
        reference
        for reference in references_of(before)
        if reference.get("blockOwnerDeletion") and reference.get("uid") not in still_blocking
    ]
    yield from _that_wait(left, change.key, tables)


def _gone(resource: Resource, key: Key, obj: Object, tables: Tables) -> Iterator[Item]:
    uid = metadata(obj).get("uid") or ""
    if uid and tables.has_dependents(uid):
        yield Item(resource.id, key, uid, gone=True)
    yield from _that_wait(references_of(obj), key, tables)


def _that_wait(references: Iterable[Mapping[str, Any]], key: Key, tables: Tables) -> Iterator[Item]:
    for reference in references:
        found = _owner(tables, key, reference)
        if found is not None and waits_for_dependents(*found):
            lister, entry = found
            yield Item(lister.resource.id, entry.key, entry.uid)


def _has_its_owners(entry: Entry, change: Change, tables: Tables) -> bool:
    """Report whether all owners are in the tables and none of them waits for its dependents.

    This is true for most changes, so nothing is decoded for an object with one owner.
    """
    if any(index == FURTHER_OWNER for index, _ in entry.values):
        return all(_stays(_owner(tables, entry.key, reference)) for reference in references_of(change.new))
    owner = entry.controller
    if owner is None:
        return True
    return _stays(
        shown(tables, entry.key, api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
    )


def _stays(found: tuple[Lister, Entry] | None) -> bool:
    return found is not None and not waits_for_dependents(*found)


def _owner(tables: Tables, key: Key, reference: Mapping[str, Any]) -> tuple[Lister, Entry] | None:
    return shown(
        tables,
        key,
        api_version=reference.get("apiVersion") or "",
        kind=reference.get("kind") or "",
        name=reference.get("name") or "",
        uid=reference.get("uid") or "",
    )
