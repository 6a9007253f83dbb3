"""Label selectors inside objects.

Source: apimachinery pkg/apis/meta/v1/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.selectors import label_selector_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required
from kcm.runtime.apiserver.rules.names import label_key, label_value
from kcm.runtime.apiserver.rules.object_meta import validate_labels


def validate_selector(selector: Mapping[str, Any], field: str) -> list[FieldError]:
    errors = validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_expression(expression, f"{field}.matchExpressions[{i}]")
    return errors


def _validate_expression(expression: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator") or "", expression.get("values") or []
    match operator:
        case "In" | "NotIn" if not values:
            errors.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist" if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{field}.values", detail))
        case "In" | "NotIn" | "Exists" | "DoesNotExist":
            pass
        case _:
            errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = expression.get("key") or ""
    errors += [invalid(f"{field}.key", key, text) for text in label_key(key)]
    for i, value in enumerate(values):
        errors += [invalid(f"{field}.values[{i}]", value, text) for text in label_value(value)]
    return errors


def shown_selector(selector: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selector as upstream's errors show it: fields in the order of the Go type, labels sorted by key."""
    shown: dict[str, Any] = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        order = ("key", "operator", "values")
        shown["matchExpressions"] = [
            {name: expression[name] for name in order if expression.get(name)}
            for expression in selector["matchExpressions"]
        ]
    return shown


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool | None:
    """Report whether a LabelSelector object matches these labels; None if the selector is invalid."""
    try:
        return label_selector_of(selector).matches(labels)
    except ValueError:
        return None
