"""Fields of ResourceClaims, and the claims that pods and PodGroups refer to.

An entry of spec.resourceClaims of a pod or PodGroup names a claim, or a template from which a claim is generated. The
name of a generated claim is in status.resourceClaimStatuses.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.field_types import FLAG, MAP, TEXT, CompiledShape, check
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    key_of,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.resources import POD_GROUPS, PODS

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"  # finalizer of a claim while it is allocated
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"  # of a generated claim: the name of the pod's entry
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"  # "true" if the scheduler created the claim

FROM_TEMPLATE, FROM_EXTENDED_RESOURCE, FROM_USER = "resource_claim_template", "extended_resource", ""

_CLAIM = CompiledShape(
    {
        "metadata": {"annotations": MAP},
        "spec": {"devices": {"requests": [{"exactly": {"adminAccess": FLAG}}]}},
        "status": {"allocation": MAP, "reservedFor": [{"apiGroup": TEXT, "resource": TEXT, "name": TEXT, "uid": TEXT}]},
    }
)


class ResourceClaimFacts(NamedTuple):
    """Facts of one version of a ResourceClaim.

    allocated: whether it has an allocation.
    admin_access: whether a request has adminAccess.
    source: FROM_TEMPLATE, FROM_EXTENDED_RESOURCE or FROM_USER.
    """

    allocated: bool
    admin_access: bool
    source: str


def resource_claim_facts(claim: Object) -> ResourceClaimFacts:
    """Derive the facts. Raises ValueError that names the field which is of the wrong type."""
    check(claim, _CLAIM)
    annotations, source = annotations_of(claim), FROM_USER
    if annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
        source = FROM_EXTENDED_RESOURCE
    elif annotations.get(POD_CLAIM_NAME):
        source = FROM_TEMPLATE
    return ResourceClaimFacts(
        allocated=allocation_of(claim) is not None,
        admin_access=requests_admin_access(claim.get("spec") or {}),
        source=source,
    )


def device_requests(claim_spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the device requests in the spec of a claim."""
    return (claim_spec.get("devices") or {}).get("requests") or ()


def requests_admin_access(claim_spec: Mapping[str, Any]) -> bool:
    """Report whether a request has adminAccess. Subrequests of firstAvailable cannot have it."""
    return any((request.get("exactly") or {}).get("adminAccess") is True for request in device_requests(claim_spec))


def has_prioritized_list(claim_spec: Mapping[str, Any]) -> bool:
    return any(request.get("firstAvailable") for request in device_requests(claim_spec))


def allocation_of(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    allocation: Mapping[str, Any] | None = (claim.get("status") or {}).get("allocation")
    return allocation


def consumers_of(claim: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the entries of status.reservedFor."""
    return (claim.get("status") or {}).get("reservedFor") or ()


class ClaimName(NamedTuple):
    """Name of the claim for an entry of spec.resourceClaims.

    name: "" if the claim has not been generated yet; None if it was decided that the entry needs no claim.
    template: name of the template from which the claim is generated; "" if the entry names the claim itself. The owner
        of a generated claim must be checked before the claim is used (owner_problem).
    """

    name: str | None
    template: str = ""


def claim_entries(user: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of spec.resourceClaims of a pod or PodGroup."""
    entries = (user.get("spec") or {}).get("resourceClaims")
    if isinstance(entries, list):
        yield from (entry for entry in entries if isinstance(entry, Mapping))


def claim_name(user: Mapping[str, Any], entry: Mapping[str, Any]) -> ClaimName | None:
    """Return the name of the claim for an entry of a pod or PodGroup; None if the entry has no known field.

    Source: Name, NameFromPodGroup.
    """
    name, template = entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")
    if name is not None:
        return ClaimName(name)
    if template is None:
        return None
    for status in (user.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name") == entry.get("name"):
            return ClaimName(status.get("resourceClaimName"), template)
    return ClaimName("", template)


def claim_names(user: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the known claims of a pod or PodGroup, without the claim for its extended resources."""
    for entry in claim_entries(user):
        found = claim_name(user, entry)
        if found is not None and found.name:
            yield found.name


def extended_claim_name(pod: Mapping[str, Any]) -> str:
    """Return the name of the claim that the scheduler created for the pod's extended resources, or ""."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return (status.get("resourceClaimName") or "") if isinstance(status, Mapping) else ""


def pod_group_name(pod: Mapping[str, Any]) -> str:
    """Return the name of the PodGroup in the pod's spec.schedulingGroup, or ""."""
    group = (pod.get("spec") or {}).get("schedulingGroup")
    return (group.get("podGroupName") or "") if isinstance(group, Mapping) else ""


def owner_problem(pod: Mapping[str, Any], claim: Mapping[str, Any], *, accept_group: bool) -> str:
    """Return why a claim was not generated for the pod, or for its PodGroup; "" if it was.

    accept_group: the PodGroup may be the owner. It is compared by name, because a pod does not contain its uid.

    Source: IsForPod.
    """
    owner, group = controller_of(claim), pod_group_name(pod)
    if owner is not None and owner.uid == uid_of(pod):
        return ""
    text = f"ResourceClaim {key_of(claim)} was not created for Pod {key_of(pod)}"
    if not accept_group or not group:
        return f"{text} (Pod is not owner)"
    if owner is not None and (owner.name, owner.kind) == (group, POD_GROUPS.kind) and _is_of_scheduling(owner):
        return ""
    return f"{text} (neither Pod nor PodGroup {group} is the owner)"


def _is_of_scheduling(owner: Any) -> bool:
    prefix: str = f"{POD_GROUPS.group}/"  # the version may change
    return bool(owner.api_version.startswith(prefix))


def group_owner_problem(group: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    """Return why a claim was not generated for the PodGroup; "" if it was. Source: IsForPodGroup."""
    owner = controller_of(claim)
    if owner is not None and owner.uid == uid_of(group):
        return ""
    return f"ResourceClaim {key_of(claim)} was not created for PodGroup {key_of(group)} (PodGroup is not owner)"


def is_reserved_for(pod: Mapping[str, Any], claim: Mapping[str, Any], *, accept_group: bool) -> bool:
    """Report whether the claim is reserved for the pod, or for its PodGroup. Source: IsReservedForPod."""
    group = pod_group_name(pod) if accept_group else ""
    return any(
        consumer.get("uid") == uid_of(pod) or (group and is_pod_group(consumer) and consumer.get("name") == group)
        for consumer in consumers_of(claim)
    )


def is_pod(consumer: Mapping[str, Any]) -> bool:
    """Report whether an entry of status.reservedFor is a pod."""
    return not consumer.get("apiGroup") and consumer.get("resource") == PODS.plural


def is_pod_group(consumer: Mapping[str, Any]) -> bool:
    """Report whether an entry of status.reservedFor is a PodGroup."""
    return consumer.get("apiGroup") == POD_GROUPS.group and consumer.get("resource") == POD_GROUPS.plural


def binds_to_group(entry: Mapping[str, Any], group: Mapping[str, Any] | None) -> bool:
    """Report whether the claim for a pod's entry belongs to the pod's PodGroup: the group has an equal entry.

    Source: BindTo.
    """
    names = ("name", "resourceClaimName", "resourceClaimTemplateName")
    return group is not None and any(
        all(its.get(name) == entry.get(name) for name in names) for its in claim_entries(group)
    )


def consumer_of(user: Mapping[str, Any], *, is_group: bool = False) -> Object:
    """Return the entry of status.reservedFor for a pod or PodGroup."""
    if is_group:
        return {
            "apiGroup": POD_GROUPS.group,
            "resource": POD_GROUPS.plural,
            "name": name_of(user),
            "uid": uid_of(user),
        }
    return {"resource": PODS.plural, "name": name_of(user), "uid": uid_of(user)}


def owning_pod(claim: Mapping[str, Any]) -> tuple[Key, str] | None:
    """Return the key and the uid of the pod that owns the claim as controller, or None."""
    owner = controller_of(claim)
    if owner is None or (owner.api_version, owner.kind) != ("v1", PODS.kind):
        return None
    return f"{namespace_of(claim)}/{owner.name}", owner.uid
