"""What bounds, ranks, scales and admits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Printer,
    age_cell,
    condition,
    items,
    name_cell,
    number,
    part,
    selector_cell,
    shortened,
)


def pod_disruption_budget_cells(budget: Object, now: float) -> list[Any]:
    spec = part(budget, "spec")
    bounds = ["N/A" if spec.get(what) is None else str(spec[what]) for what in ("minAvailable", "maxUnavailable")]
    return [name_cell(budget), *bounds, part(budget, "status").get("disruptionsAllowed") or 0, age_cell(budget, now)]


def resource_quota_cells(quota: Object, now: float) -> list[Any]:
    status = part(quota, "status")
    hard, used = part(status, "hard"), part(status, "used")
    columns: tuple[list[str], list[str]] = ([], [])
    for resource in sorted(hard):
        columns[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, '0')}/{hard[resource]}")
    return [name_cell(quota), ", ".join(columns[0]), ", ".join(columns[1]), age_cell(quota, now)]


def priority_class_cells(priority: Object, now: float) -> list[Any]:
    return [
        name_cell(priority),
        priority.get("value") or 0,
        bool(priority.get("globalDefault")),
        age_cell(priority, now),
        priority.get("preemptionPolicy") or "",
    ]


def runtime_class_cells(runtime_class: Object, now: float) -> list[Any]:
    return [name_cell(runtime_class), runtime_class.get("handler") or "", age_cell(runtime_class, now)]


def autoscaler_cells(autoscaler: Object, now: float) -> list[Any]:
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


def autoscaler_v1_cells(autoscaler: Object, now: float) -> list[Any]:
    """autoscaling/v1 knows one metric, and no more than its utilization."""
    spec, status = part(autoscaler, "spec"), part(autoscaler, "status")
    cells = autoscaler_cells(autoscaler, now)
    target = spec.get("targetCPUUtilizationPercentage")
    if target is not None:
        current = status.get("currentCPUUtilizationPercentage")
        cells[2] = f"cpu: {UNKNOWN if current is None else f'{current}%'}/{target}%"
    return cells


# type of a metric → where its specification and its current value are
_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metrics(specs: Sequence[Mapping[str, Any]], currents: Sequence[Mapping[str, Any]]) -> str:
    texts = [_metric(spec, currents[i] if i < len(currents) else {}) for i, spec in enumerate(specs)]
    return shortened(texts, most=2, separator=", ", empty=NONE)


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    source = _SOURCES.get(spec.get("type") or "")
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


def scale_cells(scale: Object, now: float) -> list[Any]:
    desired, available = (part(scale, where).get("replicas") or 0 for where in ("spec", "status"))
    return [name_cell(scale), desired, available, age_cell(scale, now)]


def webhook_cells(configuration: Object, now: float) -> list[Any]:
    return [name_cell(configuration), len(items(configuration, "webhooks")), age_cell(configuration, now)]


def admission_policy_cells(policy: Object, now: float) -> list[Any]:
    spec = part(policy, "spec")
    rules = items(spec, "validations") or items(spec, "mutations")
    kind = spec.get("paramKind")
    named = UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"
    return [name_cell(policy), len(rules), named, age_cell(policy, now)]


def admission_policy_binding_cells(binding: Object, now: float) -> list[Any]:
    spec = part(binding, "spec")
    reference, named = part(spec, "paramRef"), UNSET
    if reference.get("name"):
        named = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        named = selector_cell(reference["selector"])
    return [name_cell(binding), spec.get("policyName") or "", named, age_cell(binding, now)]


def flow_schema_cells(schema: Object, now: float) -> list[Any]:
    spec = part(schema, "spec")
    dangling = condition(part(schema, "status"), "Dangling")
    return [
        name_cell(schema),
        part(spec, "priorityLevelConfiguration").get("name") or "",
        spec.get("matchingPrecedence") or 0,
        part(spec, "distinguisherMethod").get("type") or NONE,
        age_cell(schema, now),
        "?" if dangling is None else dangling.get("status") or "",
    ]


def priority_level_cells(level: Object, now: float) -> list[Any]:
    spec = part(level, "spec")
    limited = spec.get("limited")
    queuing = part(spec, "limited", "limitResponse").get("queuing") or {}
    return [
        name_cell(level),
        spec.get("type") or "",
        NONE if limited is None else limited.get("nominalConcurrencyShares", NONE),
        *(queuing.get(what, NONE) for what in ("queues", "handSize", "queueLengthLimit")),
        age_cell(level, now),
    ]


POD_DISRUPTION_BUDGET = Printer(
    (NAME, Column("Min Available"), Column("Max Unavailable"), number("Allowed Disruptions"), AGE),
    pod_disruption_budget_cells,
)
RESOURCE_QUOTA = Printer((NAME, Column("Request"), Column("Limit"), AGE), resource_quota_cells)
PRIORITY_CLASS = Printer(
    (NAME, number("Value"), Column("Global-Default", "boolean"), AGE, Column("PreemptionPolicy")), priority_class_cells
)
RUNTIME_CLASS = Printer((NAME, Column("Handler"), AGE), runtime_class_cells)
_AUTOSCALER = (
    NAME,
    Column("Reference"),
    Column("Targets"),
    Column("MinPods"),
    Column("MaxPods"),
    Column("Replicas"),
    AGE,
)
AUTOSCALER = Printer(_AUTOSCALER, autoscaler_cells)
AUTOSCALER_V1 = Printer(_AUTOSCALER, autoscaler_v1_cells)
SCALE = Printer((Column("Name"), number("Desired"), number("Available"), AGE), scale_cells)
WEBHOOKS = Printer((NAME, number("Webhooks"), AGE), webhook_cells)
VALIDATING_POLICY = Printer((NAME, number("Validations"), Column("ParamKind"), AGE), admission_policy_cells)
MUTATING_POLICY = Printer((NAME, number("Mutations"), Column("ParamKind"), AGE), admission_policy_cells)
POLICY_BINDING = Printer((NAME, Column("PolicyName"), Column("ParamRef"), AGE), admission_policy_binding_cells)
FLOW_SCHEMA = Printer(
    (
        NAME,
        Column("PriorityLevel"),
        Column("MatchingPrecedence"),
        Column("DistinguisherMethod"),
        AGE,
        Column("MissingPL"),
    ),
    flow_schema_cells,
)
PRIORITY_LEVEL = Printer(
    (
        NAME,
        Column("Type"),
        Column("NominalConcurrencyShares"),
        Column("Queues"),
        Column("HandSize"),
        Column("QueueLengthLimit"),
        AGE,
    ),
    priority_level_cells,
)
