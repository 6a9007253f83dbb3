"""PersistentVolumeClaims of a StatefulSet's pods, and the owner references that the retention policy requires.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_utils.go (getPersistentVolumeClaims,
isClaimOwnerUpToDate, updateClaimOwnerRefForSetAndPod, hasUnexpectedController, hasStaleOwnerRef). Difference: a claim
that must be deleted with its set is created with the set as owner. Upstream adds the owner after it has created the
pod. If the set is deleted in between, the claim is never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.workloads.statefulset.identity import claim_name
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.protocols.objects import Object, metadata
from kcm.protocols.resources import PODS, STATEFULSETS, Resource


class Member(NamedTuple):
    """Identity of a pod of a set."""

    name: str
    uid: str  # "" until it is created
    ordinal: int


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[Object]:
    """Return the claims to create for a pod, one per claim template.

    If the retention policy deletes claims together with the set, the set is already their owner.
    """
    claims = [_claim(stateful_set, template, ordinal) for template in stateful_set.claim_templates]
    if not stateful_set.retention.on_delete or ordinal not in stateful_set.ordinals:
        return claims
    return [with_its_owners(claim, stateful_set, Member("", "", ordinal)) for claim in claims]


def _claim(stateful_set: StatefulSet, template: Object, ordinal: int) -> Object:
    meta = metadata(template)
    labels = {**(meta.get("labels") or {}), **stateful_set.match_labels}
    own: Object = {
        **meta,
        "name": claim_name(template, stateful_set.name, ordinal),
        "namespace": stateful_set.namespace,
    }
    if labels:
        own["labels"] = labels
    return {**template, "metadata": own}


def is_stale(claim: Mapping[str, Any], member: Member) -> bool:
    """Report whether the claim's owner is an earlier pod of the same name, so that it will be garbage collected.

    Source: hasStaleOwnerRef.
    """
    return _refers_to_former(claim, PODS, member.name, member.uid)


def has_other_controller(claim: Mapping[str, Any], stateful_set: StatefulSet, member: Member) -> bool:
    """Report whether the owner of the claim is another controller, or an earlier set or pod of the same name.

    Returns False if the retention policy retains claims in all cases. Source: hasUnexpectedController.
    """
    if not any(stateful_set.retention):
        return False
    for reference in _references(claim):
        uid = _uid_of_namesake(reference, stateful_set, member)
        if uid is None and reference.get("controller"):
            return True
        if uid is not None and reference.get("uid") != uid:
            return True
    return False


def has_its_owners(claim: Mapping[str, Any], stateful_set: StatefulSet, member: Member) -> bool:
    """Report whether the claim has the owner references that the retention policy requires, or must not be changed.

    A claim of an earlier set or pod of the same name must not be changed. Source: isClaimOwnerUpToDate.
    """
    if not _references(claim):
        return not any(_wanted_owners(stateful_set, member))
    former = _refers_to_former(claim, STATEFULSETS, stateful_set.name, stateful_set.uid)
    if former or is_stale(claim, member):
        return True
    owners = {reference.get("uid") for reference in _references(claim)}
    by_set, by_pod = stateful_set.uid in owners, member.uid in owners
    if has_other_controller(claim, stateful_set, member):
        return not by_set and not by_pod
    ours = (stateful_set.uid, member.uid)
    if any(reference.get("uid") in ours and not reference.get("controller") for reference in _references(claim)):
        return False
    return (by_set, by_pod) == _wanted_owners(stateful_set, member)


def with_its_owners(claim: Object, stateful_set: StatefulSet, member: Member) -> Object:
    """Return the claim with the owner references that the retention policy requires.

    References to the set and the pod are removed if another controller owns the claim.
    Source: updateClaimOwnerRefForSetAndPod.
    """
    references = [
        reference for reference in _references(claim) if _uid_of_namesake(reference, stateful_set, member) is None
    ]
    if not has_other_controller(claim, stateful_set, member):
        by_set, by_pod = _wanted_owners(stateful_set, member)
        known = {reference.get("uid") for reference in references}
        if by_set and stateful_set.uid not in known:
            references.append(_controller(STATEFULSETS, stateful_set.name, stateful_set.uid))
        if by_pod and member.uid not in known:
            references.append(_controller(PODS, member.name, member.uid))
    return {**claim, "metadata": {**metadata(claim), "ownerReferences": references}}


def _wanted_owners(stateful_set: StatefulSet, member: Member) -> tuple[bool, bool]:
    """Return whether the set must own the claim, and whether the pod must own it. Only condemned pods own claims."""
    on_delete, on_scale = stateful_set.retention
    condemned = member.ordinal not in stateful_set.ordinals
    return on_delete and not (on_scale and condemned), on_scale and condemned


def _uid_of_namesake(reference: Mapping[str, Any], stateful_set: StatefulSet, member: Member) -> str | None:
    """Return the uid that this owner reference should have if it names our set or pod; None if it names another
    object.
    """
    if _names(reference, STATEFULSETS, stateful_set.name):
        return stateful_set.uid
    return member.uid if _names(reference, PODS, member.name) else None


def _refers_to_former(claim: Mapping[str, Any], resource: Resource, name: str, uid: str) -> bool:
    """Report whether the first owner reference with this kind and name has a different uid."""
    found = next((reference for reference in _references(claim) if _names(reference, resource, name)), None)
    return found is not None and found.get("uid") != uid


def _names(reference: Mapping[str, Any], resource: Resource, name: str) -> bool:
    kind = (reference.get("apiVersion"), reference.get("kind"), reference.get("name"))
    return kind == (resource.api_version, resource.kind, name)


def _controller(resource: Resource, name: str, uid: str) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _references(claim: Mapping[str, Any]) -> list[Object]:
    return metadata(claim).get("ownerReferences") or []
