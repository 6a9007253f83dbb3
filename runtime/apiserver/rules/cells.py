"""Helpers for the table cells of many kinds.

Source: kubernetes pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object, metadata
from kcm.protocols.selectors import label_selector_of
from kcm.protocols.times import human_duration, parse_time
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Printer

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def part(obj: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path; an empty mapping if a step is missing or is not a mapping."""
    for step in path:
        inner = obj.get(step)
        if not isinstance(inner, dict):
            return {}
        obj = inner
    return obj


def items(obj: Mapping[str, Any], name: str) -> Sequence[Any]:
    return obj.get(name) or ()


def name_cell(obj: Object) -> str:
    return str(metadata(obj).get("name") or "")


def since(text: str | None, now: float) -> str:
    """Format the time that has passed since a timestamp, as kubectl formats durations."""
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - parse_time(text))
    except ValueError:
        return UNKNOWN


def age_cell(obj: Object, now: float) -> str:
    return since(metadata(obj).get("creationTimestamp"), now)


def label_cell(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_cell(selector: Mapping[str, Any] | None) -> str:
    """Format a LabelSelector object in the syntax of the query parameter labelSelector."""
    try:
        return str(label_selector_of(selector or {})) or NONE
    except ValueError:
        return "<error>"


def container_cells(pod_spec: Mapping[str, Any]) -> list[str]:
    """Return two cells: the names and the images of the containers."""
    containers = items(pod_spec, "containers")
    return [",".join(str(container.get(field) or "") for container in containers) for field in ("name", "image")]


def shortened(values: Sequence[str], *, most: int = 3, separator: str = ",", empty: str = UNSET) -> str:
    """Join the first `most` values, followed by the number of omitted values."""
    text = separator.join(values[:most])
    return f"{text} + {len(values) - most} more..." if len(values) > most else text or empty


def condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any] | None:
    for condition in items(status, "conditions"):
        if condition.get("type") == type_:
            return condition  # type: ignore[no-any-return]
    return None


def is_true(status: Mapping[str, Any], type_: str) -> bool:
    found = condition(status, type_)
    return found is not None and found.get("status") == "True"


def first_of(values: Iterable[str | None], otherwise: str = "") -> str:
    return next((value for value in values if value), otherwise)


def or_unset(spec: Mapping[str, Any], name: str) -> str:
    return UNSET if spec.get(name) is None else str(spec[name])


def load_balancer_addresses(obj: Object) -> list[str]:
    """Return the sorted load balancer addresses of a Service or an Ingress."""
    ingress = items(part(obj, "status", "loadBalancer"), "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") for entry in ingress} - {None, ""})


def _name_and_age(obj: Object, now: float) -> list[Any]:
    return [name_cell(obj), age_cell(obj, now)]


NAME_AND_AGE = Printer((NAME, AGE), _name_and_age)
