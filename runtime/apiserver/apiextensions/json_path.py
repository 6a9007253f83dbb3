"""JSONPath of client-go, limited to the forms in printer columns and selectable fields (without templates).

    .spec.replicas   .status.conditions[?(@.type=="Ready")].status   .spec.ports[*].port   .metadata.labels['a\\.b']

Source: client-go util/jsonpath/{parser,jsonpath}.go (v1.36).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Generator, Iterator
from typing import Any

import orjson

from kcm.runtime.apiserver.apiextensions.go_text import go_number, sorted_keys

# A step of a path: values → values below them. Raises JsonPathError.
_Step = Callable[[list[Any]], list[Any]]

_FIELD = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*")
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_NUMBER = re.compile(r"[-+]?[0-9.]+")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """The path is invalid, or it requires a list where the value has another type."""


class JsonPath:
    def __init__(self, text: str) -> None:
        """Parse a path. Raises JsonPathError."""
        self._steps = list(_parsed(text))

    def find(self, value: Any) -> list[Any]:
        """Return the values at the path.

        Raises JsonPathError if the path requires a list where the value has another type.
        """
        found = [value]
        for step in self._steps:
            found = step(found)
        return found


def as_text(value: Any) -> str:
    """Format a value as client-go prints it."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return go_number(value)
        case dict() | list():
            return orjson.dumps(sorted_keys(value)).decode()
    return str(value)


def _parsed(text: str) -> Iterator[_Step]:
    at = 0
    while at < len(text):
        rest = text[at:]
        if rest.startswith("[?("):
            end = _end_of_filter(rest)
            yield _filter(rest[3:end])
            at += end + 2
        elif rest.startswith(".."):
            yield _descend
            at += 2
            if at < len(text) and (text[at].isalnum() or text[at] == "_"):
                at += yield from _field(text[at:])
        elif rest[0] == ".":
            at += 1 + (yield from _field(rest[1:]))
        elif rest[0] == "[":
            end = rest.find("]")
            if end < 0:
                raise JsonPathError("unterminated array")
            yield _brackets(rest[1:end])
            at += end + 1
        elif rest[0] in " @$":
            at += 1
        elif rest[0] in "\"'":
            end = rest.find(rest[0], 1)
            if end < 0:
                raise JsonPathError("unterminated quoted string")
            yield _constant(rest[1:end])
            at += end + 1
        elif found := _NUMBER.match(rest):
            yield _constant(_number(found[0]))
            at += found.end()
        elif rest.startswith(("true", "false")):
            yield _constant(rest.startswith("true"))
            at += 4 if rest.startswith("true") else 5
        else:
            raise JsonPathError(f"unrecognized character in action: {rest[0]}")


def _number(text: str) -> float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError as err:
        raise JsonPathError(f"cannot parse number {text}") from err


def _field(text: str) -> Generator[_Step, None, int]:
    """Yield the step for a field name at the start of the text; return the number of characters consumed."""
    found = _FIELD.match(text)
    name = found[0] if found is not None else ""
    yield _every if name == "*" else _named(name.replace("\\", ""))
    return len(name)


def _end_of_filter(text: str) -> int:
    """Return the position of the parenthesis that closes a filter; parentheses in quotes are ignored."""
    quote = ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[i - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        elif character == ")":
            if text[i + 1 : i + 2] != "]":
                raise JsonPathError("unclosed array expect ]")
            return i
    raise JsonPathError("unterminated filter")


def _constant(value: Any) -> _Step:
    return lambda values: [value for _ in values]


def _named(name: str) -> _Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _every(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _inside(value)
    return found


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _descend(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        inner = _inside(value)
        if inner:
            found += [value, *_descend(inner)]
    return found


def _brackets(text: str) -> _Step:
    parts = text.split(",")
    if len(parts) > 1:
        steps = [_brackets(part.strip(" ")) for part in parts]
        return lambda values: [value for step in steps for value in step(values)]
    key = _KEY.fullmatch(text)
    if key is not None:
        return _named(key[1].replace("\\", ""))
    found = _SLICE.fullmatch(":" if text == "*" else text)
    if found is None or not text:
        raise JsonPathError(f"invalid array index {text}")
    bounds = [None if part in (None, "", ":") else int(part.lstrip(":")) for part in found.groups()]
    return _slice(bounds[0], bounds[1], bounds[2], single=found[2] is None)


def _slice(first: int | None, last: int | None, by: int | None, *, single: bool) -> _Step:
    def step(values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError("it is not array or slice")
            size = len(value)
            begin = first or 0
            begin += size if begin < 0 else 0
            end = begin + 1 if single else size if last is None else last
            end += size if end < 0 else 0
            if begin == end:
                continue
            if not 0 <= begin < size or not 0 <= end <= size or begin > end or (by is not None and by <= 0):
                raise JsonPathError("array index out of bounds")
            found += value[begin : end : by or 1]
        return found

    return step


def _filter(text: str) -> _Step:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        path = JsonPath(text)
        return lambda values: [element for element in _items(values) if _exists(path, element)]
    left, right, compare = JsonPath(comparison[1]), JsonPath(comparison[3]), _OPERATORS.get(comparison[2])
    if compare is None:
        raise JsonPathError(f"unrecognized filter operator {comparison[2]}")

    def passes(item: Any) -> bool:
        first, other = left.find(item), right.find(item)
        if len(first) > 1 or len(other) > 1:
            raise JsonPathError("can only compare one element at a time")
        if not first or not other:
            return False
        if type(first[0]) is not type(other[0]) or isinstance(first[0], dict | list):
            raise JsonPathError("incompatible types for comparison")
        return bool(compare(first[0], other[0]))

    return lambda values: [element for element in _items(values) if passes(element)]


def _items(values: list[Any]) -> list[Any]:
    if not all(isinstance(value, list) for value in values):
        raise JsonPathError("it is not array or slice and cannot be filtered")
    return [item for value in values for item in value]


def _exists(path: JsonPath, item: Any) -> bool:
    try:
        return bool(path.find(item))
    except JsonPathError:
        return False
