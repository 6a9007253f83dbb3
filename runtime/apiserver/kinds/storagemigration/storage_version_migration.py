"""StorageVersionMigrations (storagemigration.k8s.io/v1beta1): validation and table columns.

Upstream serves them with --runtime-config=storagemigration.k8s.io/v1beta1 and the feature gate StorageVersionMigrator.

Source: kubernetes pkg/registry/storagemigration/storagemigration/strategy.go,
pkg/apis/storagemigration/validation/validation.go, apimachinery pkg/util/resourceversion/resourceversion.go,
pkg/printers/internalversion/printers.go (printStorageVersionMigration) (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import is_true, items, name_cell, part
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

_SHOWN = ("Running", "Succeeded", "Failed")  # conditions in the column Status
_VERSION = re.compile("[1-9][0-9]*")
# Fields of a condition in the order in which upstream encodes it in errors.
_CONDITION_FIELDS = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")


def set_defaults(migration: Object) -> None:
    """Set the fields of the resource that upstream's encoder never omits."""
    resource = migration["spec"].setdefault("resource", {})
    resource.setdefault("group", "")
    resource.setdefault("resource", "")


def validate(migration: Object) -> list[FieldError]:
    resource = migration["spec"].get("resource") or {}
    name, group = resource.get("resource") or "", resource.get("group") or ""
    errors: list[FieldError] = []
    if not name:
        errors.append(required("spec.resource.resource", "resource is required to be set"))
    elif problems := dns1035_label(name):
        errors.append(invalid("spec.resource.resource", name, ",".join(problems)))
    if group and (problems := dns_subdomain(group)):
        errors.append(invalid("spec.resource.group", group, ",".join(problems)))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    now, before = (migration["spec"].get("resource") or {} for migration in (new, old))
    fields = [(resource.get("group") or "", resource.get("resource") or "") for resource in (now, before)]
    if fields[0] == fields[1]:
        return []
    shown = {"Resource": {"group": fields[0][0], "resource": fields[0][1]}}  # in the form of the internal type
    return [invalid("spec", shown, IMMUTABLE)]


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    return [*_status_errors(new.get("status") or {}, old.get("status") or {})]


def _status_errors(status: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldError]:
    version, former = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    if version and not _VERSION.fullmatch(version):
        yield invalid("status.resourceVersion", version, f"resource version is not well formed: {version}")
    yield from validate_conditions(status.get("conditions"), "status.conditions")
    if former and former != version:
        yield invalid("status.resourceVersion", version, IMMUTABLE)
    shown = [
        {name: condition[name] for name in _CONDITION_FIELDS if name in condition}
        for condition in items(status, "conditions")
    ]
    if is_true(status, "Succeeded") and is_true(status, "Failed"):
        text = "Both success and failed conditions cannot be true at the same time"
        yield invalid("status.conditions", shown, text)
    for name, word in (("Succeeded", "Success"), ("Failed", "Failed")):
        if is_true(before, name) and not is_true(status, name):
            text = f"{word} condition cannot be set to false once it is true"
            yield invalid("status.conditions", shown or None, text)


def cells(migration: Object, _now: float) -> list[Any]:
    resource = part(migration, "spec", "resource")
    name, group = resource.get("resource") or "", resource.get("group") or ""
    state = "Unknown"
    for condition in items(part(migration, "status"), "conditions"):
        if condition.get("status") == "True" and condition.get("type") in _SHOWN:
            state = condition["type"]
    return [name_cell(migration), f"{name}.{group}" if group else name, state]


RESOURCE = ResourceDefinition(
    group="storagemigration.k8s.io",
    version="v1beta1",
    plural="storageversionmigrations",
    kind="StorageVersionMigration",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        allow_unconditional_update=False,
        validate_update=validate_update,
        has_status=True,
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Resource", description="GroupResource to migrate"),
            Column("Status", description="Status of the migration"),
        ),
        cells=cells,
    ),
)
