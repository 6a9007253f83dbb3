"""Stand-in for the garbage collector: dependents are deleted in the same commit as their owner.

Source: the rules of kubernetes pkg/controller/garbagecollector/garbagecollector.go (v1.36), attemptToDeleteItem and
attemptToOrphan. Differs: an owner of a kind that is not served counts as existing.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.objects import Key, Object, decode_object, make_key, split_key
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.removal import (
    BACKGROUND,
    FOREGROUND,
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    DeleteOptions,
    delete_object,
    store,
)
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

_Place = tuple[str, Key]  # storage, key


class _Reference(NamedTuple):
    """Fields of an owner reference that garbage collection uses."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool  # the owner's deletion in the foreground waits for this dependent

    @classmethod
    def of(cls, reference: Object) -> _Reference:
        api_version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        blocks = bool(reference.get("blockOwnerDeletion"))
        return cls(api_version, kind, reference.get("name", ""), reference["uid"], blocks)


class GarbageCollector:
    """Graph of owners and dependents, updated with every change; deletes or changes dependents as the rules require."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners: dict[_Place, tuple[_Reference, ...]] = {}
        self._dependents: dict[str, set[_Place]] = {}  # by owner's uid
        for storage, collection in cluster.state.collections():
            for key, record in collection.records.items():
                self._remember((storage, key), _references(record.raw))

    def react(self, change: StoreChange) -> None:
        place = (change.storage, change.key)
        before = self._owners.get(place, ())
        references = () if change.type == DELETED else _references(change.raw)
        if references != before:
            self._remember(place, references)
        if change.type == DELETED:
            for dependent in self._dependents_of(decode_object(change.raw)["metadata"]["uid"]):
                self._collect(dependent)
        elif b'"deletionTimestamp"' in change.raw:
            self._finalize(place)
        if any(reference not in before for reference in references):  # the new owner may have been deleted meanwhile
            self._collect(place)
        for reference in before:
            if reference not in references:
                self._finish_owner(place, reference)

    def undo(self, change: StoreChange) -> None:
        place, references = (change.storage, change.key), _references(change.previous)
        if references != self._owners.get(place, ()):
            self._remember(place, references)

    def _remember(self, place: _Place, references: tuple[_Reference, ...]) -> None:
        for reference in self._owners.pop(place, ()):
            dependents = self._dependents.get(reference.uid, set())
            dependents.discard(place)
            if not dependents:
                self._dependents.pop(reference.uid, None)
        if references:
            self._owners[place] = self._shared(references)
            for reference in references:
                self._dependents.setdefault(reference.uid, set()).add(place)

    def _shared(self, references: tuple[_Reference, ...]) -> tuple[_Reference, ...]:
        """Return the equal references of another dependent if known, so that both share one tuple in memory."""
        sibling = next(iter(self._dependents.get(references[0].uid, ())), None)
        known = None if sibling is None else self._owners[sibling]
        return known if known == references else references

    def _dependents_of(self, uid: str) -> list[_Place]:
        return sorted(self._dependents.get(uid, ()))

    def _collect(self, place: _Place) -> None:
        """Delete a dependent if no owner keeps it; otherwise remove its references to owners that do not keep it.

        An owner does not keep a dependent if it is deleted, or if its foreground deletion waits for the dependent.
        """
        obj = self._object(place)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return
        kept, gone, waiting = [], False, False
        for reference in obj["metadata"].get("ownerReferences") or ():
            owner = self._owner(place, _Reference.of(reference))
            if owner is None:
                gone = True
            elif _waits_for_dependents(owner) and reference.get("blockOwnerDeletion"):
                waiting = True
            else:
                kept.append(reference)
        if not gone and not waiting:
            return
        if kept:
            obj["metadata"]["ownerReferences"] = kept
            self._store(place, obj)
            return
        has_dependents = obj["metadata"]["uid"] in self._dependents
        finalizers = obj["metadata"].get("finalizers") or ()
        # If no policy is requested, the object's own finalizers determine the propagation.
        propagation = FOREGROUND if waiting and has_dependents else BACKGROUND
        undecided = ORPHAN_FINALIZER in finalizers or FOREGROUND_FINALIZER in finalizers
        if propagation == FOREGROUND and self._is_in_a_circle(obj["metadata"]["uid"]):
            for reference in obj["metadata"]["ownerReferences"]:
                reference.pop("blockOwnerDeletion", None)
            self._store(place, obj)
        self._delete(place, None if undecided else propagation)

    def _is_in_a_circle(self, uid: str) -> bool:
        """Report whether a dependent of this object waits for its own dependents, and so may own this object's owners.

        As upstream, this also matches dependents outside a cycle; an owner then does not wait for this object.
        """
        return any(_waits_for_dependents(self._object(place) or {"metadata": {}}) for place in self._dependents_of(uid))

    def _finalize(self, place: _Place) -> None:
        """Apply the propagation policy of a deleted owner to its dependents.

        Remove the owner's finalizer for the policy as soon as no dependent requires it.
        """
        obj = self._object(place)
        if obj is None:
            return
        finalizers, uid = obj["metadata"].get("finalizers") or [], obj["metadata"]["uid"]
        if ORPHAN_FINALIZER in finalizers:
            for dependent in self._dependents_of(uid):
                self._orphan(dependent, uid)
            self._take_finalizer(place, obj, ORPHAN_FINALIZER)
        elif FOREGROUND_FINALIZER in finalizers:
            dependents = self._dependents_of(uid)
            for dependent in dependents:
                self._collect(dependent)
            if not any(self._blocks(dependent, uid) for dependent in self._dependents_of(uid)):
                self._take_finalizer(place, obj, FOREGROUND_FINALIZER)

    def _finish_owner(self, dependent: _Place, reference: _Reference) -> None:
        """Finish the deletion of an owner that may have waited for a dependent.

        Called when the dependent was deleted, dropped the reference, or no longer blocks the owner's deletion.
        """
        place = self._place(dependent, reference)
        obj = self._object(place) if place else None
        if place and obj is not None and obj["metadata"]["uid"] == reference.uid and _waits_for_dependents(obj):
            self._finalize(place)

    def _orphan(self, place: _Place, uid: str) -> None:
        obj = self._object(place)
        if obj is not None:
            references = obj["metadata"].get("ownerReferences") or ()
            obj["metadata"]["ownerReferences"] = [reference for reference in references if reference["uid"] != uid]
            if not obj["metadata"]["ownerReferences"]:
                del obj["metadata"]["ownerReferences"]
            self._store(place, obj)

    def _blocks(self, place: _Place, uid: str) -> bool:
        obj = self._object(place)
        references = (obj or {}).get("metadata", {}).get("ownerReferences") or ()
        return any(reference["uid"] == uid and reference.get("blockOwnerDeletion") for reference in references)

    def _take_finalizer(self, place: _Place, obj: Object, finalizer: str) -> None:
        finalizers = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        if finalizers:
            obj["metadata"]["finalizers"] = finalizers
        else:
            del obj["metadata"]["finalizers"]
        self._store(place, obj)

    def _place(self, dependent: _Place, reference: _Reference) -> _Place | None:
        """Return the storage and key of an owner; None if its kind is not served."""
        definition = self._cluster.registry.of_kind(reference.api_version, reference.kind)
        if definition is None:
            return None
        namespace = split_key(dependent[1])[0] if definition.namespaced else ""
        return definition.storage, make_key(namespace, reference.name)

    def _owner(self, dependent: _Place, reference: _Reference) -> Object | None:
        """Return the owner that a reference names, or {} if its kind is not served.

        Return None if the owner is deleted, or another object has its name.
        """
        place = self._place(dependent, reference)
        if place is None:
            return {}
        record = self._cluster.state.get(*place)
        if record is None or reference.uid.encode() not in record.raw:
            return None
        owner = decode_object(record.raw)
        return owner if owner["metadata"]["uid"] == reference.uid else None

    def _object(self, place: _Place) -> Object | None:
        record = self._cluster.state.get(*place)
        return None if record is None else decode_object(record.raw)

    def _store(self, place: _Place, obj: Object) -> None:
        definition = self._cluster.registry.of_storage(place[0])
        if definition is not None:
            store(self._cluster, definition, place[1], obj)

    def _delete(self, place: _Place, propagation: str | None) -> None:
        definition = self._cluster.registry.of_storage(place[0])
        if definition is not None:
            delete_object(self._cluster, definition, place[1], DeleteOptions(propagation=propagation))


def _references(raw: bytes) -> tuple[_Reference, ...]:
    if b'"ownerReferences"' not in raw:
        return ()
    references = decode_object(raw)["metadata"].get("ownerReferences") or ()
    return tuple(_Reference.of(reference) for reference in references if reference.get("uid"))


def _waits_for_dependents(owner: Object) -> bool:
    meta = owner.get("metadata") or {}
    return "deletionTimestamp" in meta and FOREGROUND_FINALIZER in (meta.get("finalizers") or ())
