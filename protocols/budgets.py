"""Condition DisruptionAllowed of PodDisruptionBudgets, for the disruption controller and the server's eviction.

Source: kubernetes v1.36 staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.conditions import find_condition, set_condition
from kcm.protocols.objects import Object, metadata

DISRUPTION_ALLOWED = "DisruptionAllowed"  # condition type
SUFFICIENT_PODS, INSUFFICIENT_PODS, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"  # reasons
ALWAYS_ALLOW = "AlwaysAllow"  # an unhealthyPodEvictionPolicy; the default is IfHealthyBudget


def with_disruption_allowed(status: Mapping[str, Any], *, now: float) -> Object:
    """Return the status with its condition DisruptionAllowed set according to disruptionsAllowed."""
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    conditions = set_condition(
        status.get("conditions"),
        DISRUPTION_ALLOWED,
        allowed,
        SUFFICIENT_PODS if allowed else INSUFFICIENT_PODS,
        now=now,
        observed_generation=status.get("observedGeneration") or None,
    )
    return {**status, "conditions": conditions}


def says_what_is_allowed(budget: Mapping[str, Any]) -> bool:
    """Report whether the condition DisruptionAllowed matches the generation and disruptionsAllowed."""
    status = budget.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_ALLOWED)
    if condition is None or (status.get("observedGeneration") or 0) != (metadata(budget).get("generation") or 0):
        return False
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    expected = ("True", SUFFICIENT_PODS) if allowed else ("False", INSUFFICIENT_PODS)
    return (condition.get("status"), condition.get("reason")) == expected
