"""Distribution of the endpoints of a Service over EndpointSlices.

The plan avoids writes rather than partly filled slices.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/reconciler.go (reconcileByAddressType,
reconcileByPortMapping).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.actors.controllers.network.shared.ports import Ports, ports_of_slice
from kcm.actors.controllers.network.shared.slices import Endpoint, Identity, equal_endpoints, identity_of
from kcm.protocols.objects import Object, labels_of, metadata, name_of
from kcm.protocols.services import HEADLESS, MANAGED_BY, SERVICE_NAME

RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})

Endpoints = dict[Identity, Endpoint]


class Group(NamedTuple):
    """Numbers of the endpoints and EndpointSlices of a Service with the same ports, after the planned writes."""

    endpoints: int
    slices: int


class SlicePlan(Struct):
    """Planned writes of the EndpointSlices of one Service and one address type."""

    create: list[Object] = field(default_factory=list)  # without names and owners
    update: list[Object] = field(default_factory=list)  # copies, which may be modified
    unchanged: list[Object] = field(default_factory=list)  # objects of the table
    delete: list[Object] = field(default_factory=list)  # objects of the table
    added: int = 0  # endpoints
    removed: int = 0  # endpoints
    groups: dict[Ports, Group] = field(default_factory=dict)


def plan_slices(
    present: Iterable[Object],
    desired: Mapping[Ports, Endpoints],
    *,
    labels: Mapping[str, str],
    owner_uid: str,
    address_type: str,
    max_endpoints: int,
    has_others: bool = False,
) -> SlicePlan:
    """Plan the writes of a Service's EndpointSlices of one address type. Source: reconcileByAddressType.

    present: existing slices of this type that the controller manages for the Service.
    desired: endpoints by their ports. The inner mappings are empty afterwards.
    labels: labels that the slices should have.
    owner_uid: uid of the Service.
    address_type: "IPv4" or "IPv6".
    max_endpoints: maximum number of endpoints in a slice.
    has_others: whether the Service has further slices, which stay as they are.
    """
    plan = SlicePlan()
    by_ports: dict[Ports, list[Object]] = {}
    count = 0
    for slice_ in present:
        count += 1
        if is_owned_by(slice_, owner_uid):
            by_ports.setdefault(ports_of_slice(slice_), []).append(slice_)
        else:
            plan.delete.append(slice_)
    for ports, endpoints in desired.items():
        number, slices = len(endpoints), by_ports.pop(ports, [])
        created, deleted = len(plan.create), len(plan.delete)
        _plan_group(
            plan, slices, endpoints, ports=ports, labels=labels, address_type=address_type, max_endpoints=max_endpoints
        )
        grown = (len(plan.create) - created) - (len(plan.delete) - deleted)
        plan.groups[ports] = Group(number, len(slices) + grown)
    for slices in by_ports.values():
        plan.delete += slices
    if count == len(plan.delete) and not plan.create and not has_others:
        _plan_placeholder(plan, labels=labels, owner_uid=owner_uid, address_type=address_type)
    return plan


def _plan_placeholder(plan: SlicePlan, *, labels: Mapping[str, str], owner_uid: str, address_type: str) -> None:
    """Plan one empty EndpointSlice as the placeholder of a Service without endpoints. An existing one is kept.

    Upstream recognizes an existing placeholder only if it is the only slice; otherwise it may write the placeholder
    again without a change.
    """
    plan.groups[()] = Group(0, 1)
    for slice_ in plan.delete:
        is_empty = not slice_.get("endpoints") and not slice_.get("ports")
        if is_empty and labels_of(slice_) == labels and is_owned_by(slice_, owner_uid):
            plan.delete.remove(slice_)
            plan.unchanged = [slice_]
            return
    plan.create.append(_new(ports=(), labels=labels, address_type=address_type))


def _plan_group(
    plan: SlicePlan,
    slices: Sequence[Object],
    missing: Endpoints,
    *,
    ports: Ports,
    labels: Mapping[str, str],
    address_type: str,
    max_endpoints: int,
) -> None:
    """Plan the writes of the EndpointSlices with one set of ports. Source: reconcileByPortMapping.

    New endpoints are added to slices that change anyway. The rest is added to one unchanged slice, the fullest that has
    room for it, or otherwise to new slices.

    slices: existing slices with these ports.
    missing: desired endpoints, which are removed from this mapping when they are assigned to a slice.
    """
    changed: list[Object] = []
    unchanged: list[Object] = []
    for slice_ in slices:
        before: Sequence[Endpoint] = slice_.get("endpoints") or ()
        kept: list[Endpoint] = []
        differs = False
        for endpoint in before:
            wanted = missing.pop(identity_of(endpoint), None)
            if wanted is not None:
                kept.append(wanted)
                differs = differs or not equal_endpoints(wanted, endpoint)
        if differs or len(kept) != len(before):
            plan.removed += len(before) - len(kept)
            if kept:
                changed.append(_changed(slice_, kept, labels))
            else:
                plan.delete.append(slice_)
        elif not _has_labels(slice_, labels):
            changed.append(_changed(slice_, [dict(endpoint) for endpoint in before], labels))
        else:
            unchanged.append(slice_)
    plan.added += len(missing)
    if missing:
        for slice_ in sorted(changed, key=_size, reverse=True):
            _fill(slice_, missing, max_endpoints)
    while missing:
        fitting = _fullest_that_fits(unchanged, len(missing), max_endpoints) if len(missing) < max_endpoints else None
        if fitting is None:
            slice_ = _new(ports=ports, labels=labels, address_type=address_type)
            plan.create.append(slice_)
        else:
            unchanged.remove(fitting)
            slice_ = _changed(fitting, [dict(endpoint) for endpoint in fitting.get("endpoints") or ()], labels)
            changed.append(slice_)
        _fill(slice_, missing, max_endpoints)
    plan.update += changed
    plan.unchanged += unchanged


def is_owned_by(slice_: Object, uid: str) -> bool:
    """Report whether the Service with this uid owns the EndpointSlice.

    If not, the slice may belong to an earlier Service of the same name, which has been deleted.
    """
    owners: Sequence[Mapping[str, Any]] = metadata(slice_).get("ownerReferences") or ()
    return any(
        owner.get("uid") == uid and owner.get("kind") == "Service" and owner.get("apiVersion") == "v1"
        for owner in owners
    )


def _new(*, ports: Ports, labels: Mapping[str, str], address_type: str) -> Object:
    return {
        "metadata": {"labels": dict(labels)},
        "addressType": address_type,
        "endpoints": [],
        "ports": [port.as_object() for port in ports],
    }


def _changed(slice_: Object, endpoints: list[Endpoint], labels: Mapping[str, str]) -> Object:
    return {**slice_, "metadata": {**metadata(slice_), "labels": dict(labels)}, "endpoints": endpoints}


def _has_labels(slice_: Object, labels: Mapping[str, str]) -> bool:
    """Report whether an EndpointSlice has these labels. Reserved labels are not compared."""
    return _free(labels_of(slice_)) == _free(labels)


def _free(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name not in RESERVED}


def _size(slice_: Object) -> int:
    return len(slice_["endpoints"])


def _fill(slice_: Object, missing: Endpoints, max_endpoints: int) -> None:
    endpoints: list[Endpoint] = slice_["endpoints"]
    endpoints += [missing.pop(identity) for identity in list(missing)[: max(0, max_endpoints - len(endpoints))]]


def _fullest_that_fits(slices: Iterable[Object], count: int, max_endpoints: int) -> Object | None:
    """Return the fullest EndpointSlice that has room for `count` more endpoints; None if there is no such slice."""
    fitting = [
        slice_ for slice_ in slices if 0 <= max_endpoints - count - len(slice_.get("endpoints") or ()) < max_endpoints
    ]
    return max(fitting, key=lambda slice_: (len(slice_.get("endpoints") or ()), name_of(slice_)), default=None)


def labels_for(service: Object, *, manager: str, headless: bool) -> dict[str, str]:
    """Return the labels that the EndpointSlices of a Service should have.

    These are the labels of the Service, and the reserved labels that name the Service and the managing controller.

    manager: value of the label endpointslice.kubernetes.io/managed-by.
    headless: whether to add the label of headless Services.
    """
    labels = _free(labels_of(service))
    if headless:
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: name_of(service), MANAGED_BY: manager}
