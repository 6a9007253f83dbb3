"""Validation of a list of metav1.Conditions.

Source: apimachinery pkg/apis/meta/v1/validation/validation.go, ValidateConditions (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required, too_long
from kcm.runtime.apiserver.rules.names import label_key

_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME', "
    f" or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_reason = re.compile(_REASON)
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32 * 1024


def fill_times(obj: Object, *names: str) -> None:
    """Set missing times of status conditions to null, since upstream's encoder never omits them.

    names: names of the time fields.
    """
    for condition in (obj.get("status") or {}).get("conditions") or ():
        for name in names:
            condition.setdefault(name, None)


def validate_conditions(conditions: Iterable[Mapping[str, Any]] | None, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    types: set[str] = set()
    for i, condition in enumerate(conditions or ()):
        type_ = condition.get("type") or ""
        if type_ in types:
            errors.append(duplicate(f"{field}[{i}].type", type_))
        types.add(type_)
        errors += _validate_condition(condition, f"{field}[{i}]")
    return errors


def _validate_condition(condition: Mapping[str, Any], field: str) -> list[FieldError]:
    type_, status, reason = (condition.get(name) or "" for name in ("type", "status", "reason"))
    errors = [invalid(f"{field}.type", type_, text) for text in label_key(type_)]
    statuses = ("False", "True", "Unknown")
    if status not in statuses:
        errors.append(not_supported(f"{field}.status", status, statuses))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        errors.append(invalid(f"{field}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{field}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{field}.reason"))
    elif not _reason.fullmatch(reason):
        errors.append(invalid(f"{field}.reason", reason, _REASON_RULE))
    for name, most in (("reason", _LONGEST_REASON), ("message", _LONGEST_MESSAGE)):
        if len((condition.get(name) or "").encode()) > most:
            errors.append(too_long(f"{field}.{name}", most))
    return errors


def validate_condition_types(status: Mapping[str, Any]) -> list[FieldError]:
    """Validate conditions of kinds older than metav1.Condition: each has a type, and types are unique.

    Source: kubernetes pkg/apis/flowcontrol/validation/validation.go, ValidateFlowSchemaStatus (v1.36).
    """
    errors, types = [], set()
    for i, condition in enumerate(status.get("conditions") or ()):
        type_ = condition.get("type") or ""
        if not type_:
            errors.append(required(f"status.conditions[{i}].type"))
        elif type_ in types:
            errors.append(duplicate(f"status.conditions[{i}].type", type_))
        types.add(type_)
    return errors
