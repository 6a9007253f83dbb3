"""Deployments (apps/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/apps/deployment/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printDeployment) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    HISTORY_LIMIT,
    ROLLING_UPDATE,
    TEMPLATE_COLUMNS,
    count,
    spec_with_template,
    template_cells,
    validate_collisions,
    validate_selected_template,
    validate_selector_update,
    validate_within_replicas,
    warn_of_template,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import at_most_all, int_or_percent, not_negative, number_of


def set_defaults(deployment: Object) -> None:
    spec = spec_with_template(deployment)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)
    spec.setdefault("progressDeadlineSeconds", 600)


def validate(deployment: Object) -> list[FieldError]:
    spec = deployment["spec"]
    errors = not_negative(spec, "spec", ("replicas",))
    errors += validate_selected_template(spec, owner="ReplicaSet", empty="deployment")
    errors += _validate_strategy(spec["strategy"])
    errors += not_negative(spec, "spec", ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"))
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _validate_strategy(strategy: Object) -> list[FieldError]:
    field = "spec.strategy"
    if strategy["type"] == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{field}.rollingUpdate", detail)] if "rollingUpdate" in strategy else []
    if strategy["type"] != "RollingUpdate":
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}  # upstream's internal type
        return [not_supported(field, shown, ("Recreate", "RollingUpdate"))]
    rolling = strategy["rollingUpdate"]
    field += ".rollingUpdate"
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = int_or_percent(unavailable, f"{field}.maxUnavailable") + int_or_percent(surge, f"{field}.maxSurge")
    if number_of(unavailable) == 0 and number_of(surge) == 0:
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, f"{field}.maxUnavailable")


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastTransitionTime", "lastUpdateTime")


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counts = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    )
    errors = not_negative(status, "status", counts)
    errors += validate_within_replicas(status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return errors + validate_collisions(new, old)


def cells(obj: Object, now: float) -> list[Any]:
    try:
        selector = str(label_selector_of(part(obj, "spec", "selector")))
    except ValueError:
        selector = "<invalid>"
    return [
        name_cell(obj),
        f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}",
        count(obj, "status", "updatedReplicas"),
        count(obj, "status", "availableReplicas"),
        age_cell(obj, now),
        *template_cells(obj),
        selector,
    ]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="deployments",
    kind="Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        annotations_bump_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_selector_update,
        warn=warn_of_template,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        status_update_keeps=("labels",),
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Ready"),
            Column("Up-to-date"),
            Column("Available"),
            AGE,
            *TEMPLATE_COLUMNS,
        ),
        cells=cells,
    ),
)
