"""DaemonSets.

Source: kubernetes pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printDaemonSet) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError
from runtime.apiserver.kinds.shared.cells import age_cell, label_cell, name_cell, part, selector_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.numbers import not_negative
from runtime.apiserver.kinds.shared.workloads import (
    HISTORY_LIMIT,
    ROLLING_UPDATE,
    TEMPLATE_COLUMNS,
    count,
    spec_with_template,
    template_cells,
    validate_selected_template,
    validate_selector_update,
)
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from runtime.apiserver.registry.strategy import Strategy


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


def validate(daemonset: Object) -> list[FieldError]:
    spec = daemonset["spec"]
    errors = validate_selected_template(spec, owner="DaemonSet", empty="daemonset")
    return errors + not_negative(spec, "spec", ("minReadySeconds", "revisionHistoryLimit"))


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
        validate=validate,
        validate_update=validate_selector_update,
        has_status=True,
        empty_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
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
