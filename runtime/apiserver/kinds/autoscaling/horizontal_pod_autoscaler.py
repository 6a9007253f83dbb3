"""HorizontalPodAutoscalers.

Source: kubernetes pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go,
pkg/printers/internalversion/printers.go (printHorizontalPodAutoscaler) (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, UNKNOWN, UNSET, age_cell, items, name_cell, part, shortened
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy

# type of a metric → where its specification and its current value are
_METRIC_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


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


def cells_of_v1(autoscaler: Object, now: float) -> list[Any]:
    """autoscaling/v1 has a single metric, the utilization of CPU."""
    spec, status = part(autoscaler, "spec"), part(autoscaler, "status")
    row = cells(autoscaler, now)
    target = spec.get("targetCPUUtilizationPercentage")
    if target is not None:
        current = status.get("currentCPUUtilizationPercentage")
        row[2] = f"cpu: {UNKNOWN if current is None else f'{current}%'}/{target}%"
    return row


def _metrics(specs: Sequence[Mapping[str, Any]], currents: Sequence[Mapping[str, Any]]) -> str:
    texts = [_metric(spec, currents[i] if i < len(currents) else {}) for i, spec in enumerate(specs)]
    return shortened(texts, most=2, separator=", ", empty=NONE)


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    source = _METRIC_SOURCES.get(spec.get("type") or "")
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
        has_status=True,
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


# Not served yet: autoscaling/v1 is the same object in another form, for which a conversion is to be written.
RESOURCE_V1 = replace(RESOURCE, version="v1", printer=RESOURCE.printer._replace(cells=cells_of_v1))
