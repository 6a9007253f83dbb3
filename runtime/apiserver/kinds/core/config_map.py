"""ConfigMaps (core/v1): validation and table columns.

Source: kubernetes pkg/registry/core/configmap/strategy.go, pkg/apis/core/validation/validation.go,
pkg/printers/internalversion/printers.go (printConfigMap) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, too_long
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.data import DATA_LIMIT, size_of, validate_immutable_data, validate_keys
from kcm.runtime.apiserver.rules.names import dns_subdomain


def validate(config_map: Object) -> list[FieldError]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    errors = validate_keys(data, "data") + validate_keys(binary, "binaryData")
    both = "duplicate of key present in binaryData"
    errors += [invalid(f"data[{key}]", key, both) for key in data.keys() & binary.keys()]
    if sum(len(value.encode()) for value in data.values()) + size_of(binary) > DATA_LIMIT:
        errors.append(too_long("[]", DATA_LIMIT))  # upstream's path for the object as a whole
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return validate_immutable_data(new, old, ("data", "binaryData"))


def cells(config_map: Object, now: float) -> list[Any]:
    count = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [name_cell(config_map), count, age_cell(config_map, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="configmaps",
    kind="ConfigMap",
    short_names=("cm",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        validate=validate,
        validate_update=validate_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Data"),
            AGE,
        ),
        cells=cells,
    ),
)
