"""The claims of a set's pods: their form, and by which owners they go when their retention policy wants that.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_utils.go (getPersistentVolumeClaims,
isClaimOwnerUpToDate, updateClaimOwnerRefForSetAndPod, hasUnexpectedController, hasStaleOwnerRef). Difference: a claim
that goes with its set is owned by it from the first. Upstream writes that once the pod is there, and a claim whose set
is deleted before stays for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.workloads.statefulset.fields import StatefulSet
from kcm.actors.controllers.workloads.statefulset.identity import claim_name
from kcm.protocols.objects import Object, metadata
from kcm.protocols.resources import PODS, STATEFULSETS, Resource


class Member(NamedTuple):
    """A pod of a set. uid: "" until it is created."""

    name: str
    uid: str
    ordinal: int


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[Object]:
    """The claims that a pod needs, one for each template, with the owner that they have while the pod is wanted."""
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
    """Whether the claim goes with a former pod of this name, which is gone or about to be."""
    return _refers_to_former(claim, PODS, member.name, member.uid)


def has_other_controller(claim: Mapping[str, Any], stateful_set: StatefulSet, member: Member) -> bool:
    """Whether it is for somebody else to say when the claim goes: another controller, or a former set or pod of these
    names. Without a policy that deletes claims, that is nobody's business.
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
    """Whether the owners of a claim are as the policy has them; or not for us to change."""
    former = _refers_to_former(claim, STATEFULSETS, stateful_set.name, stateful_set.uid)
    if former or is_stale(claim, member):
        return True
    owners = {reference.get("uid") for reference in _references(claim)}
    by_set, by_pod = stateful_set.uid in owners, member.uid in owners
    if has_other_controller(claim, stateful_set, member):
        return not by_set and not by_pod
    ours = (stateful_set.uid, member.uid)
    if any(each.get("uid") in ours and not each.get("controller") for each in _references(claim)):
        return False
    return (by_set, by_pod) == _wanted_owners(stateful_set, member)


def with_its_owners(claim: Object, stateful_set: StatefulSet, member: Member) -> Object:
    """The claim as has_its_owners wants it. One that somebody else controls loses our references."""
    references = [each for each in _references(claim) if _uid_of_namesake(each, stateful_set, member) is None]
    if not has_other_controller(claim, stateful_set, member):
        by_set, by_pod = _wanted_owners(stateful_set, member)
        known = {each.get("uid") for each in references}
        if by_set and stateful_set.uid not in known:
            references.append(_controller(STATEFULSETS, stateful_set.name, stateful_set.uid))
        if by_pod and member.uid not in known:
            references.append(_controller(PODS, member.name, member.uid))
    return {**claim, "metadata": {**metadata(claim), "ownerReferences": references}}


def _wanted_owners(stateful_set: StatefulSet, member: Member) -> tuple[bool, bool]:
    """Whether the set is to own the claim, and whether the pod is: it is while it is condemned."""
    on_delete, on_scale = stateful_set.retention
    condemned = member.ordinal not in stateful_set.ordinals
    return on_delete and not (on_scale and condemned), on_scale and condemned


def _uid_of_namesake(reference: Mapping[str, Any], stateful_set: StatefulSet, member: Member) -> str | None:
    """The uid that a reference to our set or pod should have; None if it names another object."""
    if _names(reference, STATEFULSETS, stateful_set.name):
        return stateful_set.uid
    return member.uid if _names(reference, PODS, member.name) else None


def _refers_to_former(claim: Mapping[str, Any], resource: Resource, name: str, uid: str) -> bool:
    """Whether the first reference to an object of this name is to another one."""
    found = next((each for each in _references(claim) if _names(each, resource, name)), None)
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
