"""A request's body becomes an object of the kind that its path is about, or a 400 that says what is wrong with it.

Source: apiserver pkg/endpoints/handlers/{create,update,rest}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson

from protocols.objects import Object
from runtime.embedded import status_errors
from runtime.embedded.field_errors import quoted
from runtime.embedded.registry import ResourceDefinition
from runtime.embedded.shapes import ShapeError, Shapes, json_type

MOST_NESTED = 200  # levels; our JSON encoder takes 254


def decode_body(shapes: Shapes, definition: ResourceDefinition, body: bytes) -> Object:
    """The object in the body, as `settle_types` leaves it. Raises StatusError (400)."""
    try:
        obj = parse_json(body)
    except ValueError as err:
        raise _unrecognized(definition, f"couldn't get version/kind; json parse error: {err}", body) from err
    if not isinstance(obj, dict):
        found = json_type(obj)
        why = f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value"
        raise _unrecognized(definition, why, body)
    settle_types(shapes, definition, obj)
    return obj


def parse_json(body: bytes) -> Any:
    """Raises ValueError, also on what is nested too deeply for those who handle it."""
    value = orjson.loads(body)
    if body.count(b"{") + body.count(b"[") > MOST_NESTED and _depth(value) > MOST_NESTED:
        raise ValueError(f"nested more than {MOST_NESTED} levels deep")
    return value


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def settle_types(shapes: Shapes, definition: ResourceDefinition, obj: Object) -> None:
    """Make an object fit, in place, for all code that handles its kind: apiVersion, kind and metadata are there, fields
    have their types, nulls and fields that the kind does not have are gone. managedFields are not kept.

    Raises StatusError (400) on another kind or version, and on a value of a wrong type.
    """
    _settle_kind(definition, obj)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    try:
        shapes.check(definition, obj)
    except ShapeError as err:
        kind, version = definition.kind, quoted(definition.version)
        raise status_errors.bad_request(f"{kind} in version {version} cannot be handled as a {kind}: {err}") from err
    obj["metadata"].pop("managedFields", None)
    obj["metadata"].pop("selfLink", None)


def _settle_kind(definition: ResourceDefinition, obj: Object) -> None:
    kind, api_version = obj.get("kind") or definition.kind, obj.get("apiVersion") or definition.api_version
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise status_errors.bad_request("couldn't get version/kind; json parse error: apiVersion and kind are strings")
    if kind != definition.kind:
        version = quoted(api_version.rpartition("/")[2])
        expected = definition.kind
        raise status_errors.bad_request(
            f"{kind} in version {version} cannot be handled as a {expected}: "
            f"converting ({api_version}.{kind}) to ({definition.api_version}.{expected}): unknown conversion"
        )
    if api_version != definition.api_version:
        raise status_errors.bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({definition.api_version})"
        )
    obj["kind"], obj["apiVersion"] = kind, api_version


def _unrecognized(definition: ResourceDefinition, why: str, body: bytes) -> status_errors.StatusError:
    return status_errors.bad_request(
        f"the object provided is unrecognized (must be of type {definition.kind}): {why} ({body[:30].hex()} ...)"
    )
