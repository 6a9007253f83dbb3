"""PATCH of an object or of its status, in its four forms.

Server-side apply is a first cut: what is applied is merged in as a strategic merge patch is (lists by their keys), as
if with force. Nobody is remembered as the manager of a field, so a field that a later apply leaves out stays.

Source: apiserver pkg/endpoints/handlers/patch.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson

from protocols.merge_schemas import merge_schema_of
from protocols.messages.commands import PatchType
from protocols.objects import Object, decode_object
from protocols.patches import apply_json_patch, apply_merge_patch
from protocols.strategic_merge import apply_strategic_merge
from runtime.api import Response
from runtime.embedded import metadata, status_errors
from runtime.embedded.cluster import Call, Cluster, stored_form
from runtime.embedded.decoding import settle_types
from runtime.embedded.verbs.create import create_object
from runtime.embedded.verbs.update import replace

SUPPORTED = tuple(PatchType)


def patch(cluster: Cluster, call: Call) -> Response:
    """Raises StatusError: 415 on an unknown patch type, 400 on an unreadable patch, 422 on one that does not apply."""
    definition = call.definition
    patch_type = call.request.content_type.partition(";")[0].strip()
    if patch_type not in SUPPORTED or (definition.dynamic and patch_type == PatchType.STRATEGIC):
        raise status_errors.unsupported_media_type(patch_type, SUPPORTED)
    body = _decode(call.request.body, patch_type)
    record = cluster.state.get(definition.storage, call.key)
    if record is None and patch_type == PatchType.APPLY and not call.route.subresource:
        return Response(status=201, body=_create_applied(cluster, call, body))
    record = cluster.record(definition, call.key)
    old = decode_object(record.raw)
    base = old if definition.from_storage is None else definition.from_storage(old)
    patched = apply(call, base, body, patch_type)
    return Response(status=200, body=store_patched(cluster, call, patched, old, record))


def store_patched(cluster: Cluster, call: Call, patched: Object, old: Object, record: Any) -> bytes:
    """patched may share parts with old, which stays as it is."""
    patched = orjson.loads(orjson.dumps(patched))
    settle_types(cluster.shapes, call.definition, patched)
    metadata.settle_namespace(call.route, patched)
    name = patched["metadata"].get("name") or ""
    if name != call.route.name:
        raise status_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.route.name})"
        )
    return replace(cluster, call, record, old, stored_form(call.definition, patched))


def apply(call: Call, obj: Object, body: Any, patch_type: str) -> Object:
    """The patched object; obj is left alone. Raises StatusError (422)."""
    definition = call.definition
    try:
        if patch_type == PatchType.JSON:
            return apply_json_patch(obj, body)
        if patch_type == PatchType.MERGE or definition.dynamic:
            return apply_merge_patch(obj, body)
        schema = merge_schema_of(definition.kind)
        return apply_strategic_merge(obj, body, schema=schema)
    except ValueError as err:
        raise status_errors.unprocessable(str(err)) from err


def _decode(body: bytes, patch_type: str) -> Any:
    try:
        if patch_type == PatchType.APPLY:
            return _decode_yaml(body)
        return orjson.loads(body)
    except ValueError as err:
        raise status_errors.bad_request(f"error decoding patch: {err}") from err


def _decode_yaml(body: bytes) -> Any:
    """Raises ValueError. Most clients apply JSON, which is YAML."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        import yaml  # slow to load, and seldom needed

        try:
            return yaml.safe_load(body)
        except yaml.YAMLError as err:
            raise ValueError(f"error converting YAML to JSON: {err}") from err


def _create_applied(cluster: Cluster, call: Call, body: Any) -> bytes:
    if not isinstance(body, dict):
        raise status_errors.bad_request("error decoding patch: not an object")
    obj = apply(call, {}, body, PatchType.MERGE)
    settle_types(cluster.shapes, call.definition, obj)
    metadata.settle_namespace(call.route, obj)
    obj["metadata"].setdefault("name", call.route.name)
    if obj["metadata"]["name"] != call.route.name:
        name = obj["metadata"]["name"]
        raise status_errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.route.name})"
        )
    return create_object(cluster, call.definition, obj, dry_run=call.dry_run)
