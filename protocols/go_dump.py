"""Pod templates as Go dumps them, byte by byte: what upstream's hash of a template is taken from.

A dump has every field of every struct, set or not, with its type: so it depends on the release that go_structs.py is
of, as upstream's hash does on that of kube-controller-manager.

Source: k8s.io/utils/dump (ForHash), github.com/davecgh/go-spew/spew/format.go; apimachinery
pkg/api/resource/quantity.go (ParseQuantity), for what a quantity keeps of the text that it was read from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from protocols.go_structs import STRUCTS

POD_TEMPLATE = "v1.PodTemplateSpec"
_RESOURCES = "v1.ResourceList"
_MAP = re.compile(r"map\[([^]]*)\](.*)")
_NIL = "<nil>"
_ZERO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"

_QUANTITY = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DIGITS = 18  # of a decimal number that Go keeps as an int64
_INT64 = range(-(2**63), 2**63)


class StructField(NamedTuple):
    """key: its name in JSON; "" for one whose fields stand among those of the struct."""

    name: str
    key: str
    type: str


def dump(value: Any, type: str = POD_TEMPLATE) -> str:
    """The decoded JSON of a value of this type. What is not of its type counts as missing."""
    return f"({type}){_plain(value, type)}"


def _typed(value: Any, type: str) -> str:
    """A field: with its type before it."""
    if type.startswith("*"):
        return f"({type}){_NIL if value is None else _plain(value, type[1:])}"
    return dump(value, type)


def _plain(value: Any, type: str) -> str:
    if type.startswith("[]"):
        items = value if isinstance(value, list) else []
        return f"[{' '.join(_plain(item, type[2:]) for item in items)}]" if items else _NIL
    if type == _RESOURCES:
        return _map(value, "resource.Quantity")
    if mapped := _MAP.fullmatch(type):
        return _map(value, mapped[2])
    match type:
        case "bool":
            return "true" if value else "false"
        case "int32" | "int64":
            return str(value) if isinstance(value, int) else "0"
        case "resource.Quantity":
            return _quantity(value)
        case "intstr.IntOrString":
            return _int_or_string(value)
        case "v1.Time":
            return _ZERO_TIME  # a template was never created
    fields = structs().get(type)
    if fields is None:
        return value if isinstance(value, str) else ""
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    parts = (f"{one.name}:{_typed(given.get(one.key) if one.key else given, one.type)}" for one in fields)
    return f"{{{' '.join(parts)}}}"


def _map(value: Any, of: str) -> str:
    if not isinstance(value, dict) or not value:
        return _NIL
    ordered = sorted(value.items(), key=lambda item: item[0].encode())
    return f"map[{' '.join(f'{key}:{_plain(item, of)}' for key, item in ordered)}]"


def _int_or_string(value: Any) -> str:
    number, text = (0, value) if isinstance(value, str) else (value if isinstance(value, int) else 0, "")
    kind = int(isinstance(value, str))
    return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"


def _quantity(value: Any) -> str:
    """Of the canonical form in which the API server writes it."""
    text = "" if value is None else str(value)
    number, scale, form, kept = _parsed(text)
    amount = f"i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
    nothing = "d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>}"
    return f"{{{amount} {nothing} s:(string){kept} Format:(resource.Format){form}}}"


def _parsed(text: str) -> tuple[int, int, str, str]:
    """The number, its power of ten, the format, and the text where Go keeps it.

    A number that needs more than an int64 is dumped as if it did not: no pod asks for so much.
    """
    if not text:
        return 0, 0, "", ""
    if text == "0":
        return 0, 0, "DecimalSI", "0"
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return 0, 0, "DecimalSI", ""
    sign, whole, fraction, suffix = found[1], found[2] or "0", found[3] or "", found[4]
    digits = whole + fraction
    value, scale = int(digits), -len(fraction)
    if suffix in _BINARY:
        number, form = value << _BINARY[suffix], "BinarySI"
        keeps = value & 7 != 0
    else:
        exponential = suffix[:1] in ("e", "E") and suffix != "E"
        scale += int(suffix[1:]) if exponential else _DECIMAL[suffix]
        number, form = value, "DecimalExponent" if exponential else "DecimalSI"
        keeps = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0" and len(digits) <= _DIGITS
    return (-number if sign == "-" else number), scale, form, text if keeps and number in _INT64 else ""


@cache
def structs() -> Mapping[str, tuple[StructField, ...]]:
    """Go's structs, each with its fields in Go's order."""
    lines = STRUCTS.strip().replace("\n  ", " ").splitlines()
    return {type: tuple(map(_field, words)) for type, *words in (line.split() for line in lines)}


def _field(word: str) -> StructField:
    named, _, type = word.partition(":")
    name, differs, key = named.partition("=")
    return StructField(name, key if differs else name[:1].lower() + name[1:], type)
