"""What is decided about a request before the object is stored, across kinds.

Source: apiserver pkg/admission/plugin/namespace/lifecycle (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.embedded import status_errors
from runtime.embedded.cluster import Cluster
from runtime.embedded.registry import ResourceDefinition

NAMESPACES = "namespaces"


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Change a new object as admission plugins do. Raises StatusError (403, 404)."""
    if definition.namespaced:
        _admit_to_namespace(cluster, definition, obj)


def admit_update(cluster: Cluster, definition: ResourceDefinition, new: Object, old: Object) -> None:
    """The same for a change. Raises StatusError (403)."""


def _admit_to_namespace(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Objects are made only in namespaces that are there and stay."""
    name = obj["metadata"]["namespace"]
    record = cluster.state.get(NAMESPACES, name)
    if record is None:
        raise status_errors.not_found("", NAMESPACES, name)
    if cluster.is_deleting(record):
        because = f"unable to create new content in namespace {name} because it is being terminated"
        error = status_errors.forbidden(definition.group, definition.plural, obj["metadata"].get("name", ""), because)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = (error.details or {}) | {"causes": [cause]}
        raise error
