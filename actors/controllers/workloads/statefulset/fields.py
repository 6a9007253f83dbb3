"""What a StatefulSet says, read and checked.

The API server fills in defaults and checks types. What it would never let through stops this one set, with an error
that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import Object, name_of, namespace_of, uid_of
from kcm.protocols.percentages import IntOrString, scaled_value
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.protocols.shapes import COUNT, MAP, NUMBER, TEXT, check

RETAIN, DELETE = "Retain", "Delete"

_SHAPE = {
    "spec": {
        "replicas": COUNT,
        "ordinals": {"start": COUNT},
        "selector": MAP,
        "template": {"metadata": {"labels": MAP}, "spec": MAP},
        "serviceName": TEXT,
        "podManagementPolicy": TEXT,
        "updateStrategy": {"type": TEXT, "rollingUpdate": {"partition": COUNT}},
        "persistentVolumeClaimRetentionPolicy": MAP,
        "minReadySeconds": COUNT,
    },
    "status": {"currentReplicas": NUMBER, "currentRevision": TEXT, "collisionCount": NUMBER},
}


class Retention(NamedTuple):
    """What becomes of claims. on_delete: when the set is deleted. on_scale: when a pod is no longer wanted. True: they
    are deleted.
    """

    on_delete: bool = False
    on_scale: bool = False


class StatefulSet(NamedTuple):
    """A set. ordinals: those of its pods. rolling: strategy RollingUpdate, else OnDelete. partition: pods whose index
    is below keep the current revision; None without spec.updateStrategy.rollingUpdate. history_limit: None keeps all.
    """

    obj: Object
    name: str
    namespace: str
    uid: str
    ordinals: range
    selector: LabelSelector
    match_labels: Mapping[str, str]
    template: Object
    service: str
    parallel: bool
    rolling: bool
    partition: int | None
    max_unavailable: IntOrString
    claim_templates: tuple[Object, ...]
    retention: Retention
    min_ready_seconds: int
    history_limit: int | None
    status: Mapping[str, Any]

    @property
    def replicas(self) -> int:
        return len(self.ordinals)

    @property
    def ordered(self) -> bool:
        """Pod management policy OrderedReady: one pod after the other."""
        return not self.parallel

    def at_once(self) -> int:
        """How many pods an update may make unavailable, at least 1. Raises ValueError on what is no number.

        Source: getStatefulSetMaxUnavailable.
        """
        return max(1, scaled_value(self.max_unavailable, self.replicas, round_up=False))


def stateful_set(obj: Object) -> StatefulSet:
    """Raises ValueError that names the field which is missing or of the wrong type."""
    check(obj, _SHAPE)
    spec = obj.get("spec") or {}
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    start = (spec.get("ordinals") or {}).get("start") or 0
    limit = 10 if spec.get("revisionHistoryLimit") is None else spec["revisionHistoryLimit"]
    if type(limit) is not int:
        raise ValueError(f"spec.revisionHistoryLimit is a whole number, got {limit!r}")
    selector = spec.get("selector") or {}
    compiled = label_selector_of(selector)
    if compiled.empty:
        raise ValueError("spec.selector is empty")
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    return StatefulSet(
        obj=obj,
        name=name_of(obj),
        namespace=namespace_of(obj),
        uid=uid_of(obj),
        ordinals=range(start, start + replicas),
        selector=compiled,
        match_labels=selector.get("matchLabels") or {},
        template=spec.get("template") or {},
        service=spec.get("serviceName") or "",
        parallel=spec.get("podManagementPolicy") == "Parallel",
        rolling=(strategy.get("type") or "RollingUpdate") == "RollingUpdate",
        partition=None if strategy.get("rollingUpdate") is None else rolling.get("partition") or 0,
        max_unavailable=1 if rolling.get("maxUnavailable") is None else rolling["maxUnavailable"],
        claim_templates=_claim_templates(spec),
        retention=_retention(spec),
        min_ready_seconds=spec.get("minReadySeconds") or 0,
        history_limit=None if limit < 0 else limit,
        status=obj.get("status") or {},
    )


def _retention(spec: Mapping[str, Any]) -> Retention:
    """An unknown policy counts as Retain, for both. Source: isClaimOwnerUpToDate."""
    said = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    policies = [said.get(when) or RETAIN for when in ("whenDeleted", "whenScaled")]
    if any(policy not in (RETAIN, DELETE) for policy in policies):
        return Retention()
    return Retention(*(policy == DELETE for policy in policies))


def _claim_templates(spec: Mapping[str, Any]) -> tuple[Object, ...]:
    templates = spec.get("volumeClaimTemplates") or []
    if not isinstance(templates, list) or not all(isinstance(each, dict) and name_of(each) for each in templates):
        raise ValueError(f"spec.volumeClaimTemplates is a list of claims that have a name, got {templates!r}")
    return tuple(templates)
