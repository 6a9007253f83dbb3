"""Identity of a StatefulSet's pods: names, ordinals, labels and volumes.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_utils.go (getParentNameAndOrdinal, identityMatches,
storageMatches, newStatefulSetPod, updateIdentity, updateStorage). Difference: a pod whose ordinal has leading zeros
("web-01") does not belong to the set; upstream treats it as web-1, beside the pod of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from kcm.actors.controllers.shared.generated_names import generate_name
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.actors.reconciliation import own
from kcm.protocols.integers import INT32
from kcm.protocols.objects import Key, Object, metadata, name_of, split_key
from kcm.protocols.resources import STATEFULSETS

REVISION_LABEL = "controller-revision-hash"  # its value is the name of the pod's ControllerRevision
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"

_MEMBER = re.compile(r"(.*)-(0|[1-9][0-9]*)")


@lru_cache(maxsize=1024)
def parent_and_ordinal(name: str) -> tuple[str, int]:
    """Split a pod name such as web-3 into ("web", 3). Return ("", -1) if it does not end with an int32 ordinal."""
    found = _MEMBER.fullmatch(name)
    if found is None or int(found[2]) not in INT32:
        return "", -1
    return found[1], int(found[2])


def ordinal_of(pod: str, parent: str) -> int | None:
    """Return the ordinal of a pod with this name; None if the name does not belong to the set named `parent`."""
    found, ordinal = parent_and_ordinal(pod)
    return ordinal if found == parent and ordinal >= 0 else None


@lru_cache(maxsize=16_384)  # every sync of a set calls this several times for each of its pods
def ordinal_of_key(pod: Key, parent: str) -> int | None:
    return ordinal_of(split_key(pod)[1], parent)


def pod_name(parent: str, ordinal: int) -> str:
    return f"{parent}-{ordinal}"


def claim_name(template: Object, parent: str, ordinal: int) -> str:
    return f"{name_of(template)}-{parent}-{ordinal}"


def pod_of(stateful_set: StatefulSet, ordinal: int, *, template: Mapping[str, Any], revision: str) -> Object:
    """Return the pod to create for this ordinal from the template. Source: newStatefulSetPod.

    revision: name of the ControllerRevision that contains the template.
    """
    name = pod_name(stateful_set.name, ordinal)
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **identity_labels(name, ordinal), REVISION_LABEL: revision}
    pod_meta = {"name": name, "generateName": generate_name(stateful_set.name), "labels": labels}
    pod_meta.update({field: meta[field] for field in ("annotations", "finalizers") if meta.get(field)})
    spec = {**(template.get("spec") or {}), "hostname": name}
    spec.pop("subdomain", None)
    if stateful_set.service:
        spec["subdomain"] = stateful_set.service
    volumes = volumes_of(stateful_set, ordinal, spec.get("volumes") or ())
    if volumes:
        spec["volumes"] = volumes
    return own({"metadata": pod_meta, "spec": spec}, by=stateful_set.obj, of=STATEFULSETS)


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {NAME_LABEL: name, INDEX_LABEL: str(ordinal)}


def volumes_of(stateful_set: StatefulSet, ordinal: int, others: Iterable[Object]) -> list[Object]:
    """Return the volumes of a pod: one for each claim template, and `others` unless a claim has the same volume
    name.
    """
    claimed = {
        name_of(each): {
            "name": name_of(each),
            "persistentVolumeClaim": {"claimName": claim_name(each, stateful_set.name, ordinal)},
        }
        for each in stateful_set.claim_templates
    }
    return [*claimed.values(), *(volume for volume in others if volume.get("name") not in claimed)]


def has_its_volumes(stateful_set: StatefulSet, ordinal: int, pod: Mapping[str, Any]) -> bool:
    """Report whether each claim template has its volume in the pod. Source: storageMatches."""
    volumes = {volume.get("name"): volume for volume in (pod.get("spec") or {}).get("volumes") or ()}
    for each in stateful_set.claim_templates:
        source = (volumes.get(name_of(each)) or {}).get("persistentVolumeClaim") or {}
        if source.get("claimName") != claim_name(each, stateful_set.name, ordinal):
            return False
    return True


def with_its_identity(stateful_set: StatefulSet, ordinal: int, pod: Object) -> Object:
    """Return the pod with the labels and volumes that its name and ordinal require.

    Source: updateIdentity, updateStorage.
    """
    meta = metadata(pod)
    labels = {**(meta.get("labels") or {}), **identity_labels(name_of(pod), ordinal)}
    spec = pod.get("spec") or {}
    if not has_its_volumes(stateful_set, ordinal, pod):
        spec = {**spec, "volumes": volumes_of(stateful_set, ordinal, spec.get("volumes") or ())}
    return {**pod, "metadata": {**meta, "labels": labels}, "spec": spec}
