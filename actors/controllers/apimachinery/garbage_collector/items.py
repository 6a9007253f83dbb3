"""The type of the garbage collector's queue keys, and the function that maps changes of objects to keys.

There is no owner graph in memory: the dependents of an owner are found with the informer caches' index of owner uids.

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

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"  # finalizers that the garbage collector handles
FINALIZERS = frozenset({FOREGROUND, ORPHAN})
COLLECTED = frozenset({"delete", "list", "watch"})  # verbs that a resource must support to be collected
EVENTS = frozenset({"", "events.k8s.io"})  # API groups of Events, which are not collected

# Changes that are observed: additions, deletions, changed owner references, and all updates of objects with one of the
# finalizers above.
INTERESTS = (Interest(owners=True), Interest(types=(EventType.MODIFIED,), finalizers=tuple(sorted(FINALIZERS))))


class Item(NamedTuple):
    """Identity of an object in the garbage collector's queues: resource, key and uid. The object need not exist."""

    resource: str  # Resource.id
    key: Key
    uid: str
    removed: bool = False  # only in queue keys: the object, or its whole table, was removed from the tables

    def __str__(self) -> str:
        return f"{name_of_resource(self.resource)} {self.key} {self.uid}"


def namespace_of_item(item: Item) -> str:
    """Return the namespace of an item, as its fairness group: the queues serve namespaces round robin."""
    return split_key(item.key)[0]


def is_collected(served: ServedResource) -> bool:
    return COLLECTED.issubset(served.verbs) and not (served.plural == "events" and served.group in EVENTS)


def references_of(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return metadata(obj).get("ownerReferences") or ()


def owner_key(of: Resource, item: Key, name: str) -> Key:
    """Return the key of the owner with this name.

    of: resource of the owner. item: key of the dependent, whose namespace is the owner's, unless the owner's resource
        is cluster-scoped.
    """
    return make_key(split_key(item)[0] if of.namespaced else "", name)


def find_owner(
    tables: Tables, item: Key, *, api_version: str, kind: str, name: str, uid: str
) -> tuple[Lister, Entry] | None:
    """Look up an owner in the informer caches, by the fields of an owner reference.

    item: key of the object that has the owner reference.

    Returns None if no cache contains the owner.
    """
    lister = tables.of_kind(api_version, kind)
    entry = None if lister is None else lister.entry(owner_key(lister.resource, item, name))
    return None if lister is None or entry is None or entry.uid != uid else (lister, entry)


def waits_for_dependents(lister: Lister, entry: Entry) -> bool:
    """Report whether a foreground deletion of the object is waiting for its dependents to be deleted."""
    return FOREGROUND in entry.finalizers and is_deleting(lister, entry)


def is_deleting(lister: Lister, entry: Entry) -> bool:
    # The bytes are searched first, because decoding the thousands of dependents that an owner may have takes long.
    return b'"deletionTimestamp"' in entry.raw and is_being_deleted(lister.object_of(entry))


def keys_of_change(resource: Resource, change: Change, tables: Tables) -> Iterable[Item]:
    """Yield the keys to enqueue for a change of an object.

    - the object itself, if one of its owners is not in the informer caches or waits for its dependents, or if the
      object has the finalizer foregroundDeletion or orphan
    - the owners whose foreground deletion the object does not block any more
    - the object with removed=True, if it was deleted and has dependents

    Source: processGraphChanges.
    """
    if change.type == EventType.DELETED:
        yield from _keys_of_deletion(resource, change.key, change.new, tables)
        return
    entry = tables[resource].entry(change.key)
    if entry is not None:
        waits = bool(entry.finalizers) and not FINALIZERS.isdisjoint(entry.finalizers)
        if waits or not _has_all_owners(entry, change, tables):
            yield Item(resource.id, change.key, entry.uid)
    before = change.old
    if before is None:
        return
    uid = metadata(before).get("uid") or ""
    if uid != (metadata(change.new).get("uid") or ""):
        yield from _keys_of_deletion(resource, change.key, before, tables)
        return
    still_blocking = {
        reference.get("uid") for reference in references_of(change.new) if reference.get("blockOwnerDeletion")
    }
    left = [
        reference
        for reference in references_of(before)
        if reference.get("blockOwnerDeletion") and reference.get("uid") not in still_blocking
    ]
    yield from _waiting_owners(left, change.key, tables)


def _keys_of_deletion(resource: Resource, key: Key, obj: Object, tables: Tables) -> Iterator[Item]:
    uid = metadata(obj).get("uid") or ""
    if uid and tables.has_dependents(uid):
        yield Item(resource.id, key, uid, removed=True)
    yield from _waiting_owners(references_of(obj), key, tables)


def _waiting_owners(references: Iterable[Mapping[str, Any]], key: Key, tables: Tables) -> Iterator[Item]:
    for reference in references:
        found = _owner(tables, key, reference)
        if found is not None and waits_for_dependents(*found):
            lister, entry = found
            yield Item(lister.resource.id, entry.key, entry.uid)


def _has_all_owners(entry: Entry, change: Change, tables: Tables) -> bool:
    """Report whether all owners of the object are in the informer caches, and none waits for its dependents.

    This is called for most changes, so an object with a single owner is not decoded.
    """
    if any(index == FURTHER_OWNER for index, _ in entry.values):
        return all(_is_solid(_owner(tables, entry.key, reference)) for reference in references_of(change.new))
    owner = entry.controller
    if owner is None:
        return True
    return _is_solid(
        find_owner(tables, entry.key, api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
    )


def _is_solid(found: tuple[Lister, Entry] | None) -> bool:
    return found is not None and not waits_for_dependents(*found)


def _owner(tables: Tables, key: Key, reference: Mapping[str, Any]) -> tuple[Lister, Entry] | None:
    return find_owner(
        tables,
        key,
        api_version=reference.get("apiVersion") or "",
        kind=reference.get("kind") or "",
        name=reference.get("name") or "",
        uid=reference.get("uid") or "",
    )
