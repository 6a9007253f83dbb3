"""Counts of PodDisruptionBudgets as functions of bounds and pods."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.shared.selector_texts import selector_in_go
from kcm.actors.controllers.workloads.disruption.pod_counts import (
    PodRequirement,
    fail_safe_status,
    is_healthy,
    next_status,
    pod_requirement,
    recent_evictions,
)
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.disruption.scene import NOW, Scene, a_pod


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "requirement"),
    [
        # minAvailable as a number: of the existing pods, with any owner.
        ({"minAvailable": 3}, 0, 0, PodRequirement(0, 3)),
        ({"minAvailable": 3}, 1, 7, PodRequirement(1, 3)),
        ({"minAvailable": 0}, 4, 0, PodRequirement(4, 0)),
        # Percentages and maxUnavailable: of the replicas of the controllers, rounded up.
        ({"minAvailable": "20%"}, 10, 10, PodRequirement(10, 2)),
        ({"minAvailable": "34%"}, 3, 3, PodRequirement(3, 2)),
        ({"minAvailable": "28%"}, 11, 11, PodRequirement(11, 4)),
        ({"minAvailable": "28%"}, 22, 22, PodRequirement(22, 7)),
        ({"minAvailable": "1%"}, 2, 1, PodRequirement(1, 1)),
        ({"minAvailable": "100%"}, 3, 3, PodRequirement(3, 3)),
        ({"minAvailable": "0%"}, 3, 3, PodRequirement(3, 0)),
        ({"maxUnavailable": 2}, 1, 7, PodRequirement(7, 5)),
        ({"maxUnavailable": 5}, 1, 3, PodRequirement(3, 0)),
        ({"maxUnavailable": "30%"}, 1, 7, PodRequirement(7, 4)),
        ({"maxUnavailable": "30%"}, 1, 3, PodRequirement(3, 2)),
        ({"maxUnavailable": "0%"}, 1, 3, PodRequirement(3, 3)),
        # maxUnavailable goes before; without both nothing is expected.
        ({"maxUnavailable": 1, "minAvailable": 1}, 9, 4, PodRequirement(4, 3)),
        ({}, 4, 4, PodRequirement(0, 0)),
    ],
)
def test_need_follows_from_the_bound(spec: Object, pods: int, scale: int, requirement: PodRequirement) -> None:
    assert pod_requirement(spec, pods=pods, scale=scale) == requirement


@pytest.mark.parametrize("bound", ["10", "1.5%", "all", True, [3], 1.5])
def test_invalid_bound_is_rejected(bound: object) -> None:
    for field in ("minAvailable", "maxUnavailable"):
        with pytest.raises(ValueError, match="IntOrString"):
            pod_requirement({field: bound}, pods=3, scale=3)


def test_evicted_pods_are_awaited_until_deleted_or_stale() -> None:
    """Upstream's TestUpdateDisruptedPods: one is being deleted, one has stayed too long, one is fresh, one is gone."""
    pods = [a_pod("p1", deletionTimestamp=format_time(NOW)), a_pod("p2"), a_pod("p3"), a_pod("p4")]
    entries = Scene(pods=pods).tables[PODS].entries("default")
    then = {"p1": NOW, "p2": NOW - 180, "p3": NOW - 60, "gone": NOW, "p5": NOW - 1}
    found = recent_evictions(then, entries, now=NOW)
    assert found.fresh == {"p3"}
    assert [pod.key for pod in found.overdue] == ["default/p2"]
    assert found.recheck == 60
    assert sorted(pod.key for pod in entries if is_healthy(pod, found)) == ["default/p2", "default/p4"]


def test_eviction_is_awaited_for_two_minutes() -> None:
    entries = Scene(pods=[a_pod("p")]).tables[PODS].entries("default")
    awaited = recent_evictions({"p": NOW}, entries, now=NOW + 119.5)
    assert (awaited.fresh, awaited.recheck) == ({"p"}, 0.5)
    over = recent_evictions({"p": NOW}, entries, now=NOW + 120)  # when it is looked at again
    assert (over.fresh, over.recheck) == (frozenset(), None)


def budget(**status: object) -> Object:
    return {"metadata": {"name": "b", "generation": 2}, "status": status}


@pytest.mark.parametrize(
    ("current", "requirement", "allowed"),
    [
        (4, PodRequirement(4, 3), 1),
        (3, PodRequirement(4, 3), 0),
        (1, PodRequirement(4, 3), 0),
        (4, PodRequirement(0, 0), 0),
        (5, PodRequirement(3, 1), 4),
    ],
)
def test_allowed_disruptions_follow_from_the_counts(current: int, requirement: PodRequirement, allowed: int) -> None:
    status = next_status(budget(), requirement, current=current, disrupted={}, now=NOW)
    assert status is not None
    assert status["disruptionsAllowed"] == allowed
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == (
        ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    )
    assert condition["observedGeneration"] == status["observedGeneration"] == 2


def test_unchanged_status_is_not_written() -> None:
    requirement = PodRequirement(4, 3)
    status = next_status(budget(), requirement, current=4, disrupted={}, now=NOW)
    assert status is not None
    assert next_status(budget(**status), requirement, current=4, disrupted={}, now=NOW + 60) is None
    noted = {"p": format_time(NOW)}
    assert next_status(budget(**status), requirement, current=4, disrupted=noted, now=NOW) == {
        **status,
        "disruptedPods": noted,
    }
    for other in ({"observedGeneration": 1}, {"conditions": []}, {"currentHealthy": 5}):
        assert next_status(budget(**{**status, **other}), requirement, current=4, disrupted={}, now=NOW) is not None


def test_foreign_conditions_are_kept_and_transition_time_follows_the_status() -> None:
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t"}
    first = next_status(budget(conditions=[theirs]), PodRequirement(4, 3), current=4, disrupted={}, now=NOW)
    assert first is not None
    assert first["conditions"][0] == theirs
    more = next_status(budget(**first), PodRequirement(4, 3), current=5, disrupted={}, now=NOW + 60)
    assert more is not None
    assert more["conditions"] == first["conditions"]


def test_fail_safe_status_allows_nothing() -> None:
    before = {"disruptionsAllowed": 2, "currentHealthy": 5, "desiredHealthy": 3, "observedGeneration": 1}
    status = fail_safe_status(budget(**before), "why", now=NOW)
    assert status is not None
    assert status["disruptionsAllowed"] == 0
    assert {name: status[name] for name in ("currentHealthy", "observedGeneration")} == {
        "currentHealthy": 5,
        "observedGeneration": 1,
    }
    (condition,) = status["conditions"]
    assert (condition["reason"], condition["message"], condition["observedGeneration"]) == ("SyncFailed", "why", 1)
    assert fail_safe_status(budget(**status), "why", now=NOW + 60) is None


EXPRESSIONS = "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},}"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "nil"),
        ({}, "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"),
        (
            {
                "matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}],
            },
            f"&LabelSelector{{MatchLabels:map[string]string{{a: 1,b: 2,}},MatchExpressions:{EXPRESSIONS},}}",
        ),
    ],
)
def test_selector_is_formatted_as_in_go(selector: Object | None, text: str) -> None:
    assert selector_in_go(selector) == text
