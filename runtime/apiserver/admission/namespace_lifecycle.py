"""NamespaceLifecycle: reject creations in namespaces that do not exist or are being deleted.

Source: apiserver pkg/admission/plugin/namespace/lifecycle/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Key, Object
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

NAMESPACES = "namespaces"
_IMMORTAL = ("default", "kube-system", "kube-public")


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Check that the namespace of a new object exists and is not being deleted. Raises StatusError (403, 404)."""
    if not definition.namespaced:
        return
    name = obj["metadata"]["namespace"]
    record = cluster.state.get(NAMESPACES, name)
    if record is None:
        raise status_errors.not_found("", NAMESPACES, name)
    if cluster.is_deleting(record):
        because = f"unable to create new content in namespace {name} because it is being terminated"
        error = forbidden(definition.group, definition.plural, obj, because)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = (error.details or {}) | {"causes": [cause]}
        raise error


def admit_delete(definition: ResourceDefinition, key: Key) -> None:
    """Refuse to delete the namespaces default, kube-system and kube-public. Raises StatusError (403)."""
    if definition.storage == NAMESPACES and key in _IMMORTAL:
        raise status_errors.forbidden("", NAMESPACES, key, "this namespace may not be deleted")
