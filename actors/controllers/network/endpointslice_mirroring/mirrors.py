"""EndpointSlices that mirror Endpoints: computation of the desired slices, and the plan of the writes.

Source: kubernetes v1.36 pkg/controller/endpointslicemirroring/{reconciler,reconciler_helpers,utils}.go. Difference: a
slice to delete is reused for a slice to create of the same address type; upstream compares names, which new slices do
not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.actors.controllers.network.shared.addresses import IPV4, IPV6, read_address
from kcm.actors.controllers.network.shared.ports import Ports, ports_of_slice, sorted_ports
from kcm.actors.controllers.network.shared.slices import Endpoint, Identity, equal_endpoints, identity_of
from kcm.actors.controllers.network.shared.subsets import repacked
from kcm.actors.controllers.shared.generated_names import generate_name
from kcm.protocols.objects import Object, annotations_of, labels_of, metadata, name_of, uid_of
from kcm.protocols.services import LEADER, MANAGED_BY, SERVICE_NAME, SKIP_MIRROR, TRIGGER_TIME

MANAGER = "endpointslicemirroring-controller.k8s.io"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Kind = tuple[str, Ports]  # address type and ports


def is_mirrored(endpoints: Object) -> bool:
    """Report whether the mirroring controller mirrors these Endpoints.

    Endpoints with the label endpointslice.kubernetes.io/skip-mirror, or with the annotation of a leader election, are
    not mirrored.
    """
    return labels_of(endpoints).get(SKIP_MIRROR) != "true" and LEADER not in annotations_of(endpoints)


class Desired(NamedTuple):
    """Desired content of the EndpointSlices that mirror one Endpoints object."""

    slices: dict[Kind, dict[Identity, Endpoint]]  # endpoints by address type and ports
    skipped: int  # addresses that are left out, including the invalid ones
    invalid: int  # addresses that cannot be parsed


def desired_slices(endpoints: Object, *, max_endpoints: int) -> Desired:
    """Return the endpoints of the EndpointSlices that mirror these Endpoints, by address type and ports.

    max_endpoints: maximum number of addresses to mirror from one subset; ready addresses have priority.
    """
    found: dict[Kind, dict[Identity, Endpoint]] = {}
    skipped = invalid = 0
    for subset in repacked(endpoints.get("subsets") or ()):
        ports = sorted_ports(ports_of_slice(subset))
        kinds = {family: found.setdefault((family, ports), {}) for family in (IPV4, IPV6)}
        added = total = 0
        for name, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(name) or ():
                total += 1
                if added == max_endpoints:
                    continue
                parsed = read_address(address.get("ip") or "")
                if parsed is None:
                    invalid += 1
                    continue
                endpoint = _endpoint(address, parsed.text, ready=ready)
                kinds[parsed.family][identity_of(endpoint)] = endpoint
                added += 1
        skipped += total - added
    return Desired(found, skipped, invalid)


def _endpoint(address: Mapping[str, Any], text: str, *, ready: bool) -> Endpoint:
    endpoint: dict[str, Any] = {"addresses": [text], "conditions": {"ready": ready}}
    for name in ("nodeName", "hostname", "targetRef"):
        if address.get(name):
            endpoint[name] = address[name]
    return endpoint


class MirrorPlan(Struct):
    """Planned writes of the EndpointSlices that mirror one Endpoints object, with numbers for the metrics."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    added: int = 0  # endpoints
    updated: int = 0  # endpoints
    removed: int = 0  # endpoints
    endpoints: int = 0  # number after the writes
    slices: int = 0  # number after the writes


def plan_mirrors(endpoints: Object, desired: Desired, present: Iterable[Object]) -> MirrorPlan:
    """Plan the writes that lead to one EndpointSlice for each address type and set of ports.

    present: existing slices that the controller manages for these Endpoints.
    """
    plan = MirrorPlan()
    by_kind: dict[Kind, list[Object]] = {}
    for slice_ in present:
        by_kind.setdefault((slice_.get("addressType") or "", ports_of_slice(slice_)), []).append(slice_)
    for kind, wanted in desired.slices.items():
        _plan_kind(plan, endpoints, kind, wanted, by_kind.pop(kind, []))
    for slices in by_kind.values():
        plan.delete += slices
    _recycle(plan, endpoints)
    return plan


def _plan_kind(
    plan: MirrorPlan, endpoints: Object, kind: Kind, wanted: Mapping[Identity, Endpoint], slices: Sequence[Object]
) -> None:
    """Plan the EndpointSlice of one address type and set of ports, and delete surplus slices.

    wanted: endpoints of the slice.
    slices: existing slices of this kind, of which the first is kept.
    """
    plan.endpoints += len(wanted)
    if not wanted:
        plan.delete += slices
        plan.removed += sum(len(slice_.get("endpoints") or ()) for slice_ in slices)
        return
    plan.slices += 1
    made = _mirror(endpoints, kind, wanted.values())
    if not slices:
        plan.create.append(made)
        plan.added += len(wanted)
        return
    first, *others = slices
    plan.delete += others
    before = {identity_of(endpoint): endpoint for endpoint in first.get("endpoints") or ()}
    plan.added += len(wanted.keys() - before.keys())
    plan.removed += len(before.keys() - wanted.keys())
    changed = sum(
        not equal_endpoints(endpoint, before[identity]) for identity, endpoint in wanted.items() if identity in before
    )
    plan.updated += changed
    if (
        changed
        or before.keys() != wanted.keys()
        or _has_stale_owner(first, endpoints)
        or not _has_same_metadata(first, made)
    ):
        plan.update.append(with_identity_of(first, made))


def _mirror(endpoints: Object, kind: Kind, some: Iterable[Endpoint]) -> Object:
    address_type, ports = kind
    labels = {**labels_of(endpoints), SERVICE_NAME: name_of(endpoints), MANAGED_BY: MANAGER}
    copied = {
        name: value for name, value in annotations_of(endpoints).items() if name not in (TRIGGER_TIME, LAST_APPLIED)
    }
    return {
        "metadata": {"labels": labels, "annotations": copied},
        "addressType": address_type,
        "endpoints": list(some),
        "ports": [port.as_object() for port in ports],
    }


def with_identity_of(slice_: Object, made: Object) -> Object:
    """Return a copy of `made`, a slice without a name, with the identity of an existing EndpointSlice.

    The copy has its name, namespace, uid and resourceVersion, so that an update replaces the existing slice.
    """
    meta = metadata(slice_)
    kept = {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in meta}
    return {**made, "metadata": {**made["metadata"], **kept}}


def _has_same_metadata(slice_: Object, made: Object) -> bool:
    return labels_of(slice_) == labels_of(made) and annotations_of(slice_) == annotations_of(made)


def _has_stale_owner(slice_: Object, endpoints: Object) -> bool:
    """Report whether an EndpointSlice is owned by an earlier Endpoints object of the same name."""
    owners: Sequence[Mapping[str, Any]] = metadata(slice_).get("ownerReferences") or ()
    return any(owner.get("name") == name_of(endpoints) and owner.get("uid") != uid_of(endpoints) for owner in owners)


def _recycle(plan: MirrorPlan, endpoints: Object) -> None:
    """Replace pairs of a deletion and a creation of EndpointSlices by an update. Source: recycleSlices.

    The slices of a pair have the same address type.
    """
    remaining, prefix = [], generate_name(name_of(endpoints))
    for slice_ in plan.delete:
        made = next(
            (candidate for candidate in plan.create if candidate["addressType"] == slice_.get("addressType")), None
        )
        if made is None:
            remaining.append(slice_)
        else:
            plan.create = [candidate for candidate in plan.create if candidate is not made]
            named = {**made, "metadata": {**made["metadata"], "generateName": prefix}}
            plan.update.append(with_identity_of(slice_, named))
    plan.delete = remaining
