"""Numbers that may not be negative.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidateNonnegativeField (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, invalid

NOT_NEGATIVE = "must be greater than or equal to 0"


def not_negative(obj: Object, field: str, names: Iterable[str]) -> list[FieldError]:
    """Errors for those of these fields that are below 0. field: the path of obj."""
    return [invalid(f"{field}.{name}", obj[name], NOT_NEGATIVE) for name in names if (obj.get(name) or 0) < 0]
