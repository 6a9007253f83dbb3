"""Parsing of the spec of a HorizontalPodAutoscaler, and type checks of the fields that the controller reads.

Source: kubernetes v1.36 staging/src/k8s.io/api/autoscaling/v2/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import Behavior, ReplicaBounds, behavior_of
from kcm.protocols.field_types import COUNT, MAP, NUMBER, QUANTITY, TEXT, TIME, check
from kcm.protocols.objects import Object, key_of
from kcm.protocols.quantities import parse_quantity

_REFERENCE = {"apiVersion": TEXT, "kind": TEXT, "name": TEXT}
_METRIC = {"name": TEXT, "selector": MAP}
_TARGET = {"type": TEXT, "value": QUANTITY, "averageValue": QUANTITY, "averageUtilization": NUMBER}
_RULES = {
    "stabilizationWindowSeconds": COUNT,
    "selectPolicy": TEXT,
    "tolerance": QUANTITY,
    "policies": [{"type": TEXT, "value": COUNT, "periodSeconds": COUNT}],
}
_AUTOSCALER = {
    "spec": {
        "scaleTargetRef": _REFERENCE,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "behavior": {"scaleUp": _RULES, "scaleDown": _RULES},
        "metrics": [
            {
                "type": TEXT,
                "resource": {"name": TEXT, "target": _TARGET},
                "containerResource": {"name": TEXT, "container": TEXT, "target": _TARGET},
                "pods": {"metric": _METRIC, "target": _TARGET},
                "object": {"describedObject": _REFERENCE, "metric": _METRIC, "target": _TARGET},
                "external": {"metric": _METRIC, "target": _TARGET},
            }
        ],
    },
    "status": {
        "currentReplicas": NUMBER,
        "desiredReplicas": NUMBER,
        "conditions": [{"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT}],
    },
}
_SCALE = {"spec": {"replicas": COUNT}, "status": {"replicas": COUNT, "selector": TEXT}}
_CONTAINERS = [{"name": TEXT, "restartPolicy": TEXT, "resources": {"requests": MAP}}]
_POD = {
    "spec": {"containers": _CONTAINERS, "initContainers": _CONTAINERS, "resources": {"requests": MAP}},
    "status": {
        "phase": TEXT,
        "startTime": TIME,
        "conditions": [{"type": TEXT, "status": TEXT, "lastTransitionTime": TIME}],
    },
}


METRIC_FIELDS = {  # by the type of the metric
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}


class TargetReference(NamedTuple):
    """Reference to the workload that is scaled (spec.scaleTargetRef)."""

    api_version: str
    kind: str
    name: str


class MetricTarget(NamedTuple):
    """Target value of a metric (field `target` of an entry of spec.metrics). Unset fields are None."""

    type: str | None  # Value, AverageValue or Utilization
    value: str | None  # a quantity
    average_value: str | None  # a quantity
    average_utilization: int | None  # percent of the request


class MetricSpec(Struct, frozen=True, kw_only=True):
    """Entry of spec.metrics, with the same fields for all types of metrics."""

    type: str  # a key of METRIC_FIELDS, or an unknown type
    is_set: bool  # the field that METRIC_FIELDS names for the type is present
    name: str | None  # name of the resource or metric
    container: str | None  # only for ContainerResource
    # Not parsed here: an invalid selector makes only this metric invalid, and not the whole autoscaler.
    selector: Mapping[str, Any] | None
    described_object: Mapping[str, Any]  # object reference; only for the type Object
    target: MetricTarget


class AutoscalerSpec(Struct, frozen=True, kw_only=True):
    """Parsed spec of a HorizontalPodAutoscaler."""

    target: TargetReference
    bounds: ReplicaBounds
    behavior: Behavior | None
    tolerance_down: float | None  # of behavior.scaleDown; None if it is not set
    tolerance_up: float | None
    metrics: tuple[MetricSpec, ...]

    @property
    def scales_from_zero(self) -> bool:
        """Report whether the autoscaler has a metric whose value does not depend on pods (Object or External).

        Only such a metric can scale the target up from zero replicas.
        """
        return any(metric.type in ("Object", "External") for metric in self.metrics)


def autoscaler_spec(autoscaler: Mapping[str, Any], *, window: float) -> AutoscalerSpec:
    """Parse the spec of a HorizontalPodAutoscaler, and check the status fields that are read.

    window: default of behavior.scaleDown.stabilizationWindowSeconds.

    Raises ValueError, whose text contains the path of a field with a wrong type.
    """
    check(autoscaler, _AUTOSCALER)
    spec = autoscaler.get("spec") or {}
    reference, minimum = spec.get("scaleTargetRef") or {}, spec.get("minReplicas")
    return AutoscalerSpec(
        target=TargetReference(
            reference.get("apiVersion") or "", reference.get("kind") or "", reference.get("name") or ""
        ),
        bounds=ReplicaBounds(1 if minimum is None else minimum, spec.get("maxReplicas") or 0),
        behavior=behavior_of(spec, window=window),
        tolerance_down=_tolerance(spec, "scaleDown"),
        tolerance_up=_tolerance(spec, "scaleUp"),
        metrics=tuple(map(metric_spec, spec.get("metrics") or ())),
    )


def _tolerance(spec: Mapping[str, Any], direction: str) -> float | None:
    tolerance = ((spec.get("behavior") or {}).get(direction) or {}).get("tolerance")
    return None if tolerance is None else float(parse_quantity(tolerance))


def metric_spec(metric: Mapping[str, Any]) -> MetricSpec:
    """Parse an entry of spec.metrics. The types of its fields must have been checked."""
    type_ = metric.get("type") or ""
    field = METRIC_FIELDS.get(type_)
    given = None if field is None else metric.get(field)
    source = given or {}
    identifier = source if type_ in ("Resource", "ContainerResource") else source.get("metric") or {}
    target = source.get("target") or {}
    return MetricSpec(
        type=type_,
        is_set=given is not None,
        name=identifier.get("name"),
        container=source.get("container"),
        selector=identifier.get("selector"),
        described_object=source.get("describedObject") or {},
        target=MetricTarget(
            target.get("type"), target.get("value"), target.get("averageValue"), target.get("averageUtilization")
        ),
    )


def reported_replicas(autoscaler: Mapping[str, Any]) -> int:
    """Return status.currentReplicas of a HorizontalPodAutoscaler; 0 if it is missing."""
    return (autoscaler.get("status") or {}).get("currentReplicas") or 0


def check_scale(scale: Object) -> None:
    """Raise ValueError if a field of the Scale object that the controller reads has a wrong type."""
    check(scale, _SCALE)


def check_pod(pod: Object) -> None:
    """Raise ValueError if a field of the pod that the controller reads has a wrong type. The text names both."""
    try:
        check(pod, _POD)
    except ValueError as err:
        raise ValueError(f"Pod {key_of(pod)}: {err}") from err
