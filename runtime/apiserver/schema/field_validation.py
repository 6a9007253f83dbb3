"""fieldValidation=Strict and =Warn: unknown and duplicate fields.

Source: apiserver pkg/endpoints/handlers/{create,patch}.go, sigs.k8s.io/json for the words (v1.36).
Differs from upstream: a patch itself is checked, and not the patched object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import invalid
from runtime.apiserver.schema.api_types import OBJECT_META, ApiTypes, Form, Type
from runtime.apiserver.schema.scalars import ShapeError

STRICT, WARN = "Strict", "Warn"
MOST_STRAYS = 100  # unknown and duplicate fields that are reported of one body, as upstream (saveStrictError)


class FieldValidator:
    """Compares bodies with the types of built-in kinds."""

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
        """Warnings for the client. patch: the body is a merge or strategic merge patch of the kind. repeated:
        what is said of keys that YAML had twice. settle: of a custom
        kind, ResourceDefinition.settle.

        Raises StatusError, 400 or for a patch 422, on an unknown or duplicate field if the directive is "Strict".
        Bodies that are no JSON object, and values of a wrong type, are refused later.
        """
        try:
            obj = orjson.loads(body)
        except ValueError:
            return []
        type_ = self._types.of_kind(group, version, kind)
        if not isinstance(obj, dict) or (type_ is None and settle is None):
            return []
        found = list[str]()
        if type_ is None:
            found += [_duplicate(path) for path in duplicate_fields(body)]
            found += self._unknown_to_schema(obj, settle)
        elif patch:
            found += [_duplicate(path) for path in duplicate_fields(body)]
            found += self._strays(obj, type_, "", patch=True)
        else:
            found += dict.fromkeys(self._strays(_pairs(body), type_, "", patch=False))
        if (found or repeated) and directive == STRICT:
            told = ", ".join([as_go_says(repeated), *found] if repeated else found)
            raise _refusal(f"strict decoding error: {told}", kind, version, body, patch)
        return [*repeated, *found]

    def _unknown_to_schema(
        self, obj: dict[str, Any], settle: Callable[[dict[str, Any], list[str] | None], None] | None
    ) -> list[str]:
        found: list[str] = []
        of_metadata, meta = self._types.find(OBJECT_META), obj.get("metadata")
        if of_metadata is not None and isinstance(meta, dict):
            found += self._strays(meta, of_metadata, "metadata", patch=False)
        unknown: list[str] = []
        try:
            if settle is not None:
                settle(obj, unknown)
        except ShapeError:
            pass  # refused later
        return [*found, *map(_unknown, sorted(unknown))]

    def _strays(self, value: Mapping[str, Any] | _Pairs, type_: Type, path: str, *, patch: bool) -> Iterator[str]:
        """Unknown fields, and those that are there twice, in the order in which they are written."""
        seen = set()
        for name, inner in _fields(value):
            here = f"{path}.{name}" if path else name
            field = type_.fields.get(name)
            if field is None:
                if not (patch and name.startswith("$")):  # a directive: $patch, $setElementOrder/…
                    yield _unknown(here)
                continue
            if name in seen:
                yield _duplicate(here)
            seen.add(name)
            struct = self._types.find(field.struct) if field.struct else None
            if struct is None:
                yield from (_duplicate(one) for one in _duplicates(inner, here))
                continue
            for place, one in _structs_in(inner, field.form, here):
                yield from self._strays(one, struct, place, patch=patch)


def _structs_in(value: Any, form: Form, path: str) -> Iterator[tuple[str, Any]]:
    """(path, struct) for all that a field has; what is of another form is left out."""
    match form:
        case "one" if _is_struct(value):
            yield path, value
        case "list" if isinstance(value, list) and not isinstance(value, _Pairs):
            yield from ((f"{path}[{i}]", one) for i, one in enumerate(value) if _is_struct(one))
        case "map" if _is_struct(value):
            yield from ((f"{path}.{key}", one) for key, one in _fields(value) if _is_struct(one))


def _is_struct(value: Any) -> bool:
    return isinstance(value, dict | _Pairs)


def _fields(value: Mapping[str, Any] | _Pairs) -> Iterable[tuple[str, Any]]:
    return value if isinstance(value, _Pairs) else value.items()


def _unknown(path: str) -> str:
    return f'unknown field "{path}"'


def _duplicate(path: str) -> str:
    return f'duplicate field "{path}"'


def _pairs(body: bytes) -> _Pairs:
    """The JSON object as it is written. Raises ValueError if it is none."""
    try:
        found = json.loads(body, object_pairs_hook=_Pairs)
    except RecursionError:
        return _Pairs()  # such nesting is refused later
    return found if isinstance(found, _Pairs) else _Pairs()


def as_go_says(repeated: Sequence[str]) -> str:
    """How Go's parser of YAML lists keys that are set more than once."""
    lines = "\n  ".join(repeated)
    return f"yaml: unmarshal errors:\n  {lines}"


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the fields that a JSON document sets more than once. Raises ValueError if it is none."""
    with suppress(ValueError, TypeError):  # also of one that is nested too deeply for our encoder
        if orjson.dumps(orjson.loads(body)) == body:  # then nothing was lost; most clients write it as we do
            return []
    try:
        document = json.loads(body, object_pairs_hook=_Pairs)
        return list(dict.fromkeys(_duplicates(document, "")))
    except RecursionError:
        return []  # such nesting is refused later


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it is written, repetitions included."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield here
            seen.add(name)
            yield from _duplicates(inner, here)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _duplicates(inner, f"{path}[{i}]")


def _refusal(problem: str, kind: str, version: str, body: bytes, patch: bool) -> status_errors.StatusError:
    if not patch:
        return status_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
    return status_errors.invalid("", "", "", [invalid("patch", body.decode(errors="replace"), problem)])
