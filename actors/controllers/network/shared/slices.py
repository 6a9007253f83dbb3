"""Vocabulary for EndpointSlices: lookup by Service and managing controller, and comparison of endpoints.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/util/{endpointset,controller_utils}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.reconciliation import Change, Interest
from kcm.actors.reconciliation.specs import Index
from kcm.protocols.objects import Key, Object, labels_of, make_key, metadata, namespace_of, uid_of
from kcm.protocols.resources import ENDPOINT_SLICES
from kcm.protocols.services import MANAGED_BY, SERVICE_NAME
from kcm.protocols.versions import parse_version

SERVICE = "service and manager"
BY_MANAGER = "manager"


def _manager(slice_: Object) -> Iterable[str]:
    managed = labels_of(slice_).get(MANAGED_BY)
    return (managed,) if managed else ()


def _service_and_manager(slice_: Object) -> Iterable[str]:
    labels = labels_of(slice_)
    managed, service = labels.get(MANAGED_BY), labels.get(SERVICE_NAME)
    return (managed_value(make_key(namespace_of(slice_), service), managed),) if managed and service else ()


def managed_value(service: Key, manager: str) -> str:
    """Return the index value under which the EndpointSlices of a Service are found.

    manager: value of the label endpointslice.kubernetes.io/managed-by; slices of other managers are not found.
    """
    return f"{manager} {service}"


SLICES_BY_SERVICE = Index(ENDPOINT_SLICES, SERVICE, _service_and_manager)
SLICES_BY_MANAGER = Index(ENDPOINT_SLICES, BY_MANAGER, _manager)


def managed_by(manager: str) -> Interest:
    """Return an Interest in changes of the EndpointSlices that a controller manages, before or after the change.

    manager: value of the label endpointslice.kubernetes.io/managed-by.
    """
    return Interest(indexed=((BY_MANAGER, manager),))


class SliceChange(NamedTuple):
    """Change of an EndpointSlice that a watch has reported. It is the key of the queue for such changes."""

    slice: Key
    uid: str
    version: int  # resourceVersion after the change
    deleted: bool
    services: tuple[Key, ...]  # that the label service-name names, before and after the change
    managers: tuple[str, ...]  # values of the label managed-by, before and after the change

    def __str__(self) -> str:
        return self.slice


def slice_change(change: Change, _tables: Any) -> Iterable[SliceChange]:
    new = change.new
    both = [slice_ for slice_ in (new, change.old) if slice_ is not None]
    services = tuple(dict.fromkeys(filter(None, map(_service, both))))
    managers = tuple(dict.fromkeys(manager for slice_ in both for manager in _manager(slice_)))
    version = parse_version(metadata(new).get("resourceVersion")) or 0
    return (SliceChange(change.key, uid_of(new), version, change.deleted, services, managers),)


def _service(slice_: Object) -> Key:
    name = labels_of(slice_).get(SERVICE_NAME)
    return make_key(namespace_of(slice_), name) if name else ""


Identity = tuple[tuple[str, ...], str, str, str]
Endpoint = Mapping[str, Any]


def identity_of(endpoint: Endpoint) -> Identity:
    """Return the identity of an endpoint, by which the same endpoint is found in another version of a slice.

    The identity consists of the sorted addresses, the hostname, and the namespace and name of the pod.
    Source: hashEndpoint.
    """
    target = endpoint.get("targetRef") or {}
    addresses = endpoint.get("addresses") or ()
    return (
        tuple(addresses) if len(addresses) < 2 else tuple(sorted(addresses)),
        endpoint.get("hostname") or "",
        target.get("namespace") or "",
        target.get("name") or "",
    )


def equal_endpoints(first: Endpoint, second: Endpoint) -> bool:
    """Report whether an endpoint has not changed, compared with an earlier version of the same endpoint.

    Hints and the resourceVersion of the pod are not compared.
    """
    return (
        first.get("conditions") == second.get("conditions")
        and first.get("nodeName") == second.get("nodeName")
        and first.get("zone") == second.get("zone")
        and _unversioned(first.get("targetRef")) == _unversioned(second.get("targetRef"))
    )


def _unversioned(reference: Any) -> Any:
    if not reference or "resourceVersion" not in reference:
        return reference
    return {name: value for name, value in reference.items() if name != "resourceVersion"}
