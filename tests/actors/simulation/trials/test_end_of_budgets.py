"""Settled states and end states of PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.workloads.disruption import TRIAL
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.protocols.times import format_time
from tests.support.objects import owned_by, pod


@pytest.mark.parametrize(
    ("spec", "compared"),
    [
        ({"minAvailable": 2}, {"desiredHealthy": 2}),
        ({"minAvailable": "50%"}, {"desiredHealthy": 2, "expectedPods": 4}),
        ({"maxUnavailable": 2}, {"desiredHealthy": 2, "expectedPods": 4}),
        ({"minAvailable": "50%", "selector": {}}, {}),
        ({"minAvailable": 2, "selector": {}}, {"desiredHealthy": 2}),
    ],
)
def test_budgets_are_compared_by_what_they_want(spec: dict[str, Any], compared: dict[str, int]) -> None:
    """False alarm: it depended on timing whether a terminated pod still existed, or was ready on a failed node.

    Seed 91127112600808: whether a pod of a Job, which has no scale, still existed for a budget of all pods.
    """
    cluster = SimulatedCluster()
    budget = {"metadata": {"name": "budget"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    status = {"desiredHealthy": 2, "expectedPods": 4, "currentHealthy": 5, "disruptionsAllowed": 3}
    cluster.create(POD_DISRUPTION_BUDGETS, budget)
    cluster.merge(POD_DISRUPTION_BUDGETS, "default/budget", {"status": status}, subresource="status")
    assert TRIAL.end_state(cluster) == {"PodDisruptionBudget budget": compared}


@pytest.mark.parametrize("terminating", [False, True])
def test_deleted_owner_of_a_terminating_pod_may_be_unseen(*, terminating: bool) -> None:
    """False alarm: the owner of the last pod on a silent node was deleted, which causes no event of pod or budget."""
    cluster = SimulatedCluster(collect_garbage=False)
    budget = {"metadata": {"name": "budget"}, "spec": {"selector": {}, "minAvailable": "50%"}}
    cluster.create(POD_DISRUPTION_BUDGETS, budget)
    cluster.merge(POD_DISRUPTION_BUDGETS, "default/budget", {"status": {"disruptionsAllowed": 1}}, subresource="status")
    cluster.create(PODS, pod("p1", node="n1", owner=owned_by("uid-of-one-that-is-gone")))
    if terminating:
        cluster.delete(PODS, "default/p1")
    assert (list(TRIAL.unsettled(cluster)) == []) is terminating


def test_disruption_target_that_is_not_deleted_is_unsettled() -> None:
    """False alarm: an eviction was cancelled, and its condition was removed two minutes later."""
    cluster = SimulatedCluster()
    cluster.create(PODS, pod("p1"))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.merge(PODS, "default/p1", {"status": {"conditions": [condition]}}, subresource="status")
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 has the condition DisruptionTarget, but is not terminating"]
    cluster.delete(PODS, "default/p1")
    assert list(TRIAL.unsettled(cluster)) == []


def test_disruption_target_in_the_future_is_ignored() -> None:
    """False alarm, seed 15001210: the time of the condition was an hour ahead, so that it stays for another hour."""
    cluster = SimulatedCluster()
    cluster.create(PODS, pod("p1"))
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    since = format_time(cluster.clock.now() + 3600)
    conditions = [{**condition, "lastTransitionTime": since}]
    cluster.merge(PODS, "default/p1", {"status": {"conditions": conditions}}, subresource="status")
    assert list(TRIAL.unsettled(cluster)) == []
    cluster.run_for(3601.0)
    assert list(TRIAL.unsettled(cluster)) == ["pod p1 has the condition DisruptionTarget, but is not terminating"]


def test_a_budget_that_cannot_be_counted_is_compared_by_nothing_else() -> None:
    """False alarm: a budget selected a pod of a DaemonSet, which has no scale, and so kept its earlier counts."""
    cluster = SimulatedCluster()
    cluster.create(
        POD_DISRUPTION_BUDGETS, {"metadata": {"name": "budget"}, "spec": {"selector": {}, "minAvailable": 2}}
    )
    failed = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": ""}
    condition = {**failed, "lastTransitionTime": format_time(cluster.clock.now())}
    status = {"desiredHealthy": 15, "expectedPods": 15, "conditions": [condition]}
    cluster.merge(POD_DISRUPTION_BUDGETS, "default/budget", {"status": status}, subresource="status")
    assert TRIAL.end_state(cluster) == {"PodDisruptionBudget budget": {"reason": "SyncFailed"}}
