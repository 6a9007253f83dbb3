"""What PodDisruptionBudgets at the end of a run are compared by."""

from __future__ import annotations

from typing import Any

import pytest

from actors.simulation import SimulatedCluster
from actors.simulation.trials.workloads.disruption import TRIAL
from protocols.resources import POD_DISRUPTION_BUDGETS


@pytest.mark.parametrize(
    ("spec", "compared"),
    [
        ({"minAvailable": 2}, {"desiredHealthy": 2}),
        ({"minAvailable": "50%"}, {"desiredHealthy": 2, "expectedPods": 4}),
        ({"maxUnavailable": 2}, {"desiredHealthy": 2, "expectedPods": 4}),
    ],
)
def test_budgets_are_compared_by_what_they_want(spec: dict[str, Any], compared: dict[str, int]) -> None:
    """A false alarm: a bare pod that had ended was there still, or one that failed with its node was ready."""
    cluster = SimulatedCluster()
    budget = {"metadata": {"name": "budget"}, "spec": {"selector": {}, **spec}}
    status = {"desiredHealthy": 2, "expectedPods": 4, "currentHealthy": 5, "disruptionsAllowed": 3}
    cluster.create(POD_DISRUPTION_BUDGETS, budget)
    cluster.merge(POD_DISRUPTION_BUDGETS, "default/budget", {"status": status}, subresource="status")
    assert TRIAL.end_state(cluster) == {"PodDisruptionBudget budget": compared}
