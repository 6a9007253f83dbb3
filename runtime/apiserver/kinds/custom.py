"""The kinds that a CustomResourceDefinition declares: one ResourceDefinition for each served version.

An object is settled and validated by the schema of the version that a request names, and stored in the stored version,
without what that does not have. One that may have been stored under an older schema is settled again when it is read.
Versions differ by their apiVersion and their schema.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy}.go,
pkg/apiserver/customresource_handler.go, pkg/registry/customresource/tableconvertor (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from protocols.objects import Object
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import FieldError
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.selectable_fields import FIELD_LABEL_NOT_SUPPORTED
from runtime.apiserver.kinds.structural.columns import printer_for
from runtime.apiserver.kinds.structural.json_path import JsonPath, JsonPathError, as_text
from runtime.apiserver.kinds.structural.objects import ObjectSchema
from runtime.apiserver.kinds.structural.scale import validate_scale
from runtime.apiserver.kinds.structural.schemas import PRESERVE
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import FieldGetter, ScalePaths, Strategy
from runtime.apiserver.registry.users import AccessControl, User

_ANYTHING = {"type": "object", PRESERVE: True}


def definitions_in(custom_resource_definition: Object) -> list[ResourceDefinition]:
    spec = custom_resource_definition["spec"]
    schemas = {version["name"]: ObjectSchema(_schema(spec, version)) for version in spec["versions"]}
    stored_version = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
    # Nothing is stored under an older schema as long as the definition has never been changed.
    meta = custom_resource_definition["metadata"]
    changed, terminating = meta.get("generation", 1) > 1, "deletionTimestamp" in meta
    return [
        _definition(spec, version, stored_version or version["name"], schemas, changed=changed, terminating=terminating)
        for version in spec["versions"]
        if version.get("served")
    ]


def _schema(spec: Object, version: Object) -> dict[str, Any]:
    schema: dict[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return _ANYTHING if schema is None or spec.get("preserveUnknownFields") else schema


def _definition(
    spec: Object,
    version: Object,
    stored_version: str,
    schemas: dict[str, ObjectSchema],
    *,
    changed: bool,
    terminating: bool,
) -> ResourceDefinition:
    names, group, name = spec["names"], spec["group"], version["name"]
    subresources = version.get("subresources") or {}
    own, stored, is_stored = schemas[name], schemas[stored_version], name == stored_version
    alike, scale = own.schema == stored.schema, _scale_paths(subresources.get("scale"))

    def validate(obj: Object) -> list[FieldError]:
        return [*own.validate(obj), *validate_scale(scale, obj)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        return [*own.validate_update(new, old), *validate_scale(scale, new)]

    def validate_status_update(new: Object, old: Object) -> list[FieldError]:
        return [*own.validate_status_update(new, old), *validate_scale(scale, new, of_spec=False)]

    def on_read(obj: Object) -> None:
        stored.settle(obj)

    def from_storage(obj: Object) -> Object:
        if changed:
            on_read(obj)
        return obj if is_stored else _as_version(f"{group}/{name}", obj, None if alike else own)

    def to_storage(obj: Object) -> Object:
        return _as_version(f"{group}/{stored_version}", obj, None)

    return ResourceDefinition(
        group=group,
        version=name,
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=tuple(one for one in ("status", "scale") if one in subresources),
        to_storage=None if is_stored else to_storage,
        from_storage=from_storage if changed or not is_stored else None,
        strategy=Strategy(
            validate_name=dns_subdomain,
            has_generation=True,
            confirm=_refuse_creation(group, names["plural"]) if terminating else None,
            validate=validate,
            canonicalize=_change_nothing if alike else stored.settle,
            allow_unconditional_update=False,
            validate_update=validate_update,
            update_is_judged_whole=True,
            has_status="status" in subresources,
            status_update_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
            validate_status_update=validate_status_update,
            selectable_fields=_selectable_fields(version),
            unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
            scale_paths=scale,
        ),
        printer=printer_for(version.get("additionalPrinterColumns") or ()),
        dynamic=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        settle=own.settle,
        on_read=on_read if changed else None,
    )


def _refuse_creation(group: str, plural: str) -> Callable[[Object, Object | None, User, AccessControl], None]:
    def confirm(new: Object, old: Object | None, _user: User, _access: AccessControl) -> None:
        if old is None:
            because = "create not allowed while custom resource definition is terminating"
            raise status_errors.forbidden(group, plural, new["metadata"].get("name", ""), because)

    return confirm


def _scale_paths(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or "")


def _selectable_fields(version: Object) -> dict[str, FieldGetter]:
    paths = [one["jsonPath"] for one in version.get("selectableFields") or ()]
    return {path.removeprefix("."): _text_at(JsonPath(path)) for path in paths}


def _text_at(path: JsonPath) -> FieldGetter:
    def get(obj: Object) -> str:
        try:
            found = path.find(obj)
        except JsonPathError:
            return ""
        return as_text(found[0]) if found and found[0] is not None else ""

    return get


def _change_nothing(_obj: Object) -> None:
    return None


def _as_version(api_version: str, obj: Object, schema: ObjectSchema | None) -> Object:
    """schema: of that version, where it is another: then a copy without what that does not have."""
    if schema is None:
        return {**obj, "apiVersion": api_version}
    copy: Object = orjson.loads(orjson.dumps(obj))
    copy["apiVersion"] = api_version
    schema.prune(copy)
    return copy
