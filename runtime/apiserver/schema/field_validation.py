"""fieldValidation=Strict and =Warn: fields that a kind does not have, and fields given twice.

Source: apiserver pkg/endpoints/handlers/{create,patch}.go, sigs.k8s.io/json for the words (v1.36).
Differs from upstream: a patch is looked at as it came, and not the object that comes of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import invalid
from runtime.apiserver.schema.models import Model, Models, model_of

STRICT, WARN = "Strict", "Warn"


class FieldValidator:
    """Compares bodies with the types of models."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def check(
        self, body: bytes, *, group: str, version: str, kind: str, directive: str, patch: bool = False
    ) -> list[str]:
        """Warnings for the client. patch: the body is a merge or strategic merge patch of the kind.

        Raises StatusError, 400 or for a patch 422, on a stray field if the directive is "Strict". Bodies that are no
        JSON object, and values of a wrong type, are left to whoever handles the request.
        """
        try:
            obj = orjson.loads(body)
        except ValueError:
            return []
        model = self._models.find(model_of(group, version, kind))
        if not isinstance(obj, dict) or model is None:
            return []
        strays = [f'unknown field "{path}"' for path in self._unknown(obj, model, "", patch)]
        strays += [f'duplicate field "{path}"' for path in duplicate_fields(body)]
        if strays and directive == STRICT:
            raise _refusal(f"strict decoding error: {', '.join(strays)}", kind, version, body, patch)
        return strays

    def _unknown(self, obj: dict[str, Any], model: Model, path: str, patch: bool) -> Iterator[str]:
        for name, value in obj.items():
            here = f"{path}.{name}" if path else name
            field = model.fields.get(name)
            if field is None:
                if not (patch and name.startswith("$")):  # a directive: $patch, $setElementOrder/…
                    yield here
                continue
            inner = None if field.type.model is None else self._models.find(field.type.model)
            if inner is None:
                continue
            if isinstance(value, dict):
                yield from self._unknown(value, inner, here, patch)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from self._unknown(item, inner, f"{here}[{i}]", patch)


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of the fields that a JSON document sets more than once. Raises ValueError if it is none."""
    try:
        document = json.loads(body, object_pairs_hook=_Pairs)
        return list(dict.fromkeys(_duplicates(document, "")))
    except RecursionError:
        return []  # whoever handles the request refuses what is nested that deeply


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
