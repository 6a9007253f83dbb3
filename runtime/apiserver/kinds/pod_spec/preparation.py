"""Preparation of a new pod before validation: label keys are merged into selectors, AppArmor annotations into fields.

Source: kubernetes pkg/registry/core/pod/strategy.go (mutatePodAffinity, mutateTopologySpreadConstraints,
applyAppArmorVersionSkew; v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the deprecated annotations with a container's AppArmor profile; the container's name follows."""
_LONGEST_PROFILE = 4095


def merge_label_keys(pod: Object) -> None:
    """Add matchLabelKeys and mismatchLabelKeys to the label selectors of pod affinity and topology spread constraints.

    The values are those of the pod's own labels.
    """
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    for term in _affinity_terms(spec.get("affinity") or {}):
        _merge(term, "matchLabelKeys", "In", labels)
        _merge(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, "matchLabelKeys", "In", labels)


def _affinity_terms(affinity: Mapping[str, Any]) -> Iterator[Object]:
    for part in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(part) or {}
        for weighted in found.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}
        yield from found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _merge(term: Object, field: str, operator: str, labels: Mapping[str, str]) -> None:
    """Add a requirement for each label key to the labelSelector of a term. A missing selector is left missing."""
    keys: Sequence[str] = term.get(field) or ()
    selector = term.get("labelSelector")
    if selector is None:
        return
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def apply_apparmor_annotations(pod: Object) -> list[str]:
    """Set appArmorProfile of containers from their annotations, and return the keys of deprecated annotations.

    Containers that already have the field are skipped, and their annotations are not returned.
    """
    annotations, spec = pod["metadata"].get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return []
    deprecated: list[str] = []
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        key = APPARMOR + (container.get("name") or "")
        if key not in annotations or (container.get("securityContext") or {}).get("appArmorProfile") is not None:
            continue
        profile = _profile(annotations[key])
        if profile is None:
            deprecated.append(key)
        elif profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
            deprecated.append(key)
    return deprecated


def _profile(annotation: str) -> Object | None:
    """Return the appArmorProfile for the value of an annotation; None if the value is invalid."""
    named = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
    if annotation in named:
        return {"type": named[annotation]}
    local = annotation.removeprefix("localhost/")
    if local == annotation or not local or local.strip() != local or len(local) > _LONGEST_PROFILE:
        return None
    return {"type": "Localhost", "localhostProfile": local}
