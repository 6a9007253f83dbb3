"""fieldValidation=Strict and =Warn: unknown and duplicate fields.

Source: apiserver pkg/endpoints/handlers/{create,patch}.go, sigs.k8s.io/json for the words (v1.36).
Differs from upstream: a patch itself is checked, and not the patched object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import invalid
from runtime.apiserver.schema.api_types import OBJECT_META, ApiTypes, Form, Type
from runtime.apiserver.schema.scalars import ShapeError

STRICT, WARN = "Strict", "Warn"


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
        settle: Callable[[dict[str, Any], list[str] | None], None] | None = None,
    ) -> list[str]:
        """Warnings for the client. patch: the body is a merge or strategic merge patch of the kind. settle: of a custom
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
        if type_ is None:
            found = [f'duplicate field "{path}"' for path in duplicate_fields(body)]
            found += [f'unknown field "{path}"' for path in self._unknown_to_schema(obj, settle)]
            if found and directive == STRICT:
                raise _refusal(f"strict decoding error: {', '.join(found)}", kind, version, body, patch)
            return found
        found = [f'duplicate field "{path}"' for path in duplicate_fields(body)]
        found += [f'unknown field "{path}"' for path in self._unknown(obj, type_, "", patch)]
        if found and directive == STRICT:
            raise _refusal(f"strict decoding error: {', '.join(found)}", kind, version, body, patch)
        return found

    def _unknown_to_schema(
        self, obj: dict[str, Any], settle: Callable[[dict[str, Any], list[str] | None], None] | None
    ) -> list[str]:
        found: list[str] = []
        of_metadata, meta = self._types.find(OBJECT_META), obj.get("metadata")
        if of_metadata is not None and isinstance(meta, dict):
            found += self._unknown(meta, of_metadata, "metadata", patch=False)
        unknown: list[str] = []
        try:
            if settle is not None:
                settle(obj, unknown)
        except ShapeError:
            pass  # refused later
        return [*found, *sorted(unknown)]

    def _unknown(self, obj: dict[str, Any], type_: Type, path: str, patch: bool) -> Iterator[str]:
        for name, value in obj.items():
            here = f"{path}.{name}" if path else name
            field = type_.fields.get(name)
            if field is None:
                if not (patch and name.startswith("$")):  # a directive: $patch, $setElementOrder/…
                    yield here
                continue
            inner = self._types.find(field.struct) if field.struct else None
            if inner is None:
                continue
            for place, one in _structs_in(value, field.form, here):
                yield from self._unknown(one, inner, place, patch)


def _structs_in(value: Any, form: Form, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, struct) for all that a field has; what is of another form is left out."""
    match form, value:
        case "one", dict():
            yield path, value
        case "list", list():
            yield from ((f"{path}[{i}]", one) for i, one in enumerate(value) if isinstance(one, dict))
        case "map", dict():
            yield from ((f"{path}.{key}", one) for key, one in value.items() if isinstance(one, dict))


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the fields that a JSON document sets more than once. Raises ValueError if it is none."""
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
