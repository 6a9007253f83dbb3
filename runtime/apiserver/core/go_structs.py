"""Decoders of JSON values that behave as Go's decoding into a struct.

A value of a wrong type raises an error with Go's text. Unknown fields and nulls in an object are dropped. The responses
of webhooks are decoded in this way, as upstream's client-go does.

Source: encoding/json (UnmarshalTypeError), client-go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from kcm.runtime.apiserver.schema.scalars import json_type

# (value, name of the enclosing Go struct, path of the field) → decoded value. Raises ValueError. value: not null.
Decode = Callable[[Any, str, str], Any]

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _wrong_type(found: str, struct: str, path: str, type_: str) -> ValueError:
    return ValueError(f"json: cannot unmarshal {found} into Go struct field {struct}.{path} of type {type_}")


def text(type_: str = "string") -> Decode:
    def decode(value: Any, struct: str, path: str) -> Any:
        if not isinstance(value, str):
            raise _wrong_type(json_type(value), struct, path, type_)
        return value

    return decode


def boolean(value: Any, struct: str, path: str) -> Any:
    if not isinstance(value, bool):
        raise _wrong_type(json_type(value), struct, path, "bool")
    return value


def integer(bits: int) -> Decode:
    def decode(value: Any, struct: str, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong_type(json_type(value), struct, path, f"int{bits}")
        if not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise _wrong_type(f"number {value}", struct, path, f"int{bits}")
        return value

    return decode


def octets(value: Any, struct: str, path: str) -> Any:
    """Decode a []byte: base64 text, or a list of numbers from 0 to 255."""
    if isinstance(value, list):
        byte = integer(16)
        numbers = [byte(item, struct, path) for item in value if item is not None]
        if not all(0 <= number < 256 for number in numbers):
            raise _wrong_type("number", struct, path, "uint8")
        return bytes(numbers)
    if not isinstance(value, str):
        raise _wrong_type(json_type(value), struct, path, "[]uint8")
    given = value.replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(given, validate=True)
    except (ValueError, binascii.Error) as err:
        found = _NOT_BASE64.search(given.rstrip("="))
        at = len(given) if found is None else found.start()
        raise ValueError(f"illegal base64 data at input byte {at}") from err


def list_of(element: Decode, type_: str) -> Decode:
    def decode(value: Any, struct: str, path: str) -> Any:
        if not isinstance(value, list):
            raise _wrong_type(json_type(value), struct, path, f"[]{type_}")
        return [None if item is None else element(item, struct, path) for item in value]

    return decode


def texts_by_name(value: Any, struct: str, path: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong_type(json_type(value), struct, path, "map[string]string")
    element = text()
    return {name: "" if inner is None else element(inner, struct, path) for name, inner in value.items()}


def anything(value: Any, _struct: str, _path: str) -> Any:
    return value


def struct_of(package: str, name: str, fields: Mapping[str, Decode]) -> Decode:
    def decode(value: Any, outer: str, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong_type(json_type(value), outer, path, f"{package}.{name}")
        return {
            field: fields[field](inner, name, f"{path}.{field}" if path else field)
            for field, inner in value.items()
            if field in fields and inner is not None
        }

    return decode


_CAUSE = struct_of("v1", "StatusCause", {"reason": text("v1.CauseType"), "message": text(), "field": text()})
_DETAILS = struct_of(
    "v1",
    "StatusDetails",
    {
        **dict.fromkeys(("name", "group", "kind"), text()),
        "uid": text("types.UID"),
        "causes": list_of(_CAUSE, "v1.StatusCause"),
        "retryAfterSeconds": integer(32),
    },
)
_LIST_META = struct_of(
    "v1",
    "ListMeta",
    {**dict.fromkeys(("selfLink", "resourceVersion", "continue"), text()), "remainingItemCount": integer(64)},
)
STATUS = struct_of(
    "v1",
    "Status",
    {
        **dict.fromkeys(("kind", "apiVersion", "status", "message"), text()),
        "metadata": _LIST_META,
        "reason": text("v1.StatusReason"),
        "details": _DETAILS,
        "code": integer(32),
    },
)
