"""Field validation: detection of unknown and duplicate fields (fieldValidation=Strict and Warn).

Source: apiserver pkg/endpoints/handlers/{create,patch}.go, sigs.k8s.io/json for the messages (v1.36).
Differs from upstream: a patch itself is checked instead of the patched object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.schema.nesting import check_nesting
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError
from kcm.runtime.schema.api_types import OBJECT_META, ApiType, ApiTypes, Form

STRICT, WARN = "Strict", "Warn"
MOST_REPORTED = 100  # reported unknown and duplicate fields per body, as upstream (saveStrictError)


class FieldValidator:
    """Detector of unknown and duplicate fields in request bodies, by the types of the server's kinds."""

    def __init__(self, types: ApiTypes) -> None:
        self._types = types

    def check(
        self,
        body: bytes,
        *,
        group: str,
        version: str,
        kind: str,
        directive: str,
        patch: bool = False,
        repeated: Sequence[str] = (),
        settle: Callable[[dict[str, Any], list[str] | None], None] | None = None,
    ) -> list[str]:
        """Return a warning for each unknown or duplicate field of a body.

        Invalid JSON, and values of a wrong type, are ignored here and rejected later.

        directive: the value of fieldValidation: "Strict" or "Warn".
        patch: whether the body is a merge or strategic merge patch of the kind.
        repeated: messages about keys that are duplicated in YAML.
        settle: ResourceDefinition.settle of a custom kind, which finds fields that are not in its schema.

        Raises StatusError (400, or 422 for a patch) if the directive is "Strict" and a field is unknown or duplicate.
        """
        try:
            obj = orjson.loads(body)
            check_nesting(obj, body)
        except ValueError:
            return []  # rejected later
        type_ = self._types.of_kind(group, version, kind)
        if not isinstance(obj, dict) or (type_ is None and settle is None):
            return []
        found: list[str]
        if type_ is None:
            found = [_duplicate(path) for path in duplicate_fields(body)]
            found += self._unknown_to_schema(obj, settle)
        elif patch:
            found = [_duplicate(path) for path in duplicate_fields(body)]
            found += _first_distinct(self._unknown_and_duplicate(obj, type_, None, patch=True))
        else:
            found = _first_distinct(self._unknown_and_duplicate(_pairs(body), type_, None, patch=False))
        del found[MOST_REPORTED:]
        repeated = repeated[:MOST_REPORTED]
        if (found or repeated) and directive == STRICT:
            text = ", ".join([yaml_error(repeated), *found] if repeated else found)
            raise _error(f"strict decoding error: {text}", kind, version, body, patch)
        return [*repeated, *found]

    def _unknown_to_schema(
        self, obj: dict[str, Any], settle: Callable[[dict[str, Any], list[str] | None], None] | None
    ) -> list[str]:
        found: list[str] = []
        of_metadata, meta = self._types.find(OBJECT_META), obj.get("metadata")
        if of_metadata is not None and isinstance(meta, dict):
            found += _first_distinct(
                self._unknown_and_duplicate(meta, of_metadata, Path(None, "metadata"), patch=False)
            )
        unknown: list[str] = []
        try:
            if settle is not None:
                settle(obj, unknown)
        except UnmarshalTypeError:
            pass  # rejected later
        return [*found, *map(_unknown, sorted(unknown))]

    def _unknown_and_duplicate(
        self, value: Mapping[str, Any] | _Pairs, type_: ApiType, path: Path | None, *, patch: bool
    ) -> Iterator[str]:
        """Yield a message for each unknown or duplicate field of a struct, in order of appearance."""
        seen = set()
        for name, inner in _fields(value):
            here = Path(path, name)
            field = type_.fields.get(name)
            if field is None:
                if not (patch and name.startswith("$")):  # a directive: $patch, $setElementOrder/…
                    yield _unknown(here.text())
                continue
            if name in seen:
                yield _duplicate(here.text())
            seen.add(name)
            struct = self._types.find(field.struct) if field.struct else None
            if struct is None:
                yield from map(_duplicate, _duplicates(inner, here))
                continue
            for place, value in _structs_in(inner, field.form, here):
                yield from self._unknown_and_duplicate(value, struct, place, patch=patch)


class Path(NamedTuple):
    """Path of a field, as a linked list. Its text is built only for errors, because names can be long."""

    outer: Path | None
    name: str | int  # an int is the index of a list item

    def text(self) -> str:
        parts: list[str] = []
        here: Path | None = self
        while here is not None:
            parts.append(f"[{here.name}]" if isinstance(here.name, int) else f".{here.name}")
            here = here.outer
        return "".join(reversed(parts)).removeprefix(".")


def _first_distinct(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, up to the number that is reported (MOST_REPORTED)."""
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) == MOST_REPORTED:
            break
    return list(found)


def _structs_in(value: Any, form: Form, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield (path, struct) for each struct in the value of a field, and skip values of a wrong type."""
    match form:
        case "one" if _is_struct(value):
            yield path, value
        case "list" if isinstance(value, list) and not isinstance(value, _Pairs):
            yield from ((Path(path, i), item) for i, item in enumerate(value) if _is_struct(item))
        case "map" if _is_struct(value):
            yield from ((Path(path, key), item) for key, item in _fields(value) if _is_struct(item))


def _is_struct(value: Any) -> bool:
    return isinstance(value, dict | _Pairs)


def _fields(value: Mapping[str, Any] | _Pairs) -> Iterable[tuple[str, Any]]:
    return value if isinstance(value, _Pairs) else value.items()


def _unknown(path: str) -> str:
    return f'unknown field "{path}"'


def _duplicate(path: str) -> str:
    return f'duplicate field "{path}"'


def _pairs(body: bytes) -> _Pairs:
    """Parse a JSON object without dropping duplicate keys. Raises ValueError for invalid JSON."""
    try:
        found = json.loads(body, object_pairs_hook=_Pairs)
    except RecursionError:
        return _Pairs()  # rejected later for its nesting
    return found if isinstance(found, _Pairs) else _Pairs()


def yaml_error(repeated: Sequence[str]) -> str:
    """Return one error text for messages about duplicate keys, in the format of Go's YAML parser."""
    lines = "\n  ".join(repeated)
    return f"yaml: unmarshal errors:\n  {lines}"


def duplicate_fields(body: bytes) -> list[str]:
    """Return the paths of fields that a JSON document sets more than once, at most MOST_REPORTED.

    Raises ValueError for invalid JSON.
    """
    with suppress(ValueError, TypeError):  # errors of our encoder for deep nesting included
        # The JSON of most clients is as our encoder writes it, unless it contains duplicates.
        if orjson.dumps(orjson.loads(body)) == body:
            return []
    try:
        document = json.loads(body, object_pairs_hook=_Pairs)
        return _first_distinct(_duplicates(document, None))
    except RecursionError:
        return []  # rejected later for its nesting


class _Pairs(list[tuple[str, Any]]):
    """JSON object as a list of (key, value), which preserves duplicate keys."""


def _duplicates(value: Any, path: Path | None) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            here = Path(path, name)
            if name in seen:
                yield here.text()
            seen.add(name)
            if isinstance(inner, list):
                yield from _duplicates(inner, here)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            if isinstance(inner, list):
                yield from _duplicates(inner, Path(path, i))


def _error(problem: str, kind: str, version: str, body: bytes, patch: bool) -> status_errors.StatusError:
    if not patch:
        return status_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
    return status_errors.invalid("", "", "", [invalid("patch", body.decode(errors="replace"), problem)])
