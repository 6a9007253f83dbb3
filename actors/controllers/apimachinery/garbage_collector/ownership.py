"""The owner references of one object with the state of each owner, and patches of owner references.

Source: kubernetes v1.36 pkg/controller/garbagecollector/{garbagecollector,patch}.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item, references_of
from kcm.actors.reconciliation import patch
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.objects import Object, key_of, resource_version_of, uid_of
from kcm.protocols.resources import Resource

Reference = Mapping[str, Any]


class OwnerState(Enum):
    """State of the owner that an owner reference names."""

    SOLID = auto()  # it exists and does not wait for its dependents
    WAITING = auto()  # it exists, and its foreground deletion waits for its dependents
    ABSENT = auto()  # it does not exist
    UNSEEN = auto()  # it is in no table, and was not read live yet
    UNKNOWN_KIND = auto()  # its kind is not served, so it cannot be looked up
    MISPLACED = auto()  # it is namespaced, but its dependent is cluster-scoped, so its namespace is unknown


class Owner(NamedTuple):
    """Owner that an owner reference names, and whether it exists."""

    state: OwnerState
    item: Item | None = None  # identity of the owner; None if its kind is not served


class OwnerReferences:
    """The owner references of one object, each with the state of its owner."""

    def __init__(self, found: Iterable[tuple[Reference, Owner]]) -> None:
        self._found = list(found)

    def of(self, *states: OwnerState) -> list[Reference]:
        return [reference for reference, owner in self._found if owner.state in states]

    def items(self, state: OwnerState) -> list[tuple[Reference, Item]]:
        return [
            (reference, owner.item)
            for reference, owner in self._found
            if owner.state is state and owner.item is not None
        ]

    def has(self, *states: OwnerState) -> bool:
        return any(owner.state in states for _, owner in self._found)


def without_owners(resource: Resource, obj: Object, uids: Collection[str], *, strategic: bool) -> Patch:
    """Return a patch that removes the object's references to the owners with these uids.

    strategic: whether to return a strategic merge patch; otherwise a JSON merge patch with the resourceVersion as
        precondition.
    """
    if strategic:
        removals = [{"$patch": "delete", "uid": uid} for uid in uids]
        return _strategic(resource, obj, removals)
    return _merge(resource, obj, [reference for reference in references_of(obj) if reference.get("uid") not in uids])


def without_blocking(resource: Resource, obj: Object, *, strategic: bool) -> Patch:
    """Return a patch that sets blockOwnerDeletion to false in the object's owner references.

    strategic: as in without_owners. Source: unblockOwnerReferencesStrategicMergePatch.
    """
    references = references_of(obj)
    if strategic:
        blocking = [reference for reference in references if reference.get("blockOwnerDeletion")]
        return _strategic(resource, obj, [{**reference, "blockOwnerDeletion": False} for reference in blocking])
    return _merge(resource, obj, [{**reference, "blockOwnerDeletion": False} for reference in references])


def _strategic(resource: Resource, obj: Object, references: Sequence[Reference]) -> Patch:
    # The uid is a precondition of the patch.
    body = {"metadata": {"uid": uid_of(obj), "ownerReferences": references}}
    return patch(resource, key_of(obj), body, patch_type=PatchType.STRATEGIC)


def _merge(resource: Resource, obj: Object, references: Sequence[Reference]) -> Patch:
    body = {"metadata": {"resourceVersion": resource_version_of(obj), "ownerReferences": references or None}}
    return patch(resource, key_of(obj), body)
