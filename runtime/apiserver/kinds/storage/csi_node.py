"""CSINodes (storage.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/storage/csinode/strategy.go, pkg/printers/internalversion/printers.go (printCSINode)
(v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Printer, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

_LONGEST_ID = 256


def set_defaults(node: Object) -> None:
    """Set empty lists to null, as upstream encodes them."""
    spec = node["spec"]
    spec["drivers"] = spec.get("drivers") or None
    for driver in spec["drivers"] or ():
        driver.setdefault("topologyKeys", None)


def validate(node: Object) -> list[FieldError]:
    return list(_wrong_drivers(items(node["spec"], "drivers")))


def _wrong_drivers(drivers: Sequence[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, driver in enumerate(drivers):
        at, name, node = f"spec.drivers[{i}]", driver.get("name") or "", driver.get("nodeID") or ""
        yield from wrong_driver_name(name, f"{at}.name")
        if not node:
            yield required(f"{at}.nodeID")
        elif len(node) > _LONGEST_ID:
            yield invalid(f"{at}.nodeID", node, f"must be {_LONGEST_ID} characters or less")
        if driver.get("allocatable"):
            yield from not_negative(driver["allocatable"], f"{at}.allocatable", ("count",))
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                yield required(at)
            for text in label_key(key):
                yield invalid(at, key, text)
            if key in keys:
                yield duplicate(at, key)
            keys.add(key)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a CSINode.

    Drivers can be added and removed. Of an existing driver, only `allocatable` can change.
    """
    now = {driver.get("name"): driver for driver in items(new["spec"], "drivers")}
    errors = []
    for before in items(old["spec"], "drivers"):
        after = now.get(before.get("name"))
        if after is not None and {**before, "allocatable": None} != {**after, "allocatable": None}:
            fields = {"Name": "name", "NodeID": "nodeID", "TopologyKeys": "topologyKeys", "Allocatable": "allocatable"}
            shown = {name: after.get(field) for name, field in fields.items()}
            errors.append(invalid("spec.drivers", shown, IMMUTABLE))
    return errors


def cells(node: Object, now: float) -> list[Any]:
    return [name_cell(node), len(items(part(node, "spec"), "drivers")), age_cell(node, now)]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csinodes",
    kind="CSINode",
    namespaced=False,
    strategy=Strategy(
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Drivers"),
            AGE,
        ),
        cells=cells,
    ),
)
