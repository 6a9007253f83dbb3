"""ControllerRevisions (apps/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/apps/controllerrevision/strategy.go, pkg/apis/apps/validation/validation.go,
pkg/printers/internalversion/printers.go (printControllerRevision) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, controller_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, name_cell
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE


def set_defaults(revision: Object) -> None:
    revision.setdefault("revision", 0)


def validate(revision: Object) -> list[FieldError]:
    return not_negative(revision, "", ("revision",))


def validate_create(revision: Object) -> list[FieldError]:
    data = revision.get("data")
    if data is None:
        return [required("data", "data is mandatory")]
    return [] if isinstance(data, dict) else [required("data", "data must be a valid JSON object")]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [] if new.get("data") == old.get("data") else [invalid("data", new.get("data"), IMMUTABLE)]


def cells(obj: Object, now: float) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [name_cell(obj), controller, obj.get("revision") or 0, age_cell(obj, now)]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="controllerrevisions",
    kind="ControllerRevision",
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        validate_create=validate_create,
        validate_update=validate_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Controller"),
            Column("Revision"),
            AGE,
        ),
        cells=cells,
    ),
)
