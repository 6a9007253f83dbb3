"""PATCH of an object or of its status: JSON patch, merge patch, strategic merge patch, and server-side apply.

Source: apiserver pkg/endpoints/handlers/patch.go (v1.36).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core import metadata
from kcm.runtime.apiserver.core.body_decoder import UnfitError, parse_json, settle_types
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, read_stored, stored_form
from kcm.runtime.apiserver.core.field_managers import MANAGED_FIELDS
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.core.server_side_apply import apply as server_side_apply
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator
from kcm.runtime.apiserver.schema.merge_schemas import merge_schema_of
from kcm.runtime.apiserver.schema.patches import MOST_OPERATIONS, apply_json_patch, apply_merge_patch
from kcm.runtime.apiserver.schema.scalars import json_type
from kcm.runtime.apiserver.schema.strategic_merge import apply_strategic_merge
from kcm.runtime.apiserver.verbs.create import create_object
from kcm.runtime.apiserver.verbs.options import check_patch_options
from kcm.runtime.apiserver.verbs.update import replace
from kcm.runtime.client.api import Response
from kcm.runtime.schema.api_types import built_in_types

SUPPORTED = tuple(PatchType)


def patch(cluster: Cluster, call: RoutedRequest) -> Response:
    """Apply the patch of a request to the stored object; a server-side apply may create the object.

    Raises StatusError: 415 for an unknown patch type, 400 for a malformed patch, 422 for a patch that cannot be
    applied.
    """
    definition = call.definition
    patch_type, body = decode_patch(call)
    record = cluster.state.get(definition.storage, call.key)
    if record is None and patch_type == PatchType.APPLY and not call.route.subresource:
        return Response(status=201, body=_create_applied(cluster, call, body))
    record = cluster.record(definition, call.key)
    old = read_stored(definition, record.raw)
    live = old if definition.from_storage is None else definition.from_storage(old)
    applied = patch_type == PatchType.APPLY
    if applied:
        patched = server_side_apply(cluster, call, live, body)
    else:
        unmanaged = _unmanaged(live, call.request.body)
        patched = carried_out(
            cluster,
            partial(key_of, "patch", definition, unmanaged, body, patch_type),
            lambda: apply(definition, unmanaged, body, patch_type),
        )
    unknown_field_count = cluster.type_checks.unknown_field_count
    # An apply that changes nothing must not add defaults either: conversion may have removed them.
    is_idle = applied and definition.dynamic and _without_managed_fields(patched) == _without_managed_fields(live)
    new = patched if is_idle else _settled(cluster, call, patched)
    if patch_type == PatchType.JSON and cluster.type_checks.unknown_field_count != unknown_field_count:
        _check_fields(call, patched)
    shown = replace(cluster, call, record, old, stored_form(definition, new), applied=applied)
    return Response(status=200, body=shown)


def _check_fields(call: RoutedRequest, patched: Object) -> None:
    """Check the fields of an object after a JSON patch; other patches are checked when they are received.

    Raises StatusError (422).
    """
    definition, directive = call.definition, call.query.get("fieldValidation") or WARN
    if directive not in (STRICT, WARN):
        return
    found = FieldValidator(built_in_types()).check(
        orjson.dumps(patched),
        group=definition.group,
        version=definition.version,
        kind=definition.kind,
        directive=directive,
        patch=True,
    )
    call.warn_all(found)


def _unmanaged(live: Object, patch: bytes) -> Object:
    """Return the object without managedFields, which are long, unless the patch may change them.

    The stored managedFields are restored afterwards.
    """
    if MANAGED_FIELDS not in live["metadata"] or MANAGED_FIELDS.encode() in patch:
        return live
    return _without_managed_fields(live)


def _without_managed_fields(obj: Object) -> Object:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != MANAGED_FIELDS}}


def decode_patch(call: RoutedRequest) -> tuple[str, Any]:
    """Return the media type of the patch and the decoded patch. Raises StatusError (400, 413, 415, 422)."""
    patch_type = call.request.content_type.partition(";")[0].strip()
    if patch_type not in SUPPORTED:
        raise status_errors.unsupported_patch_type()
    if call.definition.dynamic and patch_type == PatchType.STRATEGIC:
        raise status_errors.unsupported_media_type(patch_type, (PatchType.JSON, PatchType.MERGE, PatchType.APPLY))
    check_patch_options(call.query, patch_type)
    try:
        body = parse_json(call.request.body)
    except ValueError as err:
        raise status_errors.bad_request(f"error decoding patch: {err}") from err
    wanted, name = (
        (list, "[]handlers.jsonPatchOp") if patch_type == PatchType.JSON else (dict, "map[string]interface {}")
    )
    if not isinstance(body, wanted):
        text = f"json: cannot unmarshal {json_type(body)} into Go value of type {name}"
        prefix = "" if patch_type == PatchType.STRATEGIC else "error decoding patch: "
        raise status_errors.bad_request(prefix + text)
    if patch_type == PatchType.JSON and len(body) > MOST_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(body)}"
        raise status_errors.too_large(text)
    return patch_type, body


def apply(definition: ResourceDefinition, obj: Object, body: Any, patch_type: str) -> Object:
    """Return the object after the patch; obj itself is not changed. Raises StatusError (422)."""
    try:
        if patch_type == PatchType.JSON:
            return apply_json_patch(obj, body)
        if patch_type == PatchType.MERGE or definition.dynamic:
            return apply_merge_patch(obj, body)
        return apply_strategic_merge(
            obj, body, schema=merge_schema_of(definition.group, definition.version, definition.kind)
        )
    except ValueError as err:
        raise status_errors.unprocessable(str(err)) from err


def settle_patched(cluster: Cluster, definition: ResourceDefinition, patched: Object) -> Object:
    """Check the types of a patched object's fields, and prune and default it. Raises StatusError (400, 422).

    The result is a copy, because the patched object shares parts with the stored object.
    """
    try:
        shown = orjson.dumps(patched)
    except TypeError as err:  # operations of a JSON patch can nest values without limit
        raise status_errors.unprocessable(str(err)) from err
    try:
        obj: Object = parse_json(shown)
    except ValueError as err:
        raise status_errors.unprocessable(str(err)) from err
    try:
        settle_types(cluster, definition, obj)
    except UnfitError as err:
        raise status_errors.invalid("", "", "", [invalid("patch", shown.decode(), str(err))]) from err
    return obj


def _settled(cluster: Cluster, call: RoutedRequest, patched: Object) -> Object:
    obj = settle_patched(cluster, call.definition, patched)
    metadata.settle_namespace(call.route, obj)
    metadata.check_name(call.route, obj)
    return obj


def _create_applied(cluster: Cluster, call: RoutedRequest, body: Any) -> bytes:
    definition = call.definition
    obj = settle_patched(cluster, definition, server_side_apply(cluster, call, {}, body))
    obj["metadata"].setdefault("name", call.route.name)
    metadata.settle_namespace(call.route, obj)
    metadata.check_name(call.route, obj)
    uid = obj["metadata"].get("uid")
    if uid:
        because = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status_errors.conflict(definition.group, definition.plural, call.route.name, because)
    return create_object(cluster, call.definition, obj, call, manager="")
