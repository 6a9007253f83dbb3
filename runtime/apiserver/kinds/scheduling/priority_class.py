"""PriorityClasses (scheduling.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/v1/defaults.go,
pkg/printers/internalversion/printers.go (printPriorityClass) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.names import dns_subdomain


def set_defaults(priority_class: Object) -> None:
    priority_class.setdefault("value", 0)
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def prepare_for_create(priority_class: Object) -> None:
    """Set metadata.generation of a new PriorityClass to 1. No later change increments it."""
    priority_class["metadata"]["generation"] = 1


_HIGHEST = 1_000_000_000  # value of a class that is not a system class
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_POLICIES = ("PreemptLowerPriority", "Never")


def validate_class(priority_class: Object) -> list[FieldError]:
    name, value = priority_class["metadata"].get("name") or "", priority_class.get("value") or 0
    errors: list[FieldError] = []
    if name.startswith("system-"):
        why = "" if _SYSTEM.get(name) == value else f"value of {name} PriorityClass must be {_SYSTEM.get(name)}"
        if name not in _SYSTEM:
            why = f"{name} is not a known system priority class"
        if why:
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            errors.append(forbidden("metadata.name", detail))
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    policy = priority_class.get("preemptionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("preemptionPolicy", policy, _POLICIES))
    return errors


def validate_class_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return errors


def cells(priority: Object, now: float) -> list[Any]:
    return [
        name_cell(priority),
        priority.get("value") or 0,
        bool(priority.get("globalDefault")),
        age_cell(priority, now),
        priority.get("preemptionPolicy") or "",
    ]


RESOURCE = ResourceDefinition(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    short_names=("pc",),
    namespaced=False,
    strategy=Strategy(
        validate=validate_class,
        validate_update=validate_class_update,
        update_is_judged_whole=True,
        validate_name=dns_subdomain,
        prepare_for_create=prepare_for_create,
        set_defaults=set_defaults,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Value"),
            boolean("Global-Default"),
            AGE,
            Column("PreemptionPolicy"),
        ),
        cells=cells,
    ),
)
