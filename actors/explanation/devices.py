"""Causes of ResourceClaims, and of pods whose ResourceClaims do not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.placement import MOST_SHOWN, device_claims_of
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, is_deleting


def pending(case: Case) -> str:
    return "" if case.status.get("allocation") else "no devices are allocated to it"


def causes(case: Case) -> Iterator[Cause]:
    if case.status.get("allocation"):
        return
    for name in dict.fromkeys(_classes(case.spec)):
        if case.evidence.is_missing(r.DEVICE_CLASSES, name):
            yield case.cause("device-class-missing", f"its DeviceClass {name} does not exist", since=case.created)
            return
    users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses_devices(case, pod)]
    for pod in users[:MOST_FOLLOWED]:
        yield from case.follow(r.PODS, pod)
    if not users and not case.path:
        yield case.cause(
            "device-claim-waits-for-pod", "its devices are allocated when a pod uses it", since=case.created
        )


def requests(case: Case) -> Iterator[str]:
    """Yield what the ResourceClaims of a pod without devices request, and which devices there are."""
    for name in device_claims_of(case):
        claim = case.evidence.get(r.RESOURCE_CLAIMS, f"{case.namespace}/{name}")
        if claim is None or (claim.get("status") or {}).get("allocation"):
            continue
        for part in _parts(claim.get("spec") or {}):
            class_ = part.get("deviceClassName")
            selectors = [(selector.get("cel") or {}).get("expression") for selector in part.get("selectors") or ()]
            number = "all devices" if part.get("allocationMode") == "All" else f"{part.get('count') or 1} devices"
            selected = f", selected by {' && '.join(filter(None, selectors))}" if selectors else ""
            yield f"resourceclaim {name} requests {number} of class {class_}{selected}"
    drivers: dict[str, list[Mapping[str, Any]]] = {}
    for found in case.evidence.list(r.RESOURCE_SLICES):
        spec = found.get("spec") or {}
        drivers.setdefault(spec.get("driver") or "", []).extend(spec.get("devices") or ())
    for driver, devices in list(drivers.items())[:MOST_SHOWN]:
        yield f"driver {driver} has {len(devices)} devices{_attributes(devices)}"


def _attributes(devices: Sequence[Mapping[str, Any]]) -> str:
    """Return the values of the attributes of devices, in words."""
    values: dict[str, dict[str, None]] = {}
    for device in devices:
        for name, value in (device.get("attributes") or {}).items():
            values.setdefault(name, {})[str(next(iter(value.values()), ""))] = None
    parts = [f"{name} {', '.join(list(found)[:3])}" for name, found in sorted(values.items())[:MOST_SHOWN]]
    return f", with {'; '.join(parts)}" if parts else ""


def _parts(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the requests of a claim, and their alternatives."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        yield from (request["exactly"],) if request.get("exactly") else request.get("firstAvailable") or ()


def _classes(spec: Mapping[str, Any]) -> Iterator[str]:
    for part in _parts(spec):
        if name := part.get("deviceClassName"):
            yield name


def _uses_devices(case: Case, pod: Object) -> bool:
    return case.name in device_claims_of(Case(r.PODS, pod, case.evidence, lambda _: ())) and not is_deleting(pod)


def claims_from_templates(case: Case) -> Iterator[Cause]:
    """Yield why the ResourceClaims of a pod cannot be created from their templates."""
    statuses: Sequence[Mapping[str, Any]] = case.status.get("resourceClaimStatuses") or ()
    made = {status.get("name") for status in statuses}
    for claim in case.spec.get("resourceClaims") or ():
        template = claim.get("resourceClaimTemplateName")
        if template and claim.get("name") not in made:
            if case.evidence.is_missing(r.RESOURCE_CLAIM_TEMPLATES, f"{case.namespace}/{template}"):
                yield case.cause(
                    "device-template-missing",
                    f"its ResourceClaimTemplate {template} does not exist",
                    event_line(case.event("FailedResourceClaimCreation")),
                )
