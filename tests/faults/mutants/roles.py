"""Mutants of the controller of aggregated ClusterRoles."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.identity import clusterrole_aggregation
from kcm.actors.reconciliation import apply
from kcm.actors.simulation.campaign.domain_settings import ROLES_SETTING
from tests.faults.mutants.bootstrap import late
from tests.faults.mutants.mutant import Mutant


def applied(**changes: Any) -> Any:
    """Apply wrong fields. changes: functions that change the correct fields."""

    def lax(resource: Any, obj: Any, **options: Any) -> Any:
        body = {**obj, **{field: change(obj[field]) for field, change in changes.items()}}
        return apply(resource, {field: value for field, value in body.items() if value}, **options)

    return patch.object(clusterrole_aggregation, "apply", lax)


def applied_by_name() -> Any:
    return applied(metadata=lambda meta: {"name": meta["name"]})


def nothing_takes_nothing_away() -> Any:
    return applied(rules=lambda rules: rules)


ROLES = (
    Mutant(
        name="rules are applied by name",
        source="kubernetes v1.36 clusterroleaggregation_controller.go: a ClusterRole that is gone is made again",
        mutation=applied_by_name,
        setting=replace(ROLES_SETTING, draw=late("clusterroles")),
    ),
    Mutant(
        name="where nothing is selected, rules stay",
        source="kubernetes v1.36 clusterroleaggregation_controller.go: an apply without rules leaves those of others",
        mutation=nothing_takes_nothing_away,
        setting=ROLES_SETTING,
    ),
)
