"""Validation of the metrics and references in HorizontalPodAutoscalers.

Source: kubernetes pkg/apis/autoscaling/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.rules.cells import part
from kcm.runtime.apiserver.rules.names import dns_label, path_segment
from kcm.runtime.apiserver.rules.resource_amounts import wrong_container_name

# Type of a metric → field with its source; in upstream's order of validation.
SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}

Part = Mapping[str, Any]


def validate_metric(metric: Part, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    type_ = metric.get("type") or ""
    unknown = not_supported(f"{field}.type", type_, sorted(SOURCES))
    if not type_:
        errors.append(required(f"{field}.type", "must specify a metric source type"))
    if type_ not in SOURCES:
        errors.append(unknown)
    given = [name for name in SOURCES.values() if metric.get(name) is not None]
    if given:
        errors += _CHECKS[given[0]](metric[given[0]], f"{field}.{given[0]}")
    expected = SOURCES.get(type_)
    if expected is None:
        errors.append(unknown)
    elif expected not in given:
        errors.append(required(f"{field}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        others = sorted(name for name in given if name != expected)
        errors += [forbidden(f"{field}.{name}", "must populate the given metric source only") for name in others]
    return errors


def validate_reference(reference: Part, field: str, *, any_version: bool = False, core: bool) -> list[FieldError]:
    """Validate a reference to an object by kind, name and apiVersion: the scale target, or the object of a metric.

    any_version: whether to accept any apiVersion
    core: whether the object may be in the core group
    """
    errors: list[FieldError] = []
    for name in ("kind", "name"):
        if not reference.get(name):
            errors.append(required(f"{field}.{name}"))
        else:
            errors += [invalid(f"{field}.{name}", reference[name], text) for text in path_segment(reference[name])]
    version = reference.get("apiVersion") or ""
    if any_version:
        return errors
    if version.count("/") > 1:
        errors.append(invalid(f"{field}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif not core and not version.rpartition("/")[0]:
        errors.append(invalid(f"{field}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _object(source: Part, field: str) -> list[FieldError]:
    errors = validate_reference(part(source, "describedObject"), f"{field}.describedObject", core=True)
    errors += _identifier(source, field) + _target(source, field)
    target = part(source, "target")
    if target.get("value") is None and target.get("averageValue") is None:
        errors.append(required(f"{field}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _external(source: Part, field: str) -> list[FieldError]:
    errors = _identifier(source, field) + _target(source, field)
    target = part(source, "target")
    value, average = target.get("value"), target.get("averageValue")
    if value is None and average is None:
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{field}.target.averageValue", detail))
    if value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{field}.target.value", detail))
    return errors


def _pods(source: Part, field: str) -> list[FieldError]:
    errors = _identifier(source, field) + _target(source, field)
    if part(source, "target").get("averageValue") is None:
        errors.append(required(f"{field}.target.averageValue", "must specify a positive target averageValue"))
    return errors


def _resource(source: Part, field: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{field}.name", "must specify a resource name")]
    return errors + _target(source, field) + _value_or_utilization(source, field)


def _container_resource(source: Part, field: str) -> list[FieldError]:
    name, container = source.get("name"), source.get("container")
    errors = (
        wrong_container_name(name, f"{field}.name")
        if name
        else [required(f"{field}.name", "must specify a resource name")]
    )
    if not container:
        errors.append(required(f"{field}.container", "must specify a container"))
    else:
        errors += [invalid(f"{field}.container", container, text) for text in dns_label(container)]
    return errors + _target(source, field) + _value_or_utilization(source, field)


_CHECKS = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container_resource,
}


def _value_or_utilization(source: Part, field: str) -> list[FieldError]:
    target = part(source, "target")
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and average is None:
        detail = "must set either a target raw value or a target utilization"
        return [required(f"{field}.target.averageUtilization", detail)]
    if utilization is not None and average is not None:
        detail = "may not set both a target raw value and a target utilization"
        return [forbidden(f"{field}.target.averageValue", detail)]
    return []


def _identifier(source: Part, field: str) -> list[FieldError]:
    name = part(source, "metric").get("name") or ""
    if not name:
        return [required(f"{field}.metric.name", "must specify a metric name")]
    return [invalid(f"{field}.metric.name", name, text) for text in path_segment(name)]


def _target(source: Part, field: str) -> list[FieldError]:
    target, at = part(source, "target"), f"{field}.target"
    errors: list[FieldError] = []
    type_ = target.get("type") or ""
    if not type_:
        errors.append(required(f"{at}.type", "must specify a metric target type"))
    if type_ not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{at}.type", type_, "must be either Utilization, Value, or AverageValue"))
    errors += [
        invalid(f"{at}.{name}", target[name], "must be positive")
        for name in ("value", "averageValue")
        if target.get(name) is not None and parse_quantity(target[name]) <= 0
    ]
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{at}.averageUtilization", utilization, "must be greater than 0"))
    return errors
