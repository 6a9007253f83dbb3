"""Validation of updates of a pod's status.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePodStatusUpdate (v1.36). Difference: the fields for
container users, device health and image volumes are not validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, required
from kcm.runtime.apiserver.rules.ip_addresses import family_of, validate_ip
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE = "must be a non-negative integer"

Part = Mapping[str, Any]


def wrong_pod_status(new: Object, old: Object) -> Iterator[FieldError]:
    spec, status, before = old["spec"], new.get("status") or {}, old.get("status") or {}
    yield from _conditions(status.get("conditions") or ())
    yield from _nominated(status.get("nominatedNodeName") or "", before, spec)
    if (status.get("observedGeneration") or 0) < 0:
        yield invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE)
    if status.get("qosClass") != before.get("qosClass"):
        yield invalid("status.qosClass", status.get("qosClass", ""), IMMUTABLE)
    yield from _restarted(status, before, spec)
    if status.get("resourceClaimStatuses"):
        yield from _claims(status["resourceClaimStatuses"], spec)
    if status.get("extendedResourceClaimStatus") is not None:
        yield from _extended_resources(status["extendedResourceClaimStatus"], spec)
    for field, type_ in (("podIPs", "core.PodIP"), ("hostIPs", "core.HostIP")):
        if status.get(field):
            yield from _addresses(status, before, field, type_)


def _conditions(conditions: Any) -> Iterator[FieldError]:
    for i, condition in enumerate(conditions):
        type_, generation = condition.get("type") or "", condition.get("observedGeneration") or 0
        if generation < 0:
            yield invalid(f"status.conditions[{i}].observedGeneration", generation, _NOT_NEGATIVE)
        if type_ not in _SYSTEM_CONDITIONS:
            yield from (invalid(f"status.conditions[{i}].Type", type_, text) for text in label_key(type_))


def _nominated(node: str, before: Part, spec: Part) -> Iterator[FieldError]:
    if not node or node == before.get("nominatedNodeName"):
        return
    field = "status.nominatedNodeName"
    yield from (invalid(field, node, text) for text in dns_subdomain(node))
    if spec.get("nodeName"):
        yield forbidden(field, "may not be set on pods that are already bound to a node")


def _restarted(status: Part, before: Part, spec: Part) -> Iterator[FieldError]:
    """Reject a status in which a terminated container runs again although its restart policy forbids that."""
    for field, part in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ):
        then = before.get(field) or ()
        if not any(_ended(container) for container in then):
            continue
        now = {container.get("name"): container for container in status.get(field) or ()}
        policies = {container.get("name"): container.get("restartPolicy") for container in spec.get(part) or ()}
        for i, container in enumerate(then):
            name, ended = container.get("name"), _ended(container)
            if ended is None or name not in now or _ended(now[name]) is not None:
                continue
            policy = "Never" if not part else policies.get(name) or (spec.get("restartPolicy") or "Always")
            may_restart = policy == "Always" or (policy == "OnFailure" and bool(ended.get("exitCode")))
            if not may_restart or (part and name not in policies):
                yield forbidden(f"status.{field}[{i}].state", "may not be transitioned to non-terminated state")


def _ended(status: Part) -> Part | None:
    ended: Part | None = (status.get("state") or {}).get("terminated")
    return ended


def _claims(statuses: Any, spec: Part) -> Iterator[FieldError]:
    named = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for i, claim in enumerate(statuses):
        name, at = claim.get("name") or "", f"status.resourceClaimStatuses[{i}]"
        if name not in named:
            yield invalid(f"{at}.name", name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        if (claim_name := claim.get("resourceClaimName")) is not None:
            yield from (invalid(f"{at}.resourceClaimName", claim_name, text) for text in dns_subdomain(claim_name))


def _extended_resources(claim: Part, spec: Part) -> Iterator[FieldError]:
    """Validate the claim of a pod's extended resources. Source: validatePodExtendedResourceClaimStatus."""
    at, named = "status.extendedResourceClaimStatus", claim.get("resourceClaimName") or ""
    containers = {
        container.get("name"): container
        for part in ("initContainers", "containers")
        for container in spec.get(part) or ()
    }
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        yield required(f"{at}.requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for i, mapping in enumerate(mappings):
        here = f"{at}.requestMappings[{i}]"
        container, resource, request = (
            mapping.get(name) or "" for name in ("containerName", "resourceName", "requestName")
        )
        if container not in containers:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid(f"{here}.containerName", container, detail)
        elif resource not in ((containers[container].get("resources") or {}).get("requests") or {}):
            detail = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            yield invalid(f"{here}.resourceName", resource, detail)
        yield from (invalid(f"{at}.requestName", request, text) for text in dns_label(request))
        if (container, resource, request) in seen:
            yield duplicate(f"{here}.containerName", container)
            yield duplicate(f"{here}.resourceName", resource)
            yield duplicate(f"{here}.requestName", request)
        seen.add((container, resource, request))
    if not named:
        yield required(f"{at}.resourceClaimName")
    else:
        yield from (invalid(f"{at}.resourceClaimName", named, text) for text in dns_subdomain(named))


def _addresses(status: Part, before: Part, field: str, type_: str) -> Iterator[FieldError]:
    """Validate podIPs or hostIPs. Addresses that the old status contains are not checked again.

    type_: upstream's internal type of the entries, for error texts
    """
    at, listed = f"status.{field}", [address.get("ip") or "" for address in status[field]]
    if field == "hostIPs" and listed[0] != (status.get("hostIP") or ""):
        yield invalid(f"{at}[0].ip", listed[0], "must be equal to `hostIP`")
    known = {address.get("ip") for address in before.get(field) or ()}
    for i, address in enumerate(listed):
        if address not in known:
            yield from validate_ip(address, f"{at}[{i}]")
    if len(listed) > 1 and (len(listed) > 2 or len({family_of(address) for address in listed}) < 2):
        shown = inner_form(status[field], f"[]{type_}")
        yield invalid(at, shown, "may specify no more than one IP for each IP family")
