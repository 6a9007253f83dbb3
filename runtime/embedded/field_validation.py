"""fieldValidation=Strict and =Warn: fields that a kind does not have, fields given twice, values of the wrong type.

Source: apiserver pkg/endpoints/handlers/{create,patch}.go, sigs.k8s.io/json and encoding/json for the words (v1.36).
Differs from upstream: a request without the parameter is not checked here (upstream warns), since that is what
controllers send; values inside maps are not checked; the type named in a message is int32 for every integer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from runtime.embedded import status_errors
from runtime.embedded.field_errors import aggregate, invalid
from runtime.embedded.openapi_models import Field, Model, ModelName, Models, model_of

STRICT, WARN = "Strict", "Warn"


class FieldValidator:
    """Compares bodies with the types of openapi_models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def check(
        self, body: bytes, *, group: str, version: str, kind: str, directive: str, patch: bool = False
    ) -> list[str]:
        """Warnings for the client. patch: the body is a merge or strategic merge patch of the kind.

        Raises StatusError, 400 or for a patch 422: with any directive for a value of a wrong type, with "Strict" also
        for an unknown or repeated field. Bodies that are no JSON object are left to whoever handles the request.
        """
        try:
            obj = orjson.loads(body)
        except ValueError:
            return []
        model = self._models.find(model_of(group, version, kind))
        if not isinstance(obj, dict) or model is None:
            return []
        mistyped = next(self._mistyped(obj, model, []), None)
        if mistyped is not None:
            raise _refusal(mistyped, kind, version, body, patch)
        strays = [f'unknown field "{path}"' for path in self._unknown(obj, model, "", patch)]
        strays += [f'duplicate field "{path}"' for path in duplicate_fields(body)]
        if strays and directive == STRICT:
            raise _refusal(f"strict decoding error: {', '.join(strays)}", kind, version, body, patch)
        return strays

    def _model(self, name: ModelName | None) -> Model | None:
        return self._models.find(name) if name is not None else None

    def _unknown(self, obj: dict[str, Any], model: Model, path: str, patch: bool) -> Iterator[str]:
        for name, value in obj.items():
            here = f"{path}.{name}" if path else name
            field = model.fields.get(name)
            if field is None:
                if not (patch and name.startswith("$")):  # a directive: $patch, $setElementOrder/…
                    yield here
                continue
            inner = self._model(field.type.model)
            if inner is None:
                continue
            if isinstance(value, dict):
                yield from self._unknown(value, inner, here, patch)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from self._unknown(item, inner, f"{here}[{i}]", patch)

    def _mistyped(self, obj: dict[str, Any], model: Model, path: list[str]) -> Iterator[str]:
        for name, value in obj.items():
            field = model.fields.get(name)
            if field is None or value is None:
                continue
            here = [*path, name]
            if field.type.many and not isinstance(value, list):
                yield _cannot_unmarshal(value, model, here, f"[]{_go_type(field)}")
                continue
            inner = self._model(field.type.model)
            for item in value if field.type.many else (value,):
                if item is None:
                    continue
                if not _fits(item, field.type.kind):
                    yield _cannot_unmarshal(item, model, here, _go_type(field))
                elif inner is not None:
                    yield from self._mistyped(item, inner, here)


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the fields that a JSON document sets more than once. Raises ValueError if it is none."""
    try:
        document = json.loads(body, object_pairs_hook=_Pairs)
    except RecursionError:
        return []
    return list(dict.fromkeys(_duplicates(document, "")))


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


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "time": (str,),
    "micro_time": (str,),
    "integer": (int,),
    "number": (int, float),
    "quantity": (str, int, float),
    "int_or_string": (str, int),
    "map": (dict,),
    "object": (dict,),
    "model": (dict,),
}
_GO_TYPES = {
    "integer": "int32",
    "number": "float64",
    "boolean": "bool",
    "quantity": "resource.Quantity",
    "int_or_string": "intstr.IntOrString",
    "map": "map[string]string",
    "object": "runtime.RawExtension",
    "time": "v1.Time",
    "micro_time": "v1.MicroTime",
}


def _fits(value: Any, kind: str) -> bool:
    if kind == "any":
        return True
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    return isinstance(value, _PYTHON_TYPES[kind])


def _go_type(field: Field) -> str:
    if field.type.model is not None:
        return f"{field.type.model.module.rpartition('_')[2]}.{field.type.model.name}"
    return _GO_TYPES.get(field.type.kind, field.type.kind)


def _cannot_unmarshal(value: Any, model: Model, path: list[str], go_type: str) -> str:
    if isinstance(value, bool):
        found = "bool"
    elif isinstance(value, int | float):
        found = f"number {value}" if isinstance(value, float) else "number"
    else:
        found = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    where = f"{model.name.name}.{'.'.join(path)}"
    return f"json: cannot unmarshal {found} into Go struct field {where} of type {go_type}"


def _refusal(problem: str, kind: str, version: str, body: bytes, patch: bool) -> status_errors.StatusError:
    if not patch:
        return status_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
    error = invalid("patch", body.decode(errors="replace"), problem)
    details = {"causes": [{"reason": error.type, "message": error.body, "field": error.field}]}
    return status_errors.StatusError(422, "Invalid", f' "" is invalid: {aggregate([error])}', details)
