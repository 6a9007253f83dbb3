"""VolumeAttributesClasses (storage.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/storage/volumeattributesclass/strategy.go, pkg/printers/internalversion/printers.go
(printVolumeAttributesClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required
from kcm.runtime.apiserver.kinds.storage.shared.parameters import wrong_parameters
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key


def validate(attributes_class: Object) -> list[FieldError]:
    driver = attributes_class.get("driverName") or ""
    errors = [invalid("driverName", driver.lower(), text) for text in label_key(driver.lower())]
    if not driver:
        errors = [required("driverName")]
    return [*errors, *wrong_parameters(attributes_class.get("parameters"), "parameters", allow_none=False)]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("driverName", "parameters")
        if new.get(field) != old.get(field)
    ]


def cells(attributes_class: Object, now: float) -> list[Any]:
    return [name_cell(attributes_class), attributes_class.get("driverName") or "", age_cell(attributes_class, now)]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattributesclasses",
    kind="VolumeAttributesClass",
    short_names=("vac",),
    namespaced=False,
    strategy=Strategy(
        validate=validate,
        validate_update=validate_update,
        validate_name=dns_subdomain,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("DriverName"),
            AGE,
        ),
        cells=cells,
    ),
)
