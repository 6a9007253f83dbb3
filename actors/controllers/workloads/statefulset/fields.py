"""What a StatefulSet says, read and checked.

The API server fills in defaults and checks types. What it would never let through stops this one set, with an error
that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from protocols.objects import Object, name_of, namespace_of, uid_of
from protocols.percentages import IntOrString, scaled_value
from protocols.selectors import LabelSelector, label_selector_of

RETAIN, DELETE = "Retain", "Delete"


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
    spec, status = _map(obj, "spec", ""), _map(obj, "status", "")
    strategy = _map(spec, "updateStrategy", "spec.")
    rolling = _map(strategy, "rollingUpdate", "spec.updateStrategy.")
    start = _count(_map(spec, "ordinals", "spec."), "start", 0, "spec.ordinals.")
    limit = 10 if spec.get("revisionHistoryLimit") is None else spec["revisionHistoryLimit"]
    if type(limit) is not int:
        raise ValueError(f"spec.revisionHistoryLimit is a whole number, got {limit!r}")
    selector = _map(spec, "selector", "spec.")
    compiled = label_selector_of(selector)
    if compiled.empty:
        raise ValueError("spec.selector is empty")
    template = _map(spec, "template", "spec.")
    _map(template, "metadata", "spec.template.")
    _map(template, "spec", "spec.template.")
    return StatefulSet(
        obj=obj,
        name=name_of(obj),
        namespace=namespace_of(obj),
        uid=uid_of(obj),
        ordinals=range(start, start + _count(spec, "replicas", 1, "spec.")),
        selector=compiled,
        match_labels=selector.get("matchLabels") or {},
        template=template,
        service=_text(spec, "serviceName"),
        parallel=_text(spec, "podManagementPolicy") == "Parallel",
        rolling=_text(strategy, "type") in ("", "RollingUpdate"),
        partition=_count(rolling, "partition", 0, "spec.updateStrategy.rollingUpdate.")
        if strategy.get("rollingUpdate") is not None
        else None,
        max_unavailable=1 if rolling.get("maxUnavailable") is None else rolling["maxUnavailable"],
        claim_templates=_claim_templates(spec),
        retention=_retention(spec),
        min_ready_seconds=_count(spec, "minReadySeconds", 0, "spec."),
        history_limit=None if limit < 0 else limit,
        status=status,
    )


def _retention(spec: Mapping[str, Any]) -> Retention:
    """An unknown policy counts as Retain, for both. Source: isClaimOwnerUpToDate."""
    said = _map(spec, "persistentVolumeClaimRetentionPolicy", "spec.")
    policies = [said.get(when) or RETAIN for when in ("whenDeleted", "whenScaled")]
    if any(policy not in (RETAIN, DELETE) for policy in policies):
        return Retention()
    return Retention(*(policy == DELETE for policy in policies))


def _claim_templates(spec: Mapping[str, Any]) -> tuple[Object, ...]:
    templates = spec.get("volumeClaimTemplates") or []
    if not isinstance(templates, list) or not all(isinstance(each, dict) and name_of(each) for each in templates):
        raise ValueError(f"spec.volumeClaimTemplates is a list of claims that have a name, got {templates!r}")
    return tuple(templates)


def _map(part: Mapping[str, Any], field: str, where: str) -> Object:
    value = part.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{where}{field} is a map, got {value!r}")
    return value


def _text(part: Mapping[str, Any], field: str) -> str:
    value = part.get(field) or ""
    if not isinstance(value, str):
        raise ValueError(f"{field} is a string, got {value!r}")
    return value


def _count(part: Mapping[str, Any], field: str, default: int, where: str) -> int:
    value = part.get(field)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ValueError(f"{where}{field} is a number from 0 on, got {value!r}")
    return value
