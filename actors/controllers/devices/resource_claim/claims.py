"""Decisions of the resource claim controller: claims from templates, and claims that lose consumers.

Source: kubernetes v1.36 pkg/controller/resourceclaim/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.field_types import MAP, check
from kcm.protocols.objects import Object, finalizers_of, metadata, name_of, namespace_of, uid_of
from kcm.protocols.pods import PodFacts, is_terminal
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    POD_CLAIM_NAME,
    has_prioritized_list,
    requests_admin_access,
)
from kcm.protocols.resources import Resource

TEMPLATE = {  # types of the fields that become a claim
    "spec": {"metadata": {"annotations": MAP, "labels": MAP}, "spec": {"devices": {"requests": [{"exactly": MAP}]}}}
}
_MAX_BASE = 57  # characters; leaves room for a hyphen and 5 random characters in a name of 63


def name_base(user: str, entry: str) -> str:
    """Return the value of generateName for a claim. Both names are truncated in proportion to their lengths.

    user: name of the pod or PodGroup.
    entry: name of its entry in spec.resourceClaims.
    """
    whole = f"{user}-{entry}-"
    if len(whole) <= _MAX_BASE:
        return whole
    users_part, entrys_part = (text[: len(text) * _MAX_BASE // len(whole)] for text in (user, entry))
    return f"{users_part}-{entrys_part}"


def disabled_feature(template: Mapping[str, Any], *, admin_access: bool, prioritized_list: bool) -> str:
    """Return why no claim may be generated from a template; "" if a claim may be generated.

    admin_access, prioritized_list: whether the feature gates DRAAdminAccess and DRAPrioritizedList are enabled.
    """
    check(template, TEMPLATE)
    spec = (template.get("spec") or {}).get("spec") or {}
    if not admin_access and requests_admin_access(spec):
        return "admin access is requested, but the feature is disabled"
    if not prioritized_list and has_prioritized_list(spec):
        return "template includes a prioritized list of subrequests, but the feature is disabled"
    return ""


def claim_from_template(
    template: Mapping[str, Any], *, owner: Mapping[str, Any], of: Resource, entry: str, name: str
) -> Object:
    """Return the claim to create for an entry of spec.resourceClaims of a pod or PodGroup.

    owner: the pod or PodGroup.
    of: resource of the owner.
    entry: name of the entry.
    name: name of the new claim.
    """
    form = template.get("spec") or {}
    meta = form.get("metadata") or {}
    claim_meta: Object = {
        "name": name,
        "generateName": name_base(name_of(owner), entry),
        "namespace": namespace_of(owner),
        "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: entry},
        # Without blockOwnerDeletion, as upstream.
        "ownerReferences": [
            {
                "apiVersion": of.api_version,
                "kind": of.kind,
                "name": name_of(owner),
                "uid": uid_of(owner),
                "controller": True,
            }
        ],
    }
    if meta.get("labels"):
        claim_meta["labels"] = dict(meta["labels"])
    return {"metadata": claim_meta, "spec": form.get("spec") or {}}


def generated_claim(claims: Iterable[Object], entry: str) -> Object | None:
    """Return the claim that was generated for an entry; None if it does not exist. claims: claims of the owner.

    After a race there may be several claims. Claims that are not being deleted are preferred, then the first by name.
    """
    found = [claim for claim in claims if (metadata(claim).get("annotations") or {}).get(POD_CLAIM_NAME) == entry]
    return min(found, key=lambda claim: ("deletionTimestamp" in metadata(claim), name_of(claim)), default=None)


def is_done(pod: PodFacts) -> bool:
    """Report whether no container of the pod runs, or ever will: it ended, or was deleted before it had a node.

    Both are final: a pod that is being deleted cannot be bound to a node. Source: isPodDone.
    """
    return is_terminal(pod) or (pod.deleting and not pod.node)


def with_consumer(claim: Object, consumer: Object) -> Object:
    """Return a copy of the claim that is also reserved for this consumer."""
    status = claim.get("status") or {}
    return {**claim, "status": {**status, "reservedFor": [*(status.get("reservedFor") or ()), consumer]}}


def with_consumers(claim: Object, consumers: Sequence[Mapping[str, Any]]) -> Object:
    """Return a copy of the claim with the remaining consumers.

    A claim without consumers is deallocated, so that it can be allocated again for another node, and its devices for
    other claims. A claim without the protection finalizer was not allocated by the scheduler, and stays allocated.
    """
    status = {name: value for name, value in (claim.get("status") or {}).items() if name != "reservedFor"}
    if consumers:
        status["reservedFor"] = list(consumers)
    elif DELETE_PROTECTION in finalizers_of(claim):
        status.pop("allocation", None)
    return {**claim, "status": status}


def without_protection(claim: Object) -> Object:
    """Return a copy of the claim without the protection finalizer."""
    names = [name for name in finalizers_of(claim) if name != DELETE_PROTECTION]
    return {**claim, "metadata": {**metadata(claim), "finalizers": names}}
