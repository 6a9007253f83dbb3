"""HorizontalPodAutoscalers of autoscaling/v1: conversion to and from the stored form, autoscaling/v2.

The spec of v1 has a single metric, the CPU utilization. Annotations contain all other metrics, the conditions and the
behavior, encoded in JSON.

Source: kubernetes pkg/apis/autoscaling/v1/{conversion,defaults}.go, pkg/apis/autoscaling/helpers.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.kinds.autoscaling import horizontal_pod_autoscaler as v2
from kcm.runtime.apiserver.rules.cells import UNKNOWN, part
from kcm.runtime.apiserver.schema.kind_checks import built_in_type_checks
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError

_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR = (
    f"autoscaling.alpha.kubernetes.io/{word}" for word in ("metrics", "current-metrics", "conditions", "behavior")
)
_SOURCES = ("object", "pods", "resource", "containerResource", "external")  # in the order of Go's encoder
_CPU = "targetCPUUtilizationPercentage"
_CURRENT_CPU = "currentCPUUtilizationPercentage"

Metric = Mapping[str, Any]


def to_storage(autoscaler: Object) -> Object:
    """Convert an autoscaler from v1 to v2, including the fields in its annotations."""
    annotations = autoscaler["metadata"].get("annotations") or {}
    spec = {name: value for name, value in part(autoscaler, "spec").items() if name != _CPU}
    status = {name: value for name, value in part(autoscaler, "status").items() if name != _CURRENT_CPU}
    metrics = _list(annotations.get(_METRICS), _stored_metric, "MetricSpec") or []
    if (target := part(autoscaler, "spec").get(_CPU)) is not None:
        metrics.append(v2.cpu_utilization(target))
    if metrics:
        spec["metrics"] = metrics
    if behavior := _behavior(annotations.get(_BEHAVIOR)):
        spec["behavior"] = behavior
    if (percent := part(autoscaler, "status").get(_CURRENT_CPU)) is not None:
        cpu = {"name": "cpu", "current": {"averageUtilization": percent}}
        status["currentMetrics"] = [{"type": "Resource", "resource": cpu}]
    if (current := _list(annotations.get(_CURRENT), _stored_current, "MetricStatus")) is not None:
        status["currentMetrics"] = current
    if conditions := _list(annotations.get(_CONDITIONS), dict, "HorizontalPodAutoscalerCondition"):
        status["conditions"] = conditions
    stored = {**autoscaler, "apiVersion": v2.RESOURCE.api_version, "spec": spec}
    stored["metadata"] = v2.without_round_trip_annotations(autoscaler["metadata"])
    if status:
        stored["status"] = status
    return stored


def from_storage(autoscaler: Object) -> Object:
    """Convert an autoscaler from v2 to v1, with the fields that v1 lacks in annotations."""
    spec, status = part(autoscaler, "spec"), part(autoscaler, "status")
    shown_spec = {name: value for name, value in spec.items() if name not in ("metrics", "behavior")}
    shown_status = {name: value for name, value in status.items() if name not in ("currentMetrics", "conditions")}
    annotations: dict[str, str] = {}
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    targets = [metric["resource"]["target"]["averageUtilization"] for metric in metrics if _is_cpu(metric)]
    if targets:
        shown_spec[_CPU] = targets[0]
    if others := [_shown_metric(metric) for metric in metrics if not _is_cpu(metric)]:
        annotations[_METRICS] = _encoded(others)
    if current:
        annotations[_CURRENT] = _encoded([_shown_current(metric_status) for metric_status in current])
    for metric_status in current:
        percent = part(metric_status, "resource", "current").get("averageUtilization")
        if (
            metric_status.get("type") == "Resource"
            and part(metric_status, "resource").get("name") == "cpu"
            and percent is not None
        ):
            shown_status[_CURRENT_CPU] = percent
    if spec.get("behavior") is not None:
        annotations[_BEHAVIOR] = _encoded(_internal_behavior(spec["behavior"]))
    if status.get("conditions"):
        order = ("type", "status", "lastTransitionTime", "reason", "message")
        annotations[_CONDITIONS] = _encoded([_selected_fields(condition, order) for condition in status["conditions"]])
    shown = {**autoscaler, "apiVersion": RESOURCE.api_version, "spec": shown_spec}
    if "status" in autoscaler:
        shown["status"] = {"currentReplicas": 0, **shown_status}
    if annotations:
        meta = autoscaler["metadata"]
        shown["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    return shown


def _is_cpu(metric: Metric) -> bool:
    """Report whether v1 expresses this v2 metric in targetCPUUtilizationPercentage, and not in an annotation."""
    resource = part(metric, "resource")
    return (
        metric.get("type") == "Resource"
        and resource.get("name") == "cpu"
        and part(resource, "target").get("averageUtilization") is not None
    )


def _shown_metric(metric: Metric) -> Object:
    return _convert_sources(metric, _SHOWN_SPECS)


def _shown_current(metric: Metric) -> Object:
    return _convert_sources(metric, _SHOWN_CURRENTS)


def _stored_metric(metric: Metric) -> Object:
    return _convert_sources(metric, _STORED_SPECS)


def _stored_current(metric: Metric) -> Object:
    return _convert_sources(metric, _STORED_CURRENTS)


def _convert_sources(metric: Metric, convert: Mapping[str, Callable[[Metric], Object]]) -> Object:
    found: Object = {"type": metric.get("type") or ""}
    for name in _SOURCES:
        if metric.get(name) is not None:
            found[name] = convert[name](metric[name])
    return found


def _reference(source: Metric) -> Object:
    found: Object = {name: source.get(name) or "" for name in ("kind", "name")}
    if source.get("apiVersion"):
        found["apiVersion"] = source["apiVersion"]
    return found


def _metric_id(source: Metric, selector: str = "selector") -> Object:
    found: Object = {"name": source.get("metricName") or ""}
    if source.get(selector) is not None:
        found["selector"] = source[selector]
    return found


def _present(**values: Any) -> Object:
    return {name: value for name, value in values.items() if value is not None}


_SHOWN_SPECS: Mapping[str, Callable[[Metric], Object]] = {
    "object": lambda source: _present(
        target=_reference(part(source, "describedObject")),
        metricName=part(source, "metric").get("name") or "",
        targetValue=part(source, "target").get("value") or "0",
        selector=part(source, "metric").get("selector"),
        averageValue=part(source, "target").get("averageValue"),
    ),
    "pods": lambda source: _present(
        metricName=part(source, "metric").get("name") or "",
        targetAverageValue=part(source, "target").get("averageValue") or "0",
        selector=part(source, "metric").get("selector"),
    ),
    "resource": lambda source: _present(
        name=source.get("name") or "",
        targetAverageUtilization=part(source, "target").get("averageUtilization"),
        targetAverageValue=part(source, "target").get("averageValue"),
    ),
    "containerResource": lambda source: _present(
        name=source.get("name") or "",
        targetAverageUtilization=part(source, "target").get("averageUtilization"),
        targetAverageValue=part(source, "target").get("averageValue"),
        container=source.get("container") or "",
    ),
    "external": lambda source: _present(
        metricName=part(source, "metric").get("name") or "",
        metricSelector=part(source, "metric").get("selector"),
        targetValue=part(source, "target").get("value"),
        targetAverageValue=part(source, "target").get("averageValue"),
    ),
}

_SHOWN_CURRENTS: Mapping[str, Callable[[Metric], Object]] = {
    "object": lambda source: _present(
        target=_reference(part(source, "describedObject")),
        metricName=part(source, "metric").get("name") or "",
        currentValue=part(source, "current").get("value") or "0",
        selector=part(source, "metric").get("selector"),
        averageValue=part(source, "current").get("averageValue"),
    ),
    "pods": lambda source: _present(
        metricName=part(source, "metric").get("name") or "",
        currentAverageValue=part(source, "current").get("averageValue") or "0",
        selector=part(source, "metric").get("selector"),
    ),
    "resource": lambda source: _present(
        name=source.get("name") or "",
        currentAverageUtilization=part(source, "current").get("averageUtilization"),
        currentAverageValue=part(source, "current").get("averageValue") or "0",
    ),
    "containerResource": lambda source: _present(
        name=source.get("name") or "",
        currentAverageUtilization=part(source, "current").get("averageUtilization"),
        currentAverageValue=part(source, "current").get("averageValue") or "0",
        container=source.get("container") or "",
    ),
    "external": lambda source: _present(
        metricName=part(source, "metric").get("name") or "",
        metricSelector=part(source, "metric").get("selector"),
        currentValue=part(source, "current").get("value") or "0",
        currentAverageValue=part(source, "current").get("averageValue"),
    ),
}


def _stored_object(source: Metric) -> Object:
    average, value = source.get("averageValue"), source.get("targetValue") or "0"
    if average is not None and parse_quantity(value) == 0:
        value = None  # targetValue is required in autoscaling/v1
    type_ = "Value" if average is None else "AverageValue"
    return {
        "describedObject": _reference(part(source, "target")),
        "target": _present(type=type_, value=value, averageValue=average),
        "metric": _metric_id(source),
    }


def _stored_resource(source: Metric) -> Object:
    utilization, average = source.get("targetAverageUtilization"), source.get("targetAverageValue")
    type_ = "AverageValue" if utilization is None else "Utilization"
    target = _present(type=type_, averageValue=average, averageUtilization=utilization)
    return _present(name=source.get("name") or "", container=source.get("container"), target=target)


def _stored_external(source: Metric) -> Object:
    value = source.get("targetValue")
    type_ = "AverageValue" if value is None else "Value"
    target = _present(type=type_, value=value, averageValue=source.get("targetAverageValue"))
    return {"metric": _metric_id(source, "metricSelector"), "target": target}


_STORED_SPECS: Mapping[str, Callable[[Metric], Object]] = {
    "object": _stored_object,
    "pods": lambda source: {
        "metric": _metric_id(source),
        "target": {"type": "AverageValue", "averageValue": source.get("targetAverageValue") or "0"},
    },
    "resource": _stored_resource,
    "containerResource": _stored_resource,
    "external": _stored_external,
}


def _stored_current_resource(source: Metric) -> Object:
    current = _present(
        averageValue=source.get("currentAverageValue") or "0",
        averageUtilization=source.get("currentAverageUtilization"),
    )
    return _present(name=source.get("name") or "", current=current, container=source.get("container"))


_STORED_CURRENTS: Mapping[str, Callable[[Metric], Object]] = {
    "object": lambda source: {
        "metric": _metric_id(source),
        "current": _present(value=source.get("currentValue") or "0", averageValue=source.get("averageValue")),
        "describedObject": _reference(part(source, "target")),
    },
    "pods": lambda source: {
        "metric": _metric_id(source),
        "current": {"averageValue": source.get("currentAverageValue") or "0"},
    },
    "resource": _stored_current_resource,
    "containerResource": _stored_current_resource,
    "external": lambda source: {
        "metric": _metric_id(source, "metricSelector"),
        "current": _present(value=source.get("currentValue") or "0", averageValue=source.get("currentAverageValue")),
    },
}


def _internal_behavior(behavior: Metric) -> Object:
    """Return the behavior as upstream encodes it in the annotation: its internal Go type, with all fields."""
    return {_go_name(way): _internal_rules(behavior.get(way)) for way in ("scaleUp", "scaleDown")}


def _internal_rules(rules: Metric | None) -> Object | None:
    if rules is None:
        return None
    fields = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    found = {_go_name(name): rules.get(name) for name in fields}
    if rules.get("policies") is not None:
        order = ("type", "value", "periodSeconds")
        found["Policies"] = [{_go_name(name): policy.get(name) for name in order} for policy in rules["policies"]]
    return found


def _renamed_fields(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a JSON value with `rename` applied to all field names, and without nulls."""
    if isinstance(value, dict):
        return {rename(name): _renamed_fields(inner, rename) for name, inner in value.items() if inner is not None}
    return [_renamed_fields(inner, rename) for inner in value] if isinstance(value, list) else value


def _go_name(name: str) -> str:
    return name[:1].upper() + name[1:]


def _json_name(name: str) -> str:
    return name[:1].lower() + name[1:]


def _selected_fields(obj: Metric, order: tuple[str, ...]) -> Object:
    return {name: obj[name] for name in order if obj.get(name) is not None}


def _list(text: str | None, convert: Callable[[Metric], Object], type_: str) -> list[Object] | None:
    """Decode a JSON list from an annotation and convert its elements to v2.

    Returns None if the annotation is missing or malformed, which upstream ignores too.

    type_: name of the elements' v2 type, such as "MetricSpec"
    """
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    converted = [convert(item) for item in value]
    return converted if all(_is_of(type_, item) for item in converted) else None


def _behavior(text: str | None) -> Object | None:
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    behavior = _renamed_fields(value, _json_name)
    return behavior if behavior and _is_of("HorizontalPodAutoscalerBehavior", behavior) else None


def _is_of(type_: str, value: Any) -> bool:
    try:
        built_in_type_checks().check_type(f"io.k8s.api.autoscaling.v2.{type_}", value)
    except UnmarshalTypeError:
        return False
    return True


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def set_defaults(autoscaler: Object) -> None:
    """Set the defaults of an autoscaler after its conversion to v2. Those of behavior are set by canonicalize."""
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [v2.cpu_utilization(v2.DEFAULT_UTILIZATION)]


def canonicalize(autoscaler: Object) -> None:
    v2.set_behavior_defaults(autoscaler["spec"])


def cells(autoscaler: Object, now: float) -> list[Any]:
    """Return the table cells as for v2, with CPU utilization as the only metric."""
    spec, status = part(autoscaler, "spec"), part(autoscaler, "status")
    row = v2.cells(autoscaler, now)
    target = spec.get(_CPU)
    if target is not None:
        current = status.get(_CURRENT_CPU)
        row[2] = f"cpu: {UNKNOWN if current is None else f'{current}%'}/{target}%"
    return row


RESOURCE = replace(
    v2.RESOURCE,
    version="v1",
    to_storage=to_storage,
    from_storage=from_storage,
    strategy=replace(v2.RESOURCE.strategy, set_defaults=set_defaults, canonicalize=canonicalize),
    printer=v2.RESOURCE.printer._replace(cells=cells),
)
