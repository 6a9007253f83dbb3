"""Type checks of scalar values. A check returns the value in the form in which upstream's encoder writes it.

Source: encoding/json, encoding/base64; apimachinery pkg/api/resource/quantity.go, pkg/apis/meta/v1/time.go (v1.36).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.quantities import canonical_quantity
from kcm.runtime.schema.api_types import Kind

# Returns the checked value as upstream's encoder writes it. Raises UnmarshalTypeError.
Check = Callable[[Any], Any]

_TIME = re.compile(  # checks hours too: since Python 3.13 datetime accepts 24:00
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
)
SECONDS = len("2006-01-02T15:04:05")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class UnmarshalTypeError(ValueError):
    """Value of a wrong type. The text is that of Go's JSON decoder.

    While the error is raised through the enclosing structs, each of them adds the name of its field with `inside`.
    """

    def __init__(self, found: str, expected: str, *, why: str = "") -> None:
        """Create an error.

        found: type of the value in JSON, see `json_type`.
        expected: type in Go.
        why: the whole text, for an error other than a wrong type.
        """
        super().__init__()
        self._found, self._expected, self._struct, self._why = found, expected, "", why
        self._fields: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self._struct = self._struct or struct
        self._fields.insert(0, field)

    def __str__(self) -> str:
        if self._why:
            return self._why
        where = f"Go struct field {self._struct}.{'.'.join(self._fields)}" if self._fields else "Go value"
        return f"json: cannot unmarshal {self._found} into {where} of type {self._expected}"


class Scalar(NamedTuple):
    """Scalar type of a field of the API.

    go_type: name of the Go type, for error messages.
    zero: zero value of the Go type. Go's decoder stores it for a JSON null in a list or map.
    """

    check: Check
    go_type: str
    zero: Any


def json_type(value: Any) -> str:
    """Return the name that Go's decoder gives to the type of a JSON value in its error messages."""
    match value:
        case bool():
            return "bool"
        case int():
            return "number"
        case float():
            return f"number {value}"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def _type_check(expected: str, *types: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) not in types:
            raise UnmarshalTypeError(json_type(value), expected)
        return value

    return check


def _integer(expected: str, *, bits: int) -> Check:
    largest = (1 << (bits - 1)) - 1

    def check(value: Any) -> Any:
        if type(value) is not int:
            raise UnmarshalTypeError(json_type(value), expected)
        if not -largest - 1 <= value <= largest:
            raise UnmarshalTypeError(f"number {value}", expected)
        return value

    return check


def anything(value: Any) -> Any:
    return value


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise UnmarshalTypeError(json_type(value), "string")
    if not _is_time(value):
        raise UnmarshalTypeError(f"string {value[:40]}", "v1.Time")
    return value


@bounded_cache(4096, longest=64)
def _is_time(text: str) -> bool:
    """Report whether Go's time.Parse accepts the text as RFC 3339.

    The date and time must exist, the year 0 is valid, and the offset is at most 24:60.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    moment = text[:SECONDS] if text[:4] != "0000" else f"2000{text[4:SECONDS]}"
    try:
        datetime.fromisoformat(moment)  # Implemented in C, and fast: heartbeats contain thousands of new times.
    except ValueError:
        return False
    return int(found[1] or 0) <= 24 and int(found[2] or 0) <= 60


def _quantity(value: Any) -> str:
    if type(value) not in (str, int, float):
        raise _invalid_quantity()
    return _canonical(value)


@lru_cache(maxsize=4096)
def _canonical(quantity: str | float) -> str:
    try:
        return canonical_quantity(quantity)
    except ValueError as err:
        raise _invalid_quantity() from err


def _invalid_quantity() -> UnmarshalTypeError:
    pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
    return UnmarshalTypeError("", "", why=f"quantities must match the regular expression '{pattern}'")


def _bytes(value: Any) -> str:
    if type(value) is not str:
        raise UnmarshalTypeError(json_type(value), "[]uint8")
    if _BASE64.fullmatch(value):
        return value
    at = illegal_base64_at(value)
    if at is not None:
        raise UnmarshalTypeError("", "", why=f"illegal base64 data at input byte {at}")
    return base64.b64encode(base64.b64decode(value)).decode()


def illegal_base64_at(text: str) -> int | None:
    """Return the offset that Go's decoder (encoding/base64, StdEncoding) reports as invalid; None for valid base64."""
    data = text.encode()
    at = digits = 0
    while at < len(data):
        byte = data[at : at + 1]
        if byte in (b"\r", b"\n"):
            at += 1
        elif byte in _DIGITS:
            at, digits = at + 1, (digits + 1) % 4
        elif byte != b"=" or digits < 2:
            return at
        else:
            return _illegal_padding_at(data, at + 1, missing=3 - digits)
    return len(data) - digits if digits else None


def _illegal_padding_at(data: bytes, at: int, *, missing: int) -> int | None:
    """Return the offset of invalid padding after the first "=". missing: required number of further "=", 0 or 1."""
    at = _after_newlines(data, at)
    if missing:
        if at == len(data):
            return at
        if data[at : at + 1] != b"=":
            return at - 1
        at = _after_newlines(data, at + 1)
    return at if at < len(data) else None


def _after_newlines(data: bytes, at: int) -> int:
    while data[at : at + 1] in (b"\r", b"\n"):
        at += 1
    return at


SCALARS: Mapping[Kind, Scalar] = {
    "string": Scalar(_type_check("string", str), "string", ""),
    "bytes": Scalar(_bytes, "[]uint8", ""),
    "boolean": Scalar(_type_check("bool", bool), "bool", False),
    "int32": Scalar(_integer("int32", bits=32), "int32", 0),
    "int64": Scalar(_integer("int64", bits=64), "int64", 0),
    "double": Scalar(_type_check("float64", int, float), "float64", 0),
    "quantity": Scalar(_quantity, "resource.Quantity", "0"),
    "int_or_string": Scalar(_type_check("intstr.IntOrString", int, str), "intstr.IntOrString", 0),
    "time": Scalar(_time, "v1.Time", None),
    "micro_time": Scalar(_time, "v1.MicroTime", None),
    "raw": Scalar(_type_check("runtime.RawExtension", dict), "runtime.RawExtension", None),
    "any": Scalar(anything, "interface {}", None),
}
