"""Validation of numbers (type and format, bounds, multiples) and of enumerations.

A JSON number without fraction and exponent is an integer (upstream int64); every other number is a float64.

Source: kube-openapi pkg/validation/validate/{type,values,validator}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.runtime.apiserver.apiextensions.schemas import Schema

_TYPES: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
_GREATEST = {"int32": 2**31 - 1, "int64": 2**63 - 1, "": 2**63 - 1}
_GREATEST_FLOAT = 3.4028234663852886e38


def type_and_format(value: Any) -> tuple[str, str]:
    """Return the OpenAPI type and format of a value other than null."""
    return _TYPES[type(value)]


def wrong_type(types: tuple[str, ...], format_: str, value: Any) -> tuple[str, str] | None:
    """Return (wanted type, actual type) if the value has a wrong type, otherwise None. The value must not be null."""
    found, found_format = type_and_format(value)
    as_integer = found == "number" and is_integral(value) and "integer" in types
    as_number = found == "integer" and "number" in types
    of_numbers = "number" in types or "integer" in types
    if found in ("string", "array"):
        if format_ and not of_numbers:
            return None
    elif format_ and not (found in types or found_format == format_ or as_integer or as_number):
        return format_, found_format
    if found in types or as_integer or as_number:
        return None
    return ",".join(types), found


def fits(types: tuple[str, ...], format_: str, value: Any) -> bool:
    return wrong_type(types, format_, value) is None


def out_of_range(value: float, types: tuple[str, ...], format_: str, prefix: str, path: str) -> str:
    """Return the error text for a number or bound outside the range of its type; "" if it is in range.

    prefix: text to put before the error.
    """
    if types == ("integer",):
        most = _GREATEST[format_ if format_ == "int32" else ""]
        fits_in = float(value).is_integer() and -most - 1 <= value <= most
    elif types == ("number",) and format_ == "float":
        fits_in = abs(value) <= _GREATEST_FLOAT
    else:
        fits_in = True
    if fits_in:
        return ""
    wanted = f"with format {format_}" if format_ else "(default format)"
    return f"{prefix} value must be of type {types[0]} {wanted} in {path}"


def is_within(schema: Schema, value: float, types: tuple[str, ...], format_: str) -> bool:
    """Report whether a number is within the bounds of the schema.

    As upstream, no number is within a bound that is itself outside the range of the type.
    """
    bounds = (("maximum", schema.get("maximum")), ("minimum", schema.get("minimum")))
    if out_of_range(value, types, format_, "", ""):
        return False
    for name, bound in bounds:
        if bound is None:
            continue
        if out_of_range(bound, types, format_, "", "") or exceeds(schema, name, value):
            return False
    factor = schema.get("multipleOf")
    return factor is None or not out_of_range(factor, types, format_, "", "")


def exceeds(schema: Schema, name: str, value: float) -> bool:
    """Report whether a number exceeds a bound of the schema. The bound is truncated if the number is an integer.

    name: the bound, "maximum" or "minimum".
    """
    bound = int(schema[name]) if isinstance(value, int) else schema[name]
    excluded = bool(schema.get(f"exclusive{name.capitalize()}"))
    if name == "maximum":
        return bool(value >= bound if excluded else value > bound)
    return bool(value <= bound if excluded else value < bound)


def is_multiple(schema: Schema, value: float) -> bool:
    factor = schema.get("multipleOf")
    if factor is None:
        return True
    if isinstance(value, int) and float(factor).is_integer():
        return factor > 0 and value % int(factor) == 0
    if isinstance(value, int):
        factor = int(factor)
        return factor > 0 and value % factor == 0
    if factor <= 0:
        return False
    return is_integral(1 / factor * value if factor < 1 else value / factor)


def is_integral(value: float) -> bool:
    """Report whether a float is an integer within the precision of float64, as swag.IsFloat64AJSONInteger does."""
    if value != value or abs(value) > 2**53 - 1:
        return False
    whole = round(value)
    return value == whole or (whole != 0 and abs(value - whole) < 1e-9 * max(abs(value), abs(whole)))


def is_enumerated(value: Any, values: list[Any]) -> bool:
    """Report whether a value is in an enumeration. Null never is, even if it is listed."""
    if value is None:
        return False
    for allowed in values:
        if type(allowed) is type(value):
            if allowed == value:
                return True
        elif isinstance(allowed, int | float) and isinstance(value, int | float):
            if not isinstance(allowed, bool) and not isinstance(value, bool) and type(allowed)(value) == allowed:
                return True
    return False
