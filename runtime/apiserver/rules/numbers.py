"""Validation of numbers that must not be negative, of percentages and of ports.

Source: kubernetes pkg/apis/core/validation/validation.go (ValidateNonnegativeField),
pkg/apis/apps/validation/validation.go (ValidatePositiveIntOrPercent, IsNotMoreThan100Percent; v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid

NOT_NEGATIVE = "must be greater than or equal to 0"
_percent = re.compile("[0-9]+%")


def not_negative(obj: Object, field: str, names: Iterable[str]) -> list[FieldError]:
    """Return an error for each named field of obj that is negative. field: path of obj; "" for the root."""
    at = f"{field}." if field else ""
    return [invalid(f"{at}{name}", obj[name], NOT_NEGATIVE) for name in names if (obj.get(name) or 0) < 0]


def int_or_percent(value: int | str, field: str) -> list[FieldError]:
    """Return an error unless the value is a non-negative integer or a percentage."""
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    if _percent.fullmatch(value):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [invalid(field, value, f"{rule} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")]


def number_of(value: int | str) -> int:
    """Return an integer unchanged, and the number before the percent sign of a percentage; 0 for any other text."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if _percent.fullmatch(value) else 0


def port_problems(number: int) -> list[str]:
    """Return the problems of a port number.

    Source: apimachinery pkg/util/validation, IsValidPortNum.
    """
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def at_most_all(value: int | str, field: str) -> list[FieldError]:
    """Return an error if the value is a percentage above 100."""
    is_more = isinstance(value, str) and _percent.fullmatch(value) is not None and int(value[:-1]) > 100
    return [invalid(field, value, "must not be greater than 100%")] if is_more else []
