"""Ownership of objects, by the uid of the controller owner reference, never by a name.

An object of the expected name may belong to a deleted predecessor or to another owner. None of these functions adopts
an object without a controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kcm.protocols.arguments import check_type
from kcm.protocols.models import as_object
from kcm.protocols.objects import (
    Object,
    controller_of,
    key_of,
    metadata,
    name_of,
    namespace_of,
    owner_reference,
    uid_of,
)
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister, check_lister

M = TypeVar("M")
N = TypeVar("N")


def own(child: Mapping[str, Any] | M, *, by: Mapping[str, Any] | N, of: Resource[N]) -> Object:
    """Return a copy of the child with the object `by` of the resource `of` as its controller.

    A child without a namespace gets the namespace of its owner. Raises ValueError for a child that the server would
    reject or the garbage collector delete: if the owner is in another namespace, the owner has no uid (it was not
    read), or the child has another controller.
    """
    check_type("of=… of own", of, Resource, "the Resource of the owner")
    child, by = as_object(child), as_object(by)
    uid, namespace = uid_of(by), namespace_of(by)
    if not uid:
        raise ValueError(f"{of.kind} {key_of(by)} has no uid: an owner is an object that was read")
    meta: Object = {**metadata(child)}
    if namespace:
        its = meta.get("namespace") or namespace
        if its != namespace:
            raise ValueError(f"{of.kind} {key_of(by)} cannot own {name_of(child)!r} in another namespace, {its!r}")
        meta["namespace"] = namespace
    references = [owner_reference(by, api_version=of.api_version, kind=of.kind)]
    if meta.get("ownerReferences"):
        former = controller_of(child)
        if former is not None and former.uid != uid:
            raise ValueError(f"{name_of(child)!r} has a controller already, {former.kind} {former.name} ({former.uid})")
        references[:0] = [each for each in meta["ownerReferences"] if each.get("uid") != uid]
    meta["ownerReferences"] = references
    return {**child, "metadata": meta}


def owned(lister: Lister[M], *, by: Any) -> list[M]:
    """Return the objects whose controller is `by`, compared by uid, in all namespaces and in no particular order."""
    check_lister("owned", lister)
    return lister.owned_by(uid_of(as_object(by)))


def controlled_by(obj: Any, owner: Any) -> bool:
    """Report whether the object's controller is this owner, compared by uid."""
    controller = controller_of(as_object(obj))
    return controller is not None and controller.uid == uid_of(as_object(owner))
