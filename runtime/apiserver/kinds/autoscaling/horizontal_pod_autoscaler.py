"""HorizontalPodAutoscalers (autoscaling/v2): defaults, validation and table columns.

Source: kubernetes pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go, pkg/apis/autoscaling/v2/defaults.go,
pkg/apis/autoscaling/validation/validation.go, pkg/printers/internalversion/printers.go (printHorizontalPodAutoscaler)
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.autoscaling.shared.metrics import SOURCES, validate_metric, validate_reference
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, UNKNOWN, UNSET, age_cell, items, name_cell, part, shortened
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE, not_negative

DEFAULT_UTILIZATION = 80  # percent
_ROUND_TRIP = tuple(
    f"autoscaling.alpha.kubernetes.io/{word}"
    for word in (
        *("metrics", "behavior", "scale-down-tolerance", "scale-up-tolerance", "current-metrics", "conditions"),
    )
)
_PERCENT_RULE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_DEFAULT_RULES: Mapping[str, Mapping[str, Any]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT_RULE],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT_RULE]},
}
_LONGEST_PERIOD, _LONGEST_WINDOW = 1800, 3600  # seconds


def cpu_utilization(percent: int) -> Object:
    """Return a metric whose target is this average CPU utilization, in percent of the requests."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def without_round_trip_annotations(meta: Object) -> Object:
    """Return the metadata without the annotations that contain the v2-only fields in autoscaling/v1.

    A client that reads an autoscaler in v1 and writes it in v2 would store these annotations otherwise.
    """
    annotations = meta.get("annotations") or {}
    if not any(name in annotations for name in _ROUND_TRIP):
        return meta
    kept = {name: value for name, value in annotations.items() if name not in _ROUND_TRIP}
    rest = {name: value for name, value in meta.items() if name != "annotations"}
    return {**rest, "annotations": kept} if kept else rest


def set_defaults(autoscaler: Object) -> None:
    autoscaler["metadata"] = without_round_trip_annotations(autoscaler["metadata"])
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [cpu_utilization(DEFAULT_UTILIZATION)]
    set_behavior_defaults(spec)


def set_behavior_defaults(spec: Object) -> None:
    if spec.get("behavior") is not None:
        for way, rules in _DEFAULT_RULES.items():
            spec["behavior"][way] = {**deepcopy(dict(rules)), **(spec["behavior"].get(way) or {})}


def validate(autoscaler: Object, *, lowest: int = 1) -> list[FieldError]:
    """Validate an autoscaler. lowest: minimum of minReplicas, 0 with the feature gate HPAScaleToZero."""
    spec = autoscaler["spec"]
    reference = part(spec, "scaleTargetRef")
    core = reference.get("kind") == "ReplicationController"
    return _validate_spec(spec, lowest=lowest, any_version=False, core=core)


def validate_update(new: Object, old: Object, *, lowest: int = 1) -> list[FieldError]:
    """Validate an update as `validate` does."""
    spec, before = new["spec"], old["spec"]
    reference, was = part(spec, "scaleTargetRef"), part(before, "scaleTargetRef")
    same = all((reference.get(name) or "") == (was.get(name) or "") for name in ("apiVersion", "kind"))
    lowest = 0 if before.get("minReplicas") == 0 else lowest
    core = reference.get("kind") == "ReplicationController"
    return _validate_spec(spec, lowest=lowest, any_version=same, core=core)


def _validate_spec(spec: Object, *, lowest: int, any_version: bool, core: bool) -> list[FieldError]:
    """Validate the spec of an autoscaler.

    lowest: minimum of minReplicas, 0 or 1
    any_version: whether to accept any apiVersion of the scale target, as for an unchanged target
    core: whether the scale target may be in the core group
    """
    errors: list[FieldError] = []
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < lowest:
        errors.append(invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}"))
    if most == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = part(spec, "scaleTargetRef")
    errors += validate_reference(target, "spec.scaleTargetRef", any_version=any_version, core=core)
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        errors += validate_metric(metric, f"spec.metrics[{i}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", detail))
    for way in ("scaleUp", "scaleDown"):
        if rules := part(spec, "behavior").get(way):
            errors += _validate_rules(rules, f"spec.behavior.{way}")
    return errors


def _validate_rules(rules: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    window, policy = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    at = f"{field}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if policy is not None and policy not in ("Disabled", "Max", "Min"):
        errors.append(not_supported(f"{field}.selectPolicy", policy, ("Disabled", "Max", "Min")))
    policies = rules.get("policies") or []
    if not policies:
        errors.append(required(f"{field}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        errors += _validate_policy(policy, f"{field}.policies[{i}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse_quantity(tolerance) < 0:
        errors.append(invalid(f"{field}.tolerance", tolerance, NOT_NEGATIVE))
    return errors


def _validate_policy(policy: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    type_, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if type_ not in ("Percent", "Pods"):
        errors.append(not_supported(f"{field}.type", type_, ("Percent", "Pods")))
    if value <= 0:
        errors.append(invalid(f"{field}.value", value, "must be greater than zero"))
    if period <= 0:
        errors.append(invalid(f"{field}.periodSeconds", period, "must be greater than zero"))
    if period > _LONGEST_PERIOD:
        errors.append(invalid(f"{field}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return errors


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return not_negative(dict(part(new, "status")), "status", ("currentReplicas", "desiredReplicas"))


def cells(autoscaler: Object, now: float) -> list[Any]:
    spec, status = part(autoscaler, "spec"), part(autoscaler, "status")
    target = part(spec, "scaleTargetRef")
    return [
        name_cell(autoscaler),
        f"{target.get('kind') or ''}/{target.get('name') or ''}",
        _metrics(items(spec, "metrics"), items(status, "currentMetrics")),
        UNSET if spec.get("minReplicas") is None else str(spec["minReplicas"]),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age_cell(autoscaler, now),
    ]


def _metrics(specs: Sequence[Mapping[str, Any]], currents: Sequence[Mapping[str, Any]]) -> str:
    texts = [_metric(spec, currents[i] if i < len(currents) else {}) for i, spec in enumerate(specs)]
    return shortened(texts, most=2, separator=", ", empty=NONE)


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    source = SOURCES.get(spec.get("type") or "")
    if source is None:
        return "<unknown type>"
    target, current = part(spec, source, "target"), part(status, source, "current")
    average = target.get("averageValue")
    if source in ("resource", "containerResource"):
        name = part(spec, source).get("name") or ""
        if average is not None:
            return f"{name}: {current.get('averageValue', UNKNOWN)}/{average}"
        return f"{name}: {_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
    if source == "pods":
        return f"{current.get('averageValue', UNKNOWN)}/{average}"
    if average is not None:
        return f"{current.get('averageValue', UNKNOWN)}/{average} (avg)"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', '0')}"


def _percent(values: Mapping[str, Any], otherwise: str) -> str:
    return otherwise if values.get("averageUtilization") is None else f"{values['averageUtilization']}%"


RESOURCE = ResourceDefinition(
    group="autoscaling",
    version="v2",
    plural="horizontalpodautoscalers",
    kind="HorizontalPodAutoscaler",
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        update_is_judged_whole=True,
        validate_update=validate_update,
        has_status=True,
        empty_status={"currentMetrics": None, "desiredReplicas": 0},
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Reference"),
            Column("Targets"),
            Column("MinPods"),
            Column("MaxPods"),
            Column("Replicas"),
            AGE,
        ),
        cells=cells,
    ),
)
