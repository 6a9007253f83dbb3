"""The plugins, in the order in which kube-apiserver runs them.

Those that change an object (admit_create, admit_update) run before its kind looks at it, those that only judge it
(check_create, check_update) afterwards.

Source: kubernetes pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Key, Object
from protocols.quota.evaluators import CREATE, UPDATE
from runtime.apiserver.admission import (
    certificate_approval,
    certificate_signing,
    certificate_subject_restriction,
    default_toleration_seconds,
    limit_ranger,
    namespace_lifecycle,
    priority,
    resource_quota,
    service_account,
)
from runtime.apiserver.admission.resource_quota import Charge, charge
from runtime.apiserver.core.cluster import Call, Cluster
from runtime.apiserver.registry.definitions import ResourceDefinition

__all__ = [
    "Charge",
    "admit_create",
    "admit_delete",
    "admit_subresource",
    "admit_update",
    "charge",
    "check_create",
    "check_update",
]


def admit_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Changes a new object in place. Raises StatusError (403, 404)."""
    namespace_lifecycle.admit_create(cluster, definition, obj)
    limit_ranger.set_defaults(cluster, definition, obj)
    service_account.admit_create(definition, obj)
    default_toleration_seconds.admit(definition, obj)
    priority.admit_create(cluster, definition, obj)


def admit_update(definition: ResourceDefinition, new: Object, old: Object) -> None:
    """Changes new in place."""
    default_toleration_seconds.admit(definition, new)
    priority.admit_update(definition, new, old)


def admit_subresource(cluster: Cluster, call: Call, new: Object) -> None:
    """Changes new in place."""
    if call.route.subresource == limit_ranger.RESIZE:
        limit_ranger.set_defaults(cluster, call.definition, new)


def check_create(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> list[Charge]:
    """Returns what to charge when the object is stored. Raises StatusError (403)."""
    limit_ranger.admit_create(cluster, definition, obj)
    certificate_subject_restriction.validate_create(definition, obj)
    return resource_quota.admit(cluster, resource_quota.Request(definition, CREATE, "", obj))


def check_update(cluster: Cluster, call: Call, new: Object, old: Object) -> list[Charge]:
    """Returns what to charge when the object is stored. Raises StatusError (403)."""
    definition, subresource = call.definition, call.route.subresource
    limit_ranger.admit_update(cluster, definition, subresource, new, old)
    certificate_approval.validate_update(cluster, call, old)
    certificate_signing.validate_update(cluster, call, new, old)
    return resource_quota.admit(cluster, resource_quota.Request(definition, UPDATE, subresource, new, old))


def admit_delete(definition: ResourceDefinition, key: Key) -> None:
    """Raises StatusError (403)."""
    namespace_lifecycle.admit_delete(definition, key)
