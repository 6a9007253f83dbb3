"""CSIStorageCapacities (storage.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/storage/csistoragecapacity/strategy.go, pkg/printers/internalversion/printers.go
(printCSIStorageCapacity) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import name_cell, or_unset
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectors import validate_selector
from kcm.runtime.apiserver.rules.warnings import NODE_LABELS, of_node_term


def validate(capacity: Object) -> list[FieldError]:
    name = capacity.get("storageClassName") or ""
    errors = [invalid("storageClassName", name, text) for text in dns_subdomain(name)]
    if capacity.get("nodeTopology"):
        errors += validate_selector(capacity["nodeTopology"], "nodeTopology")
    return errors + [
        invalid(field, capacity[field], NOT_NEGATIVE)
        for field in ("capacity",)  # upstream does not validate maximumVolumeSize
        if capacity.get(field) is not None and parse_quantity(capacity[field]) < 0
    ]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [
        invalid(field, new.get(field), IMMUTABLE)
        for field in ("nodeTopology", "storageClassName")
        if new.get(field) != old.get(field)
    ]


def warn(capacity: Object, _old: Object | None) -> Iterator[str]:
    topology = capacity.get("nodeTopology") or {}
    yield from of_node_term(topology, "nodeTopology")
    for label in topology.get("matchLabels") or ():
        if label in NODE_LABELS:
            yield f"nodeTopology.matchLabels.{label}: {NODE_LABELS[label]}"


def cells(capacity: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(capacity), capacity.get("storageClassName") or "", or_unset(capacity, "capacity")]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    strategy=Strategy(
        warn=warn,
        validate=validate,
        validate_update=validate_update,
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("StorageClassName"),
            Column("Capacity"),
        ),
        cells=cells,
    ),
)
