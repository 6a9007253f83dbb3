"""Messages of the events that the disruption controller records.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.shared.selector_texts import selector_in_go

NO_PODS, CALCULATION_FAILED = "NoPods", "CalculateExpectedPodCountFailed"  # reasons


def unmanaged_pods(selector: Mapping[str, Any] | None) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {selector_in_go(selector)}) were found to be unmanaged. "
        "As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To "
        'account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def cannot_count(reason: str, error: str) -> str:
    what = "get pods" if reason == NO_PODS else "calculate the number of expected pods"
    return f"Failed to {what}: {error}"


def multiple_budgets(namespace: str, name: str, chosen: str) -> str:
    return f'Pod "{namespace}"/"{name}" matches multiple PodDisruptionBudgets.  Chose "{chosen}" arbitrarily.'


def not_deleted(budget: str) -> str:
    """Return the message of the event NotDeleted, for an evicted pod that was not deleted in time.

    budget: "namespace/name" of the PodDisruptionBudget; upstream's message contains the namespace twice.
    """
    return f"Pod was expected by PDB {budget} to be deleted but it wasn't"
