"""The plugins, in the order in which kube-apiserver runs them.

Source: kubernetes pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Key, Object
from runtime.apiserver.admission import default_toleration_seconds, namespace_lifecycle, priority, service_account
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.registry.definitions import ResourceDefinition


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Changes a new object in place. Raises StatusError (403, 404)."""
    namespace_lifecycle.admit_create(cluster, definition, obj)
    service_account.admit_create(definition, obj)
    default_toleration_seconds.admit(definition, obj)
    priority.admit_create(cluster, definition, obj)


def admit_update(definition: ResourceDefinition, new: Object, old: Object) -> None:
    """Changes new in place."""
    default_toleration_seconds.admit(definition, new)
    priority.admit_update(definition, new, old)


def admit_delete(definition: ResourceDefinition, key: Key) -> None:
    """Raises StatusError (403)."""
    namespace_lifecycle.admit_delete(definition, key)
