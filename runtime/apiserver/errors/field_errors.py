"""Validation errors of a field of an object, with the texts of upstream's API server.

Source: apimachinery pkg/util/validation/field/errors.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from kcm.runtime.cel.effort import pass_time

_VALUELESS = {"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "FieldValueTooShort", "InternalError"}
_WORDS = {
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueNotFound": "Not found",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}
# Cost of finding an error, in units of about a microsecond; see core/long_computations.py.
OF_ERROR = 8
OMITTED: Any = object()
"""Value of a FieldError whose value must not be shown, for example because it is too large."""


class FieldError(NamedTuple):
    """Validation error of one field; a cause of a Status with the reason Invalid.

    type: a metav1.CauseType.
    field: path of the field, with `[0]` for an item of a list and `[key]` for an entry of a map.
    value: invalid value in JSON; OMITTED if it must not be shown. Ignored for some types, such as FieldValueRequired.
    """

    type: str
    field: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """Text of the error without the field, as in `details.causes[].message`."""
        text = _WORDS[self.type]
        if self.type not in _VALUELESS and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return orjson.dumps(value).decode()


def quoted(text: str) -> str:
    """Quote a text like Go's %q. The escapes of control characters differ, which names and values do not contain."""
    return orjson.dumps(text).decode()


def required(field: str, detail: str = "") -> FieldError:
    pass_time(OF_ERROR)
    return FieldError("FieldValueRequired", field, "", detail)


def invalid(field: str, value: Any, detail: str = "") -> FieldError:
    pass_time(OF_ERROR)
    return FieldError("FieldValueInvalid", field, value, detail)


def without_value(field: str, detail: str) -> FieldError:
    """Return an error for an invalid value that must not be shown (upstream's OmitValueType)."""
    return FieldError("FieldValueInvalid", field, OMITTED, detail)


def forbidden(field: str, detail: str = "") -> FieldError:
    pass_time(OF_ERROR)
    return FieldError("FieldValueForbidden", field, "", detail)


def duplicate(field: str, value: Any) -> FieldError:
    pass_time(OF_ERROR)
    return FieldError("FieldValueDuplicate", field, value)


def not_found(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", field, value)


def too_long(field: str, most: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, "", f"may not be more than {most} bytes")


def too_many(field: str, count: int, most: int) -> FieldError:
    return FieldError("FieldValueTooMany", field, count, f"must have at most {most} items")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    words = ", ".join(quoted(word) for word in supported)
    return FieldError("FieldValueNotSupported", field, value, f"supported values: {words}")
