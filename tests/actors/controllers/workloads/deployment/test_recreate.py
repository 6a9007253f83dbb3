from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.deployment.plans import Resize, old_pods_running, start_plan, stop_plan
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.deployment.objects import RECREATE, parsed_deployment, parsed_replica_set

NEW = parsed_replica_set("new", 1)
OLD = parsed_replica_set("old", 0, age=1)


@pytest.mark.parametrize(
    "phases, running",
    [
        ({}, False),
        ({"uid-of-old": []}, False),
        ({"uid-of-old": ["Failed", "Succeeded"]}, False),
        ({"uid-of-old": ["Failed", "Unknown"]}, True),
        ({"uid-of-old": ["Pending"]}, True),
        ({"uid-of-old": ["Failed"], "uid-of-older": ["Running"]}, True),
        ({"uid-of-new": ["Running"]}, False),
        ({"uid-of-new": ["Running"], "uid-of-old": ["Succeeded"]}, False),
    ],
)
def test_old_pods_run_until_they_have_terminated(phases: Object, running: bool) -> None:
    assert old_pods_running(NEW, [OLD], phases) is running


def test_all_pods_are_old_without_a_new_replica_set() -> None:
    assert old_pods_running(None, [OLD], {"uid-of-new": ["Running"]})


def test_reported_pods_of_old_replica_set_count_as_running() -> None:
    assert old_pods_running(NEW, [parsed_replica_set("old", 0, status={"replicas": 1})], {})


def test_old_replica_set_that_has_not_observed_its_size_may_create_pods() -> None:
    unseen = parsed_replica_set("old", 0, generation=2, status={"observedGeneration": 1})
    seen = parsed_replica_set("old", 0, generation=2, status={"observedGeneration": 2})
    assert old_pods_running(NEW, [unseen], {})
    assert not old_pods_running(NEW, [seen], {})


def test_old_replica_sets_are_scaled_to_zero_before_the_new_one_is_scaled_up() -> None:
    d = parsed_deployment(3, strategy=RECREATE)
    assert stop_plan([OLD, parsed_replica_set("v2", 2), parsed_replica_set("v1", 1)]) == [
        Resize("v2", 0),
        Resize("v1", 0),
    ]
    assert start_plan(d, NEW) == [Resize("new", 3)]
    assert start_plan(d, parsed_replica_set("new", 3)) == []
