"""YAML parser that behaves like Kubernetes' library (sigs.k8s.io/yaml over goyaml.v2), with limits.

The document is built from the parser's events. So the GIL is released between any two events, an alias shares the value
of its anchor, and a document that is too large or too deep is refused before it is expanded.

Plain scalars are resolved as in goyaml.v2: YAML 1.1 with its booleans and octal numbers, but without sexagesimal
numbers and times. A whole number with a decimal point or an exponent becomes an integer, as by Go's conversion to JSON.

Source: go.yaml.in/yaml/v2 {resolve,decode,yaml}.go, sigs.k8s.io/yaml yaml.go (as vendored by Kubernetes 1.36).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

MOST_EVENTS = 250_000  # scalars, and beginnings and ends of maps and lists
LARGEST = 3 * 1024 * 1024  # approximate bytes as JSON with expanded aliases, as for JSON bodies
DEEPEST = 250  # levels of maps and lists; our JSON encoder takes 254, upstream's parser 10,000
MOST_REPEATED = 100  # duplicate keys that are reported

_TAG = "tag:yaml.org,2002:"
_MERGE, _STR, _FLOAT, _BINARY, _TIMESTAMP = (
    f"{_TAG}{name}" for name in ("merge", "str", "float", "binary", "timestamp")
)
_RESOLVED = frozenset(f"{_TAG}{name}" for name in ("str", "bool", "int", "float", "null", "timestamp"))
# The C parser takes a tenth of the time; PyYAML may have been built without it.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), ("bool", True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), ("bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
}
_NUMERIC = frozenset("+-.0123456789")  # first characters of numbers
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FIRST = re.compile(r"\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"([Tt][0-9:]{5,8}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})| [0-9:]{5,8}(\.[0-9]+)?)?"
)
_LONGEST_NUMBER = 4_000  # digits; int() rejects longer texts, and no 64-bit integer has as many
_SMALLEST, _LARGEST, _LARGEST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
# Allowed share of decoded nodes that come from aliases: see goyaml's allowedAliasRatio.
_FEW, _MANY = 400_000, 4_000_000

_NO_KEY: Any = object()


class YamlError(ValueError):
    """Invalid document, with goyaml's text. line, column: from 1; 0 if the error has no position."""

    def __init__(self, text: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.line, self.column = line, column


class _MergeKey:
    """Marker for the key `<<`, which merges another map into this one."""


_MERGED_HERE = _MergeKey()


class YamlDocument(NamedTuple):
    """Document. line: its first line, from 1. repeated: duplicate keys, with their lines."""

    value: Any
    line: int
    repeated: tuple[str, ...] = ()


def read_first(body: bytes | str, *, largest: int = LARGEST) -> YamlDocument:
    """Return the first document, like goyaml's Unmarshal; the rest of the stream is ignored.

    largest: approximate limit of its size as JSON, in bytes.

    Raises YamlError.
    """
    return next(read_all(body, largest=largest), YamlDocument(None, 1))


def read_all(body: bytes | str, *, largest: int = LARGEST, most_events: int = MOST_EVENTS) -> Iterator[YamlDocument]:
    """Yield the documents of a stream. Raises YamlError, with PyYAML's error as its cause where there is one."""
    document: _Document | None = None
    events = yaml.parse(body, Loader=_PARSER)
    number = 0
    while True:
        try:
            event = next(events, None)
        except yaml.YAMLError as err:
            raise _as_go_says(err) from err
        if event is None:
            return
        number += 1
        if number > most_events:
            raise YamlError(f"yaml: document has more than {most_events} elements")
        match event:
            case yaml.DocumentStartEvent():
                document = _Document(largest)
            case yaml.DocumentEndEvent():
                assert document is not None
                yield YamlDocument(document.value, document.line, tuple(document.repeated))
                document = None
            case _ if document is not None:
                document.take(event)


def resolved(tag: str | None, text: str) -> Any:
    """Return the value of a plain scalar without a tag, or of any scalar with a tag. Raises YamlError."""
    if tag is not None and tag not in _RESOLVED:
        return _binary(text) if tag == _BINARY else text
    kind: str
    value: Any
    kind, value = ("str", text) if tag == _STR else _resolved(text)
    if tag in (None, _STR, f"{_TAG}{kind}") or (tag == _TIMESTAMP and _TIME.fullmatch(text)):
        return value  # times are not converted
    if tag == _FLOAT and kind == "int" and value <= _LARGEST:
        return float(value)
    assert tag is not None
    raise YamlError(f"yaml: cannot decode !!{kind} `{text}` as a !!{tag.removeprefix(_TAG)}")


def _resolved(text: str) -> tuple[str, Any]:
    """Return type and value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return "str", text
    number: int | float | None
    if text[0] == ".":
        number = _float(text) if _POINT_FIRST.fullmatch(text) else None
    else:
        plain = text.replace("_", "")
        number = _integer(plain)
        if number is None and _DECIMAL.fullmatch(plain):
            number = _float(plain)
    if number is None:
        return "str", text
    return "int" if isinstance(number, int) else "float", number


def _integer(text: str) -> int | None:
    """Parse an integer as strconv.ParseInt and ParseUint in base 0, and goyaml's form with a sign after the prefix."""
    if text.startswith(("0b", "-0b")) and text[text.index("b") + 1 : text.index("b") + 2] in ("+", "-"):
        outer, _, inner = text.partition("0b")
        if outer or not re.fullmatch("[01]{1,64}", inner[1:]):
            return None
        number = int(inner, 2)
        return number if _SMALLEST <= number <= _LARGEST else None
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, hexadecimal, binary, octal, decimal = found.groups()
    digits, base = next(
        (digits, base) for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if digits
    )
    digits = digits.lstrip("0") or "0"
    if len(digits) > 64:
        return None
    number = int(digits, base)
    if sign == "-":
        number = -number
    return number if _SMALLEST <= number <= (_LARGEST if sign else _LARGEST_UNSIGNED) else None


def _float(text: str) -> float | None:
    """Parse a float. Return None for a number that is out of range."""
    if len(text) > _LONGEST_NUMBER:
        mantissa, _, exponent = text.lower().partition("e")
        if len(exponent) > 20 or "." in mantissa:
            return None
        number = float(mantissa[:_LONGEST_NUMBER]) if mantissa.strip("+-0") == "" else math.inf
    else:
        number = float(text)
    return None if math.isinf(number) else number


def _binary(text: str) -> str:
    try:
        # Go's decoder skips line breaks. Invalid UTF-8 is replaced in the conversion to JSON.
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode(errors="replace")
    except (ValueError, binascii.Error) as err:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from err


Lines = Any
"""In which lines the values of a map are, by type and text of their keys; of a list, this for each item."""


class _Open:
    """Incomplete map or list.

    weight: approximate size as JSON, in bytes.
    nodes, aliased: number of decoded nodes in it, and of those that came from aliases.
    line: its first line, from 0.
    """

    __slots__ = ("aliased", "anchor", "key", "line", "lines", "nodes", "repeated", "value", "weight")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int, repeated: list[str]) -> None:
        self.value, self.anchor, self.weight, self.line, self.repeated = value, anchor, 2, line, repeated
        self.key: Any = _NO_KEY
        self.nodes, self.aliased = 1, 0
        self.lines: Lines = {} if isinstance(value, dict) else []

    def add(self, value: Any, weight: int, line: int, lines: Lines) -> None:
        """Add a key or a value.

        Raises YamlError for a map or list as a key, and for a merge of a value other than maps.
        """
        self.weight += weight
        if isinstance(self.value, list):
            self.value.append(_as_json(value))
            self.lines.append(lines)
        elif self.key is _NO_KEY:
            if isinstance(value, dict | list):
                raise YamlError(f"yaml: invalid map key: {_shown(value)}")
            self.key = value
        else:
            if self.key is _MERGED_HERE:
                self._merge(value, line, lines)
            else:
                self._set(self.key, value, line)
            self.key = _NO_KEY

    def _merge(self, value: Any, line: int, lines: Lines) -> None:
        assert isinstance(self.value, dict)
        maps = list(zip(value, lines, strict=True)) if isinstance(value, list) else [(value, lines)]
        for each, lines_of in reversed(maps):  # the first has precedence
            if not isinstance(each, dict):
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            for name, inner in each.items():
                self._note((str, name), name, lines_of.get((str, name), line))
                self.value[name] = inner

    def _set(self, key: Any, value: Any, line: int) -> None:
        assert isinstance(self.value, dict)
        self._note((type(key), key), key, line)
        self.value[_key_text(key, value)] = _as_json(value)

    def _note(self, place: tuple[type, Any], key: Any, line: int) -> None:
        if place in self.lines:
            if len(self.repeated) < MOST_REPEATED:
                self.repeated.append(f"line {line + 1}: key {_shown(key)} already set in map")
        else:
            self.lines[place] = line


class _Document:
    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int, int, Lines]] = {}
        self._nodes = self._aliased = 0  # decoded nodes, and those of them that came from aliases
        self.value: Any = None
        self.line = 1
        self.repeated: list[str] = []

    def take(self, event: yaml.Event) -> None:
        line = 0 if event.start_mark is None else event.start_mark.line
        if not self._nodes:
            self.line = line + 1
        match event:
            case yaml.ScalarEvent():
                self._nodes += 1
                self._add(self._scalar(event), len(event.value) + 3, 1, event.anchor, line, {})
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._nodes += 1
                if len(self._open) >= DEEPEST:
                    raise YamlError(f"yaml: exceeded max depth of {DEEPEST}")
                value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
                self._open.append(_Open(value, event.anchor, line, self.repeated))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                ended = self._open.pop()
                self._add(ended.value, ended.weight, ended.nodes, ended.anchor, ended.line, ended.lines)
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)

    def _alias(self, anchor: str, line: int) -> None:
        if any(each.anchor == anchor for each in self._open):
            raise YamlError(f"yaml: anchor '{anchor}' value contains itself")
        if anchor not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{anchor}' referenced")
        value, weight, nodes, lines = self._anchors[anchor]
        self._nodes += 1 + nodes
        self._aliased += nodes
        if self._aliased > 100 and self._nodes > 1000 and self._aliased / self._nodes > _allowed_ratio(self._nodes):
            raise YamlError("yaml: document contains excessive aliasing")
        self._add(value, weight, 1 + nodes, None, line, lines)

    def _add(self, value: Any, weight: int, nodes: int, anchor: str | None, line: int, lines: Lines) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, weight, nodes, lines
        if not self._open:
            self.value = _as_json(value)
            return
        inner = self._open[-1]
        inner.nodes += nodes
        inner.add(value, weight, line, lines)
        if inner.weight > self._largest:
            raise YamlError(f"yaml: document {'contains excessive aliasing' if self._anchors else 'is too large'}")

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        plain = event.implicit[0]
        is_key = bool(self._open) and self._open[-1].key is _NO_KEY and isinstance(self._open[-1].value, dict)
        if is_key and event.value == "<<" and (plain or event.tag == _MERGE):
            return _MERGED_HERE
        if event.tag == "!" or (event.tag is None and not plain):
            return event.value
        return resolved(event.tag, event.value)


def _allowed_ratio(nodes: int) -> float:
    if nodes <= _FEW:
        return 0.99
    return 0.10 if nodes >= _MANY else 0.99 - 0.89 * (nodes - _FEW) / (_MANY - _FEW)


def _as_json(value: Any) -> Any:
    """Return a scalar as Go decodes it from the JSON that it encoded. Raises YamlError."""
    if type(value) is int and value > _LARGEST:
        return float(value)
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        raise YamlError(f"json: unsupported value: {'NaN' if math.isnan(value) else '+Inf' if value > 0 else '-Inf'}")
    return int(value) if value.is_integer() and _SMALLEST <= value <= _LARGEST else value


def _key_text(key: Any, value: Any) -> str:
    """Return a key as text, as in JSON. Raises YamlError."""
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case float():
            return _float_text(key)
        case int() if key <= _LARGEST:
            return str(key)
    found = "%!s(<nil>)" if key is None else "uint64"
    raise YamlError(f"unsupported map key of type: {found}, key: {_shown(key)}, value: {_shown(value)}")


def _float_text(number: float) -> str:
    """Format a number as strconv.FormatFloat with 32 bits: the shortest text that parses to the same number."""
    if math.isnan(number):
        return ".nan"
    try:
        (short,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        short = math.copysign(math.inf, number)
    if math.isinf(short):
        return ".inf" if short > 0 else "-.inf"
    for digits in range(1, 10):
        text = f"{short:.{digits - 1}e}"
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == short:
            break
    mantissa, _, exponent = text.partition("e")
    power = int(exponent)
    if power < -4 or power >= 6:  # as %g of the shortest text
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"
    return f"{float(text):.{max(digits - 1 - power, 0)}f}"


def _shown(value: Any) -> str:
    """Format a scalar approximately as Go's %#v."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[interface {}]interface {}{…}" if value else "map[interface {}]interface {}{}"
    if isinstance(value, list):
        return "[]interface {}{…}" if value else "[]interface {}{}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _as_go_says(err: yaml.YAMLError) -> YamlError:
    """Return goyaml's error for an error of PyYAML."""
    mark = getattr(err, "problem_mark", None)
    context_mark = getattr(err, "context_mark", None)
    problem = getattr(err, "problem", None) or getattr(err, "reason", None) or " ".join(str(err).split())
    line = 0
    if mark is not None and mark.line:
        line = mark.line + isinstance(err, yaml.scanner.ScannerError)  # goyaml counts so
    elif context_mark is not None and context_mark.line:
        line = context_mark.line
    where = f"line {line}: " if line else ""
    at, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    return YamlError(f"yaml: {where}{problem}", line=at, column=column)
