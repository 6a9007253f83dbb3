"""OwnerReferencesPermissionEnforcement: require permissions of a user who changes owner references.

A change of an object's owner references requires permission to delete the object, and blockOwnerDeletion requires
permission to update the finalizers of the owner.

Source: kubernetes plugin/pkg/admission/gc/gc_admission.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.users import Access, Decision

_NEVER_CHANGED = ("pods", "status")  # resource and subresource whose updates cannot change owner references
_ANY_FINALIZERS = {
    "verb": "update",
    "group": "*",
    "version": "*",
    "resource": "*",
    "subresource": "finalizers",
    "name": "*",
}


def validate(cluster: Cluster, call: RoutedRequest, new: Object, old: Object | None = None) -> None:
    """Check the user's permissions if a request sets or changes owner references. Raises StatusError (403)."""
    definition, route = call.definition, call.route
    before = [] if old is None else _owners(old)
    if (definition.storage, route.subresource) == _NEVER_CHANGED or _owners(new) == before:
        return
    if old is not None:
        deletion = {
            "verb": "delete",
            "group": definition.group,
            "version": definition.version,
            "resource": definition.plural,
            "subresource": route.subresource,
            "namespace": route.namespace,
            "name": route.name,
        }
        _require(cluster, call, new, deletion, "cannot set an ownerRef on a resource you can't delete")
    blocked = _newly_blocked(_owners(new), before)
    if not blocked or _may(cluster, call, _ANY_FINALIZERS).allowed:
        return
    because = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    for owner in blocked:
        for wanted in _finalizers_of(cluster, call, new, owner):
            _require(cluster, call, new, wanted, because)


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _newly_blocked(owners: list[Object], before: list[Object]) -> list[Object]:
    blocked_before = {owner.get("uid") for owner in before if owner.get("blockOwnerDeletion")}
    return [owner for owner in owners if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked_before]


def _finalizers_of(cluster: Cluster, call: RoutedRequest, new: Object, owner: Object) -> Iterator[dict[str, Any]]:
    """Yield the authorization attributes of an update of an owner's finalizers.

    Raises StatusError (403) if the owner's kind is unknown.
    """
    version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    definition = cluster.registry.of_kind(version, kind)
    if definition is None:
        raise _forbidden(
            call,
            new,
            f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind "
            f"{kind}: no matches for kind {quoted(kind)} in version {quoted(version)}",
        )
    yield {
        "verb": "update",
        "group": definition.group,
        "version": definition.version,
        "resource": definition.plural,
        "subresource": "finalizers",
        "name": owner.get("name") or "",
        "namespace": call.route.namespace if definition.namespaced else "",
    }


def _require(cluster: Cluster, call: RoutedRequest, new: Object, wanted: dict[str, Any], because: str) -> None:
    decision = _may(cluster, call, wanted)
    if not decision.allowed:
        raise _forbidden(call, new, f"{because}: {decision.reason}, <nil>")


def _may(cluster: Cluster, call: RoutedRequest, wanted: dict[str, Any]) -> Decision:
    return cluster.authorize(Access(call.user, wanted))


def _forbidden(call: RoutedRequest, new: Object, because: str) -> StatusError:
    name = call.route.name or name_of(new) or new["metadata"].get("generateName") or "Unknown"
    return status_errors.forbidden(call.definition.group, call.definition.plural, name, because)
