"""The owner references of one object with the state of each owner, and the patches that change them.

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
    SOLID = auto()  # it exists
    WAITING = auto()  # it is being deleted in the foreground
    ABSENT = auto()  # it does not exist
    UNSEEN = auto()  # no table shows it, and the server has not been asked
    UNKNOWN_KIND = auto()  # its kind is not served
    MISPLACED = auto()  # a namespaced owner of a cluster-scoped dependent


class Owner(NamedTuple):
    """Owner that a reference names."""

    state: OwnerState
    item: Item | None = None  # None if its kind is not served


class OwnerReferences:
    """The references of one object, each with its owner."""

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
    """Return a patch that removes the references to these owners.

    strategic: a strategic merge patch; otherwise a JSON merge patch with the resourceVersion as precondition.
    """
    if strategic:
        gone = [{"$patch": "delete", "uid": uid} for uid in uids]
        return _strategic(resource, obj, gone)
    return _merge(resource, obj, [reference for reference in references_of(obj) if reference.get("uid") not in uids])


def unblocking(resource: Resource, obj: Object, *, strategic: bool) -> Patch:
    """Return a patch after which the object blocks no owner. Source: unblockOwnerReferencesStrategicMergePatch."""
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
