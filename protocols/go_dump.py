"""Pod templates as Go dumps them, byte by byte: the input of upstream's template hash.

A dump contains every field of every struct, set or not, with its type. So it depends on the release that go_structs.py
was made from, as upstream's hash depends on the release of kube-controller-manager. metadata.creationTimestamp of a
template is dumped as unset: if a user sets it, upstream's hash depends on the time zone of the machine it runs on.

Source: k8s.io/utils/dump (ForHash), github.com/davecgh/go-spew/spew/format.go; apimachinery
pkg/api/resource/quantity.go (ParseQuantity), for what a quantity keeps of the text that it was read from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from kcm.protocols.fnv import FixedText
from kcm.protocols.go_structs import STRUCTS

POD_TEMPLATE = "v1.PodTemplateSpec"
_RESOURCES = "v1.ResourceList"
_NIL = "<nil>"
_ZERO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"

_QUANTITY = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Digits of a number that Go stores as an int64; with a binary suffix, three fewer for each of Ki, Mi, …
_DIGITS, _BINARY_DIGITS = 18, 14
_NANO = -9  # the smallest power of ten
_WORD = 2**64 - 1
_LONGEST = 1000  # digits, and powers of ten; longer numbers are not real quantities, and are slow to convert


class StructField(NamedTuple):
    """Field of a Go struct. key: its name in JSON; "" for an embedded struct, whose fields count as the outer one's."""

    name: str
    key: str
    type: str


def dump(value: Any, type: str = POD_TEMPLATE) -> str:
    """Return the dump of a decoded JSON value. A value that is not of its type counts as missing."""
    return "".join(part if isinstance(part, str) else part.text for part in dump_parts(value, type))


def dump_parts(value: Any, type: str = POD_TEMPLATE) -> list[str | FixedText]:
    """Return the dump in parts: what the type determines as FixedText, values of users as strings."""
    parts: list[str | FixedText] = [f"({type})"]
    _append(parts, value, type)
    return parts


def _append(parts: list[str | FixedText], value: Any, type: str) -> None:
    """Append the dump of a value without its type."""
    if type in structs():
        _append_struct(parts, value if isinstance(value, dict) else {}, type)
    elif type.startswith("[]"):
        _append_list(parts, value, type[2:])
    elif type == _RESOURCES:
        _append_map(parts, value, "resource.Quantity")
    elif type.startswith("map["):
        _append_map(parts, value, type[type.index("]") + 1 :])
    else:
        parts.append(_scalar(value, type))


def _append_list(parts: list[str | FixedText], value: Any, of: str) -> None:
    if not isinstance(value, list) or not value:
        parts.append(_NIL)
        return
    separator = "["
    for item in value:
        parts.append(separator)
        _append(parts, item, of)
        separator = " "
    parts.append("]")


def _append_map(parts: list[str | FixedText], value: Any, of: str) -> None:
    if not isinstance(value, dict) or not value:
        parts.append(_NIL)
        return
    separator = "map["
    for key, item in sorted(value.items(), key=lambda entry: entry[0].encode("utf-8", "surrogatepass")):
        parts.append(f"{separator}{key}:")
        _append(parts, item, of)
        separator = " "
    parts.append("]")


def _append_struct(parts: list[str | FixedText], value: Mapping[str, Any], type: str) -> None:
    inlined = _inlined_keys(type)
    set_keys = frozenset(key for key in _keys(type) if value.get(key) is not None)
    if inlined and any(value.get(key) is not None for key in inlined):
        set_keys |= {""}
    for text, field in _layout(type, set_keys):
        parts.append(text)
        if field is not None:
            _append(parts, value[field.key] if field.key else value, field.type.removeprefix("*"))


@lru_cache(maxsize=256)  # similar templates set the same fields
def _layout(type: str, set_keys: frozenset[str]) -> Sequence[tuple[FixedText, StructField | None]]:
    """Return pairs of a set field and the text before it, and a last pair of None and the text after it."""
    layout: list[tuple[FixedText, StructField | None]] = []
    text, separator = "{", ""
    for field in structs()[type]:
        text += f"{separator}{field.name}:({field.type})"
        separator = " "
        if field.key in set_keys:
            layout.append((FixedText(text), field))
            text = ""
        else:
            text += _missing(field.type)
    layout.append((FixedText(text + "}"), None))
    return layout


@cache
def _missing(type: str) -> str:
    """Return the dump of a field that is not set, without its type."""
    if type.startswith("*"):
        return _NIL
    parts: list[str | FixedText] = []
    _append(parts, None, type)
    return "".join(part if isinstance(part, str) else part.text for part in parts)


@cache
def _keys(type: str) -> Sequence[str]:
    return [field.key for field in structs()[type] if field.key]


@cache
def _inlined_keys(type: str) -> Sequence[str]:
    """Return the JSON keys of the structs that are embedded in this struct."""
    return [key for field in structs()[type] if not field.key for key in _keys(field.type)]


def _scalar(value: Any, type: str) -> str:
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
            return _ZERO_TIME  # see the module's docstring
    return value if isinstance(value, str) else ""


def _int_or_string(value: Any) -> str:
    number, text = (0, value) if isinstance(value, str) else (value if isinstance(value, int) else 0, "")
    kind = int(isinstance(value, str))
    return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"


def _quantity(value: Any) -> str:
    """Return the dump of a quantity in the canonical form that the API server writes."""
    amount = _amount("" if value is None else str(value))
    small = f"i:(resource.int64Amount){{value:(int64){amount.value} scale:(resource.Scale){amount.scale}}}"
    large = _NIL if amount.nanos is None else _decimal(amount.nanos)
    return (
        f"{{{small} d:(resource.infDecAmount){{Dec:(*inf.Dec){large}}} "
        f"s:(string){amount.text} Format:(resource.Format){amount.form}}}"
    )


class _Amount(NamedTuple):
    """Number of a quantity, as Go keeps it: value times ten to the power of scale, or a decimal for many digits."""

    value: int = 0
    scale: int = 0
    form: str = ""
    text: str = ""
    nanos: int | None = None  # of the decimal


def _amount(text: str) -> _Amount:
    if not text:
        return _Amount()
    found = _QUANTITY.fullmatch(text)
    if text == "0" or found is None:
        return _Amount(form="DecimalSI", text="0" if found else "")
    whole, fraction, suffix = found[2] or "0", found[3] or "", found[4]
    digits = whole + fraction
    number, scale, factor = int(digits[:_LONGEST]), -len(fraction), 1
    if suffix in _BINARY:
        power, form = _BINARY[suffix], "BinarySI"
        factor = 1 << power
        is_small = not fraction and len(whole) + power * 3 // 10 <= _BINARY_DIGITS
        keeps = number & 7 != 0
    else:
        exponential = suffix[:1] in ("e", "E") and suffix != "E"
        scale += int(suffix[1:]) if exponential else _DECIMAL[suffix]
        form = "DecimalExponent" if exponential else "DecimalSI"
        is_small = len(digits) <= _DIGITS and scale >= _NANO
        keeps = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    number *= -factor if found[1] == "-" else factor
    if is_small:
        return _Amount(number, scale, form, text if keeps else "")
    return _Amount(form=form, nanos=_nanos(number, scale))


def _nanos(number: int, scale: int) -> int:
    """Return number times ten to the power of scale in billionths, rounded away from zero."""
    shift = scale - _NANO
    power: int = 10 ** min(abs(shift), _LONGEST)
    if shift >= 0:
        return number * power
    rounded = -(-abs(number) // power)
    return rounded if number >= 0 else -rounded


def _decimal(nanos: int) -> str:
    words, rest = [], abs(nanos)
    while rest:
        words.append(str(rest & _WORD))
        rest >>= 64
    magnitude = f"[{' '.join(words)}]" if words else _NIL
    negative = "true" if nanos < 0 else "false"
    return f"{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat){magnitude}}} scale:(inf.Scale){-_NANO}}}"


@cache
def structs() -> Mapping[str, tuple[StructField, ...]]:
    """Return Go's structs, each with its fields in Go's order."""
    lines = STRUCTS.strip().replace("\n  ", " ").splitlines()
    return {type: tuple(map(_field, words)) for type, *words in (line.split() for line in lines)}


def _field(word: str) -> StructField:
    named, _, type = word.partition(":")
    name, differs, key = named.partition("=")
    return StructField(name, key if differs else name[:1].lower() + name[1:], type)
