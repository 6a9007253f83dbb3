"""StatefulSets parsed into immutable, validated values.

The API server fills in defaults and checks types. A malformed object that bypassed validation stops the syncs of that
StatefulSet only, with an error that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.field_types import COUNT, MAP, NUMBER, TEXT, CompiledShape, check
from kcm.protocols.objects import Key, Object, is_deleting, key_of, metadata, name_of, namespace_of, uid_of
from kcm.protocols.percentages import IntOrString, scaled_value
from kcm.protocols.selectors import LabelSelector, label_selector_of

RETAIN, DELETE = "Retain", "Delete"

_SHAPE = CompiledShape(
    {
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
)


class Retention(NamedTuple):
    """The persistentVolumeClaimRetentionPolicy. True means that the claims are deleted."""

    on_delete: bool = False  # of the set
    on_scale: bool = False  # when a pod is removed by scaling down


class StatefulSet(NamedTuple):
    """A StatefulSet with its fields parsed and validated."""

    obj: Object
    key: Key
    name: str
    namespace: str
    uid: str
    generation: int  # 0 if it is missing
    is_deleting: bool
    ordinals: range  # of its pods
    selector: LabelSelector
    match_labels: Mapping[str, str]
    template: Object
    service: str
    parallel: bool
    rolling: bool  # strategy RollingUpdate; otherwise OnDelete
    partition: (
        int | None
    )  # pods with a lower index keep the current revision; None without updateStrategy.rollingUpdate
    max_unavailable: IntOrString
    claim_templates: tuple[Object, ...]
    retention: Retention
    min_ready_seconds: int
    history_limit: int | None  # None keeps all revisions
    status: Mapping[str, Any]
    current_replicas: int  # status.currentReplicas
    current_revision: str  # status.currentRevision; "" if it is missing
    collision_count: int

    @property
    def replicas(self) -> int:
        return len(self.ordinals)

    @property
    def ordered(self) -> bool:
        """Report whether the pod management policy is OrderedReady, so that pods are processed one after another."""
        return not self.parallel

    def at_once(self) -> int:
        """Return the number of pods that may be unavailable during an update, at least 1.

        Raises ValueError if maxUnavailable is malformed. Source: getStatefulSetMaxUnavailable.
        """
        return max(1, scaled_value(self.max_unavailable, self.replicas, round_up=False))


def parse_stateful_set(obj: Object) -> StatefulSet:
    """Parse a StatefulSet. Raises ValueError, with the name of the field, if a field is missing or malformed."""
    check(obj, _SHAPE)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
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
        key=key_of(obj),
        name=name_of(obj),
        namespace=namespace_of(obj),
        uid=uid_of(obj),
        generation=metadata(obj).get("generation") or 0,
        is_deleting=is_deleting(obj),
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
        status=status,
        current_replicas=status.get("currentReplicas") or 0,
        current_revision=status.get("currentRevision") or "",
        collision_count=status.get("collisionCount") or 0,
    )


def _retention(spec: Mapping[str, Any]) -> Retention:
    """Parse the retention policy. If one of its values is unknown, both count as Retain.

    Source: isClaimOwnerUpToDate.
    """
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    policies = [policy.get(when) or RETAIN for when in ("whenDeleted", "whenScaled")]
    if any(value not in (RETAIN, DELETE) for value in policies):
        return Retention()
    return Retention(*(value == DELETE for value in policies))


def _claim_templates(spec: Mapping[str, Any]) -> tuple[Object, ...]:
    templates = spec.get("volumeClaimTemplates") or []
    if not isinstance(templates, list) or not all(
        isinstance(template, dict) and name_of(template) for template in templates
    ):
        raise ValueError(f"spec.volumeClaimTemplates is a list of claims that have a name, got {templates!r}")
    return tuple(templates)
