"""PodDisruptionBudgets (policy/v1): validation and table columns.

Source: kubernetes pkg/registry/policy/poddisruptionbudget/strategy.go, pkg/apis/policy/validation/validation.go,
pkg/printers/internalversion/printers.go (printPodDisruptionBudget) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part
from kcm.runtime.apiserver.rules.conditions import validate_conditions
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import at_most_all, int_or_percent, not_negative
from kcm.runtime.apiserver.rules.selectors import validate_selector

_BOUNDS = ("minAvailable", "maxUnavailable")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate(budget: Object) -> list[FieldError]:
    spec = part(budget, "spec")
    errors = []
    if all(spec.get(bound) is not None for bound in _BOUNDS):
        shown = {  # upstream's internal type
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for bound in _BOUNDS:
        if spec.get(bound) is not None:
            errors += int_or_percent(spec[bound], f"spec.{bound}") + at_most_all(spec[bound], f"spec.{bound}")
    errors += validate_selector(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return errors


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    status = part(new, "status")
    return validate_conditions(status.get("conditions"), "status.conditions") + not_negative(
        dict(status), "status", _COUNTS
    )


def cells(budget: Object, now: float) -> list[Any]:
    spec = part(budget, "spec")
    bounds = ["N/A" if spec.get(what) is None else str(spec[what]) for what in _BOUNDS]
    return [name_cell(budget), *bounds, part(budget, "status").get("disruptionsAllowed") or 0, age_cell(budget, now)]


RESOURCE = ResourceDefinition(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        allow_unconditional_update=False,
        validate=validate,
        has_status=True,
        empty_status=dict.fromkeys(_COUNTS, 0),
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Min Available"),
            Column("Max Unavailable"),
            number("Allowed Disruptions"),
            AGE,
        ),
        cells=cells,
    ),
)
