"""DaemonSets (apps/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printDaemonSet) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_template
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    HISTORY_LIMIT,
    ROLLING_UPDATE,
    TEMPLATE,
    TEMPLATE_COLUMNS,
    count,
    spec_with_template,
    template_cells,
    validate_collisions,
    validate_selected_template,
    validate_selector_update,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from kcm.runtime.apiserver.registry.strategy import Allocating, Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, label_cell, name_cell, part, selector_cell
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import at_most_all, int_or_percent, not_negative, number_of

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Annotation with the number of changes of the pod template, which only the server may change."""


def set_defaults(daemonset: Object) -> None:
    spec = spec_with_template(daemonset)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)


def prepare_for_create(daemonset: Object) -> None:
    given = (daemonset["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "")
    _set_template_generation(daemonset, max(int(given), 1) if given.isdecimal() else 1)


def prepare_for_update(_among: Allocating, new: Object, old: Object) -> None:
    generation = _template_generation(old)
    _set_template_generation(new, generation + (new["spec"]["template"] != old["spec"]["template"]))


def prepare_for_status_update(new: Object, old: Object) -> None:
    _set_template_generation(new, _template_generation(old))
    fill_times(new, "lastTransitionTime")


def _template_generation(daemonset: Object) -> int:
    return int((daemonset["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0"))


def _set_template_generation(daemonset: Object, generation: int) -> None:
    meta = daemonset["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), TEMPLATE_GENERATION: str(generation)}


def validate(daemonset: Object) -> list[FieldError]:
    spec = daemonset["spec"]
    errors = validate_selected_template(spec, owner="DaemonSet", empty="daemonset")
    errors += not_negative(spec, "spec", ("minReadySeconds",))
    errors += _validate_strategy(spec["updateStrategy"], "spec.updateStrategy")
    return errors + not_negative(spec, "spec", ("revisionHistoryLimit",))


def _validate_strategy(strategy: Object, field: str) -> list[FieldError]:
    """Validate updateStrategy. Exactly one of maxUnavailable and maxSurge must be non-zero."""
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != ROLLING_UPDATE:
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}  # upstream's internal type
        return [not_supported(field, shown, (ROLLING_UPDATE, "OnDelete"))]
    given = {name: strategy["rollingUpdate"][name] for name in ("maxUnavailable", "maxSurge")}
    field += ".rollingUpdate"
    errors: list[FieldError] = []
    for check in (int_or_percent, at_most_all):
        for name, value in given.items():
            errors += check(value, f"{field}.{name}")
    moving = [name for name, value in given.items() if number_of(value) != 0]
    if len(moving) == len(given):
        errors.append(invalid(f"{field}.maxSurge", given["maxSurge"], "may not be set when maxUnavailable is non-zero"))
    elif not moving:
        errors.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    counts = (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    )
    return not_negative(new.get("status") or {}, "status", counts) + validate_collisions(new, old)


def warn(new: Object, old: Object | None) -> Iterable[str]:
    template = new["spec"]["template"]
    is_other = old is None or template != old["spec"]["template"]
    return warnings_of_template(template, TEMPLATE) if is_other else ()


def cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        count(obj, "status", "desiredNumberScheduled"),
        count(obj, "status", "currentNumberScheduled"),
        count(obj, "status", "numberReady"),
        count(obj, "status", "updatedNumberScheduled"),
        count(obj, "status", "numberAvailable"),
        label_cell(part(obj, "spec", "template", "spec", "nodeSelector")),
        age_cell(obj, now),
        *template_cells(obj),
        selector_cell(part(obj, "spec").get("selector")),
    ]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="daemonsets",
    kind="DaemonSet",
    short_names=("ds",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        reallocate=prepare_for_update,
        prepare_for_status_update=prepare_for_status_update,
        validate=validate,
        validate_update=validate_selector_update,
        warn=warn,
        has_status=True,
        empty_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            number("Desired"),
            number("Current"),
            number("Ready"),
            number("Up-to-date"),
            number("Available"),
            Column("Node Selector"),
            AGE,
            *TEMPLATE_COLUMNS,
        ),
        cells=cells,
    ),
)
