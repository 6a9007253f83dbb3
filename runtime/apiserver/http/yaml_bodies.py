"""YAML as JSON, within bounds: what a body costs is known before it is paid.

The document is built from the parser's events. So the interpreter's lock is given away between any two of them, an
alias shares what its anchor names, and a document is refused as soon as it is too large, before it is expanded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
import yaml

from runtime.apiserver.errors.field_errors import quoted

MOST_EVENTS = 250_000  # scalars, and beginnings and ends of maps and lists
LARGEST = 3 * 1024 * 1024  # bytes of JSON, aliases expanded, about: as the limit of JSON bodies

_TIMESTAMP, _MERGE = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"
# The C loader takes a tenth of the time; PyYAML may have been built without it.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Resolver(yaml.resolver.Resolver):
    """The types of plain scalars, except that times stay text, as in Kubernetes."""


_Resolver.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.resolver.Resolver.yaml_implicit_resolvers.items()
}


class _MergeKey:
    """The key `<<`."""


_MERGED_HERE = _MergeKey()
_NO_KEY = object()


class _Open:
    """A map or list whose end has not come. weight: bytes of its JSON, about. line: where it begins, from 0."""

    __slots__ = ("anchor", "key", "line", "merged", "repeated", "value", "weight")

    def __init__(self, value: dict[Any, Any] | list[Any], anchor: str | None, line: int, repeated: list[str]) -> None:
        """repeated: gets what is said of each key that is set again."""
        self.value, self.anchor, self.weight, self.line, self.repeated = value, anchor, 2, line, repeated
        self.key: Any = _NO_KEY
        self.merged: dict[Any, Any] = {}

    def add(self, value: Any, weight: int, line: int) -> None:
        """Raises ValueError on a map or list as a key, and on a merge of what is no map."""
        self.weight += weight
        if isinstance(self.value, list):
            self.value.append(value)
        elif self.key is _NO_KEY:
            if isinstance(value, dict | list):
                raise ValueError("a map or list cannot be a key")
            self.key = value
        else:
            if self.key is _MERGED_HERE:
                for one in value if isinstance(value, list) else [value]:
                    if not isinstance(one, dict):
                        raise ValueError("map merge requires map or sequence of maps as the value")
                    self.merged = {**one, **self.merged}
            else:
                if self.key in self.value:
                    key = quoted(self.key) if isinstance(self.key, str) else self.key
                    self.repeated.append(f"line {line + 1}: key {key} already set in map")
                self.value[self.key] = value
            self.key = _NO_KEY

    def end(self) -> dict[Any, Any] | list[Any]:
        if self.merged and isinstance(self.value, dict):
            return {**self.merged, **self.value}
        return self.value


class JsonBody(NamedTuple):
    """A body as JSON. repeated: which keys of its YAML are set more than once, and in which lines."""

    json: bytes
    repeated: tuple[str, ...] = ()


def yaml_to_json(body: bytes) -> JsonBody:
    """Raises ValueError on what is no single document, has no form in JSON, or is too large."""
    document = _Document()
    try:
        found = orjson.dumps(document.read(body), option=orjson.OPT_NON_STR_KEYS)
    except (yaml.YAMLError, TypeError) as err:
        raise ValueError(str(err)) from err
    return JsonBody(found, tuple(document.repeated))


class _Document:
    def __init__(self) -> None:
        self._resolver, self._constructor = _Resolver(), yaml.constructor.SafeConstructor()
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents: list[Any] = []
        self.repeated: list[str] = []

    def read(self, body: bytes) -> Any:
        for number, event in enumerate(yaml.parse(body, Loader=_PARSER)):
            if number > MOST_EVENTS:
                raise ValueError(f"document has more than {MOST_EVENTS} elements")
            self._take(event)
        if len(self._documents) > 1:
            raise ValueError("expected a single document in the stream")
        return self._documents[0] if self._documents else None

    def _take(self, event: yaml.Event) -> None:
        line = 0 if event.start_mark is None else event.start_mark.line
        match event:
            case yaml.ScalarEvent():
                self._add(self._scalar(event), len(event.value) + 3, event.anchor, line)
            case yaml.MappingStartEvent():
                self._open.append(_Open({}, event.anchor, line, self.repeated))
            case yaml.SequenceStartEvent():
                self._open.append(_Open([], event.anchor, line, self.repeated))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                ended = self._open.pop()
                self._add(ended.end(), ended.weight, ended.anchor, ended.line)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise ValueError(f"unknown anchor '{event.anchor}' referenced")
                self._add(*self._anchors[event.anchor], None, line)

    def _add(self, value: Any, weight: int, anchor: str | None, line: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, weight
        if not self._open:
            self._documents.append(value)
            return
        inner = self._open[-1]
        inner.add(value, weight, line)
        if inner.weight > LARGEST:
            raise ValueError("document contains excessive aliasing" if self._anchors else "document is too large")

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
        if tag == _MERGE and self._open and self._open[-1].key is _NO_KEY:
            return _MERGED_HERE
        if tag in ("tag:yaml.org,2002:str", _TIMESTAMP, _MERGE):
            return event.value
        return self._constructor.construct_object(yaml.ScalarNode(tag, event.value))
