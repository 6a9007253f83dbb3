"""Metadata that the server sets in objects of all kinds.

Source: apiserver pkg/registry/rest/{meta,create,update}.go, apimachinery pkg/api/validation/objectmeta.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.routing import ResourceRoute

GENERATED_BASE = 58  # a generated name is at most 63 characters long, five of them random


def settle_namespace(route: ResourceRoute, obj: Object) -> None:
    """Set the namespace of the request's path in an object, or none if its kind is not namespaced.

    Raises StatusError (400) if the object has another namespace.
    """
    meta = obj["metadata"]
    namespace = meta.get("namespace") or ""
    if namespace and route.namespace and namespace != route.namespace:
        raise status_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if route.namespace:
        meta["namespace"] = route.namespace
    else:
        meta.pop("namespace", None)


def check_name(route: ResourceRoute, obj: Object) -> None:
    """Raise StatusError (400) if the name of an object differs from the name in the request's path."""
    name = obj["metadata"].get("name") or ""
    if not name:
        because = "name must be provided"
        raise status_errors.bad_request(
            f"the name of the object ({route.name} based on URL) was undeterminable: {because}"
        )
    if name != route.name:
        raise status_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        )


def initialize(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Set the metadata of a new object that only the server may set: uid, creationTimestamp, generation."""
    meta = obj["metadata"]
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        meta.pop(field, None)
    meta["uid"] = cluster.uid()
    meta["creationTimestamp"] = cluster.timestamp()
    if definition.strategy.has_generation:
        meta["generation"] = 1


def generated_name(cluster: Cluster, base: str) -> str:
    return base[:GENERATED_BASE] + cluster.suffix()


def carry_over(obj: Object, old: Object) -> None:
    """Copy the metadata that an update cannot change from the old object: identity, times, a deletion in progress."""
    meta, old_meta = obj["metadata"], old["metadata"]
    meta.setdefault("uid", old_meta["uid"])
    meta["creationTimestamp"] = old_meta["creationTimestamp"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        if field in old_meta:
            meta[field] = old_meta[field]
        else:
            meta.pop(field, None)
