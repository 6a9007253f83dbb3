"""Decoder of request bodies in JSON, with the errors (400) of upstream's decoder.

Source: apiserver pkg/endpoints/handlers/{create,update,rest}.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid, quoted
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.nesting import check_nesting
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError, json_type

_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class UnfitError(ValueError):
    """Object of a wrong kind, or with a field of a wrong type."""


def decode_body(cluster: Cluster, definition: ResourceDefinition, body: bytes) -> Object:
    """Decode, check and normalize the object in a body, see `settle_types`. Raises StatusError (400).

    In the result, kind, apiVersion and metadata are the first fields.
    """
    try:
        obj = parse_json(body)
    except ValueError as err:
        raise _unrecognized(definition, str(err), body) from err
    if not isinstance(obj, dict):
        raise _unrecognized(definition, f"json: cannot unmarshal {json_type(obj)} into Go value of type {_META}", body)
    for field in ("kind", "apiVersion"):
        value = obj.get(field)
        if value is not None and not isinstance(value, str):
            found = json_type(value)
            why = f"json: cannot unmarshal {found} into Go struct field .{field} of type string"
            raise _unrecognized(definition, why, body)
    if definition.dynamic and not obj.get("kind"):
        text = body.decode(errors="replace")
        raise status_errors.bad_request(
            f"the object provided is unrecognized (must be of type {definition.kind}): "
            f"Object 'Kind' is missing in '{text}' ({text[:30]}{' ...' if len(text) > 30 else ''})"
        )
    if definition.dynamic and (obj.get("apiVersion") or "") != definition.api_version:
        raise _other_version(definition, obj.get("apiVersion") or "")
    given_kind, given_version = obj.get("kind") or definition.kind, obj.get("apiVersion") or definition.api_version
    try:
        settle_types(cluster, definition, obj)
    except UnfitError as err:
        version = quoted(given_version.rpartition("/")[2])
        text = f"{given_kind} in version {version} cannot be handled as a {definition.kind}: {err}"
        raise status_errors.bad_request(text) from err
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"], **obj}


def settle_types(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    """Check the types of an object, and normalize it in place.

    A missing apiVersion, kind or metadata is added. Nulls, unknown fields, and empty fields of metadata are dropped.

    Raises UnfitError for another kind or a value of a wrong type, StatusError (400) for another version of the kind.
    """
    _settle_kind(cluster, definition, obj)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    try:
        cluster.type_checks.check(definition, obj)
    except UnmarshalTypeError as err:
        raise UnfitError(str(err)) from err
    meta = obj["metadata"]
    meta.pop("selfLink", None)
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in meta and not meta[field]:
            del meta[field]


def parse_json(body: bytes) -> Any:
    """Parse a body as JSON. Raises ValueError if it is malformed or nested too deeply."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        if err.pos >= len(err.doc.rstrip()):
            raise ValueError("unexpected end of JSON input") from err  # Go's text
        raise
    check_nesting(value, body)
    return value


def _settle_kind(cluster: Cluster, definition: ResourceDefinition, obj: Object) -> None:
    kind, api_version = obj.get("kind") or definition.kind, obj.get("apiVersion") or definition.api_version
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str):
            raise UnfitError(
                f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go_type(value)} into "
                f"Go struct field .{name} of type string"
            )
    if definition.dynamic:
        _check_custom_kind(definition, obj)
    elif kind != definition.kind or api_version != definition.api_version:
        if cluster.registry.of_kind(api_version, kind) is None:
            where = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'
            raise UnfitError(
                f"no kind {quoted(str(kind))} is registered for version {quoted(str(api_version))} {where}"
            )
        if kind != definition.kind:
            inner = f"{definition.group.partition('.')[0] or 'core'}.{definition.kind}"
            raise UnfitError(f"converting ({api_version}.{kind}) to ({inner}): unknown conversion")
        raise _other_version(definition, api_version)
    obj["kind"], obj["apiVersion"] = kind, api_version


def _other_version(definition: ResourceDefinition, api_version: str) -> status_errors.StatusError:
    return status_errors.bad_request(
        f"the API version in the data ({api_version}) does not match "
        f"the expected API version ({definition.api_version})"
    )


def _check_custom_kind(definition: ResourceDefinition, obj: Object) -> None:
    """Raise StatusError (422) if the object is not of the custom kind.

    The error for a built-in kind is a 400. Upstream decodes any kind for a custom resource, and validates it later.
    """
    wanted = {"kind": definition.kind, "apiVersion": definition.api_version}
    given = {field: obj.get(field) or value for field, value in wanted.items()}
    errors = [
        invalid(field, given[field], f"must be {value}") for field, value in wanted.items() if given[field] != value
    ]
    if errors:
        name = (obj.get("metadata") or {}).get("name", "")
        raise status_errors.invalid(definition.group, str(given["kind"]), name, errors)


def _go_type(value: object) -> str:
    """Return the type of a JSON value in Go's error messages. value: neither a string nor null."""
    if isinstance(value, bool):
        return "bool"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


def _unrecognized(definition: ResourceDefinition, why: str, body: bytes) -> status_errors.StatusError:
    start = body[:30]
    if not body:
        start = b"<empty>"
    shown = start.decode(errors="replace") if start.startswith((b"{", b"<empty>")) else start.hex()
    return status_errors.bad_request(
        f"the object provided is unrecognized (must be of type {definition.kind}): "
        f"couldn't get version/kind; json parse error: {why} ({shown}{' ...' if len(body) > 30 else ''})"
    )
