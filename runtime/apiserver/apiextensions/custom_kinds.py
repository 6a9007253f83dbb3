"""Custom kinds: one ResourceDefinition for each served version of a CustomResourceDefinition.

An object is pruned, defaulted and validated by the schema of the version that a request names. It is converted to the
storage version and stored without the fields that this version does not have. An object that may have been stored
under another schema is pruned and defaulted again when it is read.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy}.go,
pkg/apiserver/customresource_handler.go, pkg/registry/customresource/tableconvertor (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.columns import printer_for
from kcm.runtime.apiserver.apiextensions.json_path import JsonPath, JsonPathError, as_text
from kcm.runtime.apiserver.apiextensions.objects import ObjectSchema
from kcm.runtime.apiserver.apiextensions.pruning_and_defaults import MOST_MADE
from kcm.runtime.apiserver.apiextensions.scale import validate_scale
from kcm.runtime.apiserver.apiextensions.schemas import PRESERVE
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import FieldGetter, ScalePaths, Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, User
from kcm.runtime.apiserver.registry.version_ranks import version_rank
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED

MOST_MADE_OF_MANY = 64 * 1024 * 1024  # bytes of JSON that defaults may add to the objects of one read
_ANYTHING = {"type": "object", PRESERVE: True}


def definitions_in(custom_resource_definition: Object, convert: Convert) -> list[ResourceDefinition]:
    """Return the definitions of the served versions of a CustomResourceDefinition.

    convert: converts objects between versions (core/conversion.py).
    """
    spec = custom_resource_definition["spec"]
    schemas = {version["name"]: ObjectSchema(_schema(spec, version)) for version in spec["versions"]}
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    stored = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    by_webhook = (spec.get("conversion") or {}).get("strategy") == "Webhook" and len(schemas) > 1
    first = next(iter(schemas.values()))
    family = _Family(
        group=spec["group"],
        schemas=schemas,
        stored=stored,
        leading=stored if stored in served else next(iter(served), ""),
        convert=convert,
        asks_outside=by_webhook,
        are_alike=not by_webhook and all(schema.schema == first.schema for schema in schemas.values()),
    )
    # Stored objects need no conversion and pruning on reads if there is one schema, and it was never changed.
    meta = custom_resource_definition["metadata"]
    changed = meta.get("generation", 1) > 1 or not family.are_alike
    terminating = "deletionTimestamp" in meta
    declared = [
        (_definition(spec, version, family, changed=changed, terminating=terminating), bool(version.get("served")))
        for version in spec["versions"]
    ]
    unserved = tuple(definition for definition, is_served in declared if not is_served)
    return [
        replace(definition, unserved=unserved) if unserved else definition
        for definition, is_served in declared
        if is_served
    ]


def _schema(spec: Object, version: Object) -> dict[str, Any]:
    schema: dict[str, Any] | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return _ANYTHING if schema is None or spec.get("preserveUnknownFields") else schema


Convert = Callable[[Sequence[Object], str], list[Object]]
"""(objects of any versions of a kind, wanted apiVersion) → converted objects.

Raises StatusError, Unanswered.
"""


class _Family(Struct, frozen=True, kw_only=True):
    """All versions of a custom kind."""

    group: str
    schemas: dict[str, ObjectSchema]  # by version
    stored: str  # the storage version
    leading: str  # the version that represents stored objects: the storage version, or the first served one
    convert: Convert
    asks_outside: bool  # whether a webhook converts objects between versions
    are_alike: bool  # whether all versions have the same schema, and no webhook converts

    def as_version(self, objects: Sequence[Object], version: str) -> list[Object]:
        """Convert objects to this version and prune them. Raises StatusError, Unanswered."""
        api_version, schema = f"{self.group}/{version}", self.schemas[version]
        converted = self.convert(objects, api_version)
        if not self.are_alike:
            for i, (before, after) in enumerate(zip(objects, converted, strict=True)):
                if before["apiVersion"] != api_version:
                    # Copy: the converted object shares parts with its source.
                    converted[i] = orjson.loads(orjson.dumps(after))
                    schema.prune(converted[i])
        return converted

    def settle(self, stored: Sequence[Object]) -> None:
        """Prune and default stored objects in place, each by the schema of the version that it was stored in.

        Raises TooLargeError if the defaults of one object, or of all objects together, are too large.
        """
        left = MOST_MADE_OF_MANY
        for obj in stored:
            schema = self.schemas.get(obj["apiVersion"].rpartition("/")[2])
            if schema is not None:  # Objects of unknown versions cannot be converted.
                left -= schema.settle(obj, most_made=min(left, MOST_MADE))


def _definition(
    spec: Object, version: Object, family: _Family, *, changed: bool, terminating: bool
) -> ResourceDefinition:
    names, group, name = spec["names"], spec["group"], version["name"]
    subresources = version.get("subresources") or {}
    own, is_stored = family.schemas[name], name == family.stored
    scale = _scale_paths(subresources.get("scale"))

    def validate(obj: Object) -> list[FieldError]:
        return [*own.validate(obj), *validate_scale(scale, obj)]

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        return [*own.validate_update(new, old), *validate_scale(scale, new)]

    def validate_status_update(new: Object, old: Object) -> list[FieldError]:
        return [*own.validate_status_update(new, old), *validate_scale(scale, new, of_spec=False)]

    def settle(obj: Object, unknown: list[str] | None) -> None:
        own.settle(obj, unknown)

    def decode(stored: list[Object]) -> list[Object]:
        if changed:
            family.settle(stored)
        return family.as_version(stored, name)

    def encode(obj: Object) -> Object:
        return family.as_version([obj], family.stored)[0]

    def from_other(obj: Object) -> Object:
        return family.convert([obj], f"{group}/{name}")[0]

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
        subresources=tuple(subresource for subresource in ("status", "scale") if subresource in subresources),
        from_storage=None if len(family.schemas) == 1 else from_other,
        decode=decode if changed or not is_stored else None,
        encode=None if is_stored else encode,
        asks_outside=family.asks_outside,
        leads=name == family.leading,
        deprecation=_deprecation(spec, version),
        strategy=Strategy(
            validate_name=dns_subdomain,
            has_generation=True,
            confirm=_refuse_creation(group, names["plural"]) if terminating else None,
            validate=validate,
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
        settle=settle,
    )


def _deprecation(spec: Object, version: Object) -> str:
    """Return the warning for clients of a deprecated version; "" if the version is not deprecated."""
    if not version.get("deprecated"):
        return ""
    own: str | None = version.get("deprecationWarning")
    if own is not None:
        return own
    group, name, kind = spec["group"], version["name"], spec["names"]["kind"]
    current = [
        candidate["name"]
        for candidate in spec["versions"]
        if candidate.get("served") and not candidate.get("deprecated")
    ]
    best = min(
        (candidate for candidate in current if version_rank(candidate) < version_rank(name)),
        key=version_rank,
        default=None,
    )
    instead = "" if best is None else f"; use {group}/{best} {kind}"
    return f"{group}/{name} {kind} is deprecated{instead}"


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
    paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
    return {path.removeprefix("."): _text_at(JsonPath(path)) for path in paths}


def _text_at(path: JsonPath) -> FieldGetter:
    def get(obj: Object) -> str:
        try:
            found = path.find(obj)
        except JsonPathError:
            return ""
        return as_text(found[0]) if found and found[0] is not None else ""

    return get
