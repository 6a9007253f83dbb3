from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.objects import ReplicaSet
from kcm.actors.controllers.workloads.deployment.status import calculated_status, replica_failure, same_status
from kcm.actors.simulation.driver import NOW
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.deployment.objects import RECREATE, parsed_deployment, parsed_replica_set


def reporting(
    name: str,
    replicas: int,
    *,
    reported: int = 0,
    ready: int = 0,
    available: int = 0,
    terminating: int | None = None,
    observed: int = 1,
    **more: Any,
) -> ReplicaSet:
    status = {
        "replicas": reported,
        "readyReplicas": ready,
        "availableReplicas": available,
        "observedGeneration": observed,
        **more,
    }
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    return parsed_replica_set(name, replicas, status=status)


def test_counts_are_sums_and_updated_counts_the_new_replica_set() -> None:
    d = parsed_deployment(10, meta={"generation": 4}, status={"collisionCount": 2, "readyReplicas": 99, "unheardOf": 1})
    new = reporting("v2", 4, reported=3, ready=2, available=1, terminating=1)
    old = [reporting("v1", 7, reported=6, ready=5, available=4, terminating=2)]
    status = calculated_status(d, new, old, now=NOW)
    del status["conditions"]
    assert status == {
        "observedGeneration": 4,
        "replicas": 9,
        "updatedReplicas": 3,
        "readyReplicas": 7,
        "availableReplicas": 5,
        "unavailableReplicas": 6,
        "terminatingReplicas": 3,
        "collisionCount": 2,
        "unheardOf": 1,
    }


def test_unavailable_count_is_never_negative() -> None:
    status = calculated_status(parsed_deployment(1), reporting("v1", 1, reported=3, ready=3, available=3), [], now=NOW)
    assert "unavailableReplicas" not in status


@pytest.mark.parametrize(
    "sets, terminating",
    [
        ([], 0),
        ([reporting("v1", 1, terminating=2), reporting("v2", 1, terminating=0)], 2),
        ([reporting("v1", 1, terminating=2), reporting("v2", 1, observed=0)], 2),  # not observed yet
        (
            [reporting("v1", 1, terminating=2), reporting("v2", 1)],
            None,
        ),  # observed by a controller that does not count them
    ],
)
def test_terminating_pods_are_reported_only_if_all_are_known(
    sets: Sequence[ReplicaSet], terminating: int | None
) -> None:
    before = parsed_deployment(status={"terminatingReplicas": 7})
    assert calculated_status(before, None, sets, now=NOW).get("terminatingReplicas") == terminating


@pytest.mark.parametrize(
    "changes, available, status",
    [
        ({}, 10, "True"),
        ({}, 9, "True"),  # both limits are 0, so one pod may be unavailable
        ({}, 8, "False"),
        ({"max_unavailable": "25%"}, 8, "True"),
        ({"max_unavailable": "25%"}, 7, "False"),
        ({"strategy": RECREATE}, 9, "False"),
        ({"replicas": 0}, 0, "True"),
    ],
)
def test_available_condition_respects_max_unavailable(changes: Object, available: int, status: str) -> None:
    d = parsed_deployment(**{"replicas": 10, **changes})
    conditions = calculated_status(d, reporting("v1", 10, available=available), [], now=NOW)["conditions"]
    reason, message = {
        "True": ("MinimumReplicasAvailable", "Deployment has minimum availability."),
        "False": ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    }[status]
    assert len(conditions) == 1
    assert {**conditions[0], "status": status, "reason": reason, "message": message} == conditions[0]


def test_recalculated_status_is_unchanged() -> None:
    first = calculated_status(parsed_deployment(3), None, [], now=NOW)
    again = calculated_status(parsed_deployment(3, status=first), None, [], now=NOW + 60)
    assert again == first
    assert same_status(again, first)


@pytest.mark.parametrize(
    "first, second, same",
    [
        ({"replicas": 0, "conditions": []}, {}, True),
        ({"replicas": 1}, {}, False),
        ({"terminatingReplicas": 0}, {}, False),
        ({"collisionCount": 0}, {}, False),
        ({"collisionCount": None}, {}, True),
        ({"conditions": [{"type": "A"}]}, {"conditions": [{"type": "B"}]}, False),
    ],
)
def test_counts_of_0_equal_missing_counts_except_where_0_is_meaningful(
    first: Object, second: Object, same: bool
) -> None:
    assert same_status(first, second) is same


def failing(name: str, message: str) -> ReplicaSet:
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    return parsed_replica_set(name, status={"conditions": [{"type": "Other"}, condition]})


def test_failure_of_the_new_replica_set_precedes_those_of_old_ones() -> None:
    old = [parsed_replica_set("v0"), failing("v1", "one"), failing("v2", "two")]
    assert replica_failure(failing("v3", "three"), old)["message"] == "three"
    assert replica_failure(parsed_replica_set("v3"), old)["message"] == "one"
    assert replica_failure(None, old)["message"] == "one"
    assert replica_failure(None, []) is None
    assert find_condition([replica_failure(None, old)], "ReplicaFailure")["reason"] == "FailedCreate"
