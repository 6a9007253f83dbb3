"""ResourceClaims of pods: their names, their devices, and the state of their allocations.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go;
pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,allocateddevices}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kcm.actors.hollow.scheduler.devices.extended_resources import extended_names
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId
from kcm.actors.reconciliation import Index
from kcm.protocols.conditions import is_true
from kcm.protocols.objects import Object, make_key, namespace_of
from kcm.protocols.resource_claims import (
    allocation_of,
    claim_entries,
    claim_name,
    claim_names,
    extended_claim_name,
    pod_group_name,
)
from kcm.protocols.resources import PODS, RESOURCE_CLAIMS
from kcm.protocols.times import format_time, parse_time

BINDING_TIMEOUT = 600.0  # seconds for the binding conditions of devices
MOST_ALTERNATIVES = 8  # of one request
PENDING = "*"  # value of the index for unassigned pods that require devices
DEDICATED, SHARED = "dedicated ", "shared "


class ClaimReference(NamedTuple):
    """Reference of a pod to a claim.

    name: name of the claim; None while the claim of a template does not exist.
    is_own: the claim was created from a template for this pod or its PodGroup, and must be owned by one of them.
    entry: the entry of spec.resourceClaims.
    """

    name: str | None
    is_own: bool
    entry: Mapping[str, Any]


def claim_references(pod: Mapping[str, Any]) -> Iterator[ClaimReference]:
    """Yield the claims of spec.resourceClaims. A claim that is intentionally not created is omitted."""
    for entry in claim_entries(pod):
        found = claim_name(pod, entry)
        if found is None or found.name == "":
            yield ClaimReference(None, is_own=True, entry=entry)
        elif found.name is not None:
            yield ClaimReference(found.name, is_own=bool(found.template), entry=entry)


def has_claims(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("spec") or {}).get("resourceClaims"))


def requires_devices(pod: Mapping[str, Any]) -> bool:
    """Report whether the pod has claims, or requests an extended resource that a DeviceClass may provide."""
    return has_claims(pod) or bool(extended_names(pod))


def _users(pod: Object) -> Iterable[str]:
    if not requires_devices(pod):
        return ()
    names = filter(None, (*claim_names(pod), extended_claim_name(pod)))
    keys = [make_key(namespace_of(pod), name) for name in names]
    return keys if pod["spec"].get("nodeName") else [PENDING, *keys]


def devices_of(allocation: Mapping[str, Any]) -> Iterator[tuple[DeviceId, Mapping[str, Any]]]:
    """Yield the devices of an AllocationResult, with their results, except devices with admin access.

    Devices with admin access may be allocated to other claims at the same time.
    """
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield DeviceId(result["driver"], result["pool"], result["device"]), result


def _allocations(claim: Object) -> Iterable[str]:
    return [
        f"{SHARED if result.get('shareID') else DEDICATED}{device}"
        for device, result in devices_of(allocation_of(claim) or {})
    ]


def _group(pod: Object) -> Iterable[str]:
    name = pod_group_name(pod)
    return (make_key(namespace_of(pod), name),) if name and has_claims(pod) else ()


MEMBERS = "members with device claims"
PODS_BY_GROUP = Index(PODS, MEMBERS, _group)  # pods with claims, by "namespace/name" of the PodGroup
PODS_BY_DEVICE_CLAIM = Index(PODS, "device claims", _users)  # by "namespace/name" of each ResourceClaim
CLAIMS_BY_DEVICE = Index(RESOURCE_CLAIMS, "allocated devices", _allocations)


class BindingReadiness(NamedTuple):
    """State of the binding conditions of a claim. failed: a failure condition is true, or it is too late."""

    ready: bool
    failed: bool


def reserved_status(status: Mapping[str, Any], consumer: Object, allocation: Object | None, *, now: float) -> Object:
    """Return the status with a consumer in reservedFor. allocation: None if the status has one."""
    allocated = {**(allocation if allocation is not None else status["allocation"])}
    allocated.setdefault("allocationTimestamp", format_time(now))
    return {**status, "allocation": allocated, "reservedFor": [*(status.get("reservedFor") or ()), consumer]}


def readiness(claim: Object, *, now: float) -> BindingReadiness:
    """Return whether the binding conditions of the claim's devices are true. now: Unix seconds."""
    status = claim.get("status") or {}
    allocation = status.get("allocation") or {}
    since = allocation.get("allocationTimestamp")
    late = since is not None and parse_time(since) + BINDING_TIMEOUT < now
    reported = {
        (device.get("driver"), device.get("pool"), device.get("device")): device.get("conditions")
        for device in status.get("devices") or ()
    }
    for result in (allocation.get("devices") or {}).get("results") or ():
        wanted = result.get("bindingConditions") or ()
        if not wanted:
            continue
        conditions = reported.get((result.get("driver"), result.get("pool"), result.get("device")))
        if any(is_true(conditions, name) for name in result.get("bindingFailureConditions") or ()):
            return BindingReadiness(ready=False, failed=True)
        if not all(is_true(conditions, name) for name in wanted):
            return BindingReadiness(ready=False, failed=late)
    return BindingReadiness(ready=True, failed=False)


def score(claims: Iterable[Object], allocations: Iterable[Object]) -> int:
    """Return the score of allocations: the earlier the chosen alternatives of the claims' requests, the higher."""
    total = 0
    for claim, allocation in zip(claims, allocations, strict=False):
        chosen = {result["request"] for result in allocation["devices"]["results"]}
        for request in claim["spec"]["devices"]["requests"]:
            for place, alternative in enumerate(request.get("firstAvailable") or ()):
                if f"{request['name']}/{alternative['name']}" in chosen:
                    total += MOST_ALTERNATIVES - place
    return total
