from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from kcm.actors.controllers.shared.deletion_order import (
    deletion_age_ratios,
    deletion_order,
    ranked_deletion_order,
    related_on_nodes,
)
from kcm.actors.simulation.driver import NOW, Bench
from kcm.protocols.objects import Object
from kcm.protocols.pods import DELETION_COST_ANNOTATION
from kcm.protocols.resources import PODS
from kcm.runtime.tables.entry import Entry
from tests.support.objects import running_pod

HOUR = 3600.0
UNASSIGNED = {"node": "", "phase": "Pending", "ready": False}


def with_restarts(count: int, sidecar: int | None = None, **options: float) -> Object:
    made = running_pod("p", **options)
    made["status"]["containerStatuses"] = [{"name": "c", "restartCount": count}]
    if sidecar is not None:
        made["spec"]["initContainers"] = [{"name": "s", "restartPolicy": "Always"}]
        made["status"]["initContainerStatuses"] = [{"name": "s", "restartCount": sidecar}]
    return made


def entries_of(pods: Sequence[Object]) -> list[Entry]:
    """Return table entries of pods under different names, with the uids "u00", "u01", … unless they have uids."""
    for i, each in enumerate(pods):
        each["metadata"].setdefault("uid", f"u{i:02}")
        each["metadata"]["name"] = f"p{i:02}"
    lister = Bench({PODS: pods}).tables[PODS]
    return [lister.entry(f"default/p{i:02}") for i in range(len(pods))]


IN_ORDER = [
    running_pod("p", phase="Pending", node="", ready=False),
    running_pod("p", phase="Pending", ready=False),
    running_pod("p", phase="Unknown", ready=False),
    running_pod("p", ready=False),
    running_pod("p", ready_since=None, created=NOW),
    running_pod("p", ready_since=NOW, created=NOW),
    with_restarts(200, ready_since=NOW - HOUR),
    with_restarts(100, ready_since=NOW - HOUR),
    with_restarts(10, sidecar=10, ready_since=NOW - HOUR),
    with_restarts(10, sidecar=5, ready_since=NOW - HOUR),
    running_pod("p", ready_since=NOW - HOUR, created=None),
    running_pod("p", ready_since=NOW - HOUR, created=NOW - 2 * HOUR),
    running_pod("p", ready_since=NOW - HOUR, created=NOW - 3 * HOUR),
]


def test_deletion_order_of_any_two_pods() -> None:
    entries = entries_of(IN_ORDER)
    for first, second in itertools.combinations(entries, 2):
        assert deletion_order([second, first]) == [first, second]


# name → (first pod, its rank, second pod, its rank); the first one has the greater uid, so that ties are detected
RANKED = {
    "an unassigned pod before a pending one of higher rank": (
        running_pod("p", **UNASSIGNED),
        1,
        running_pod("p", phase="Pending", ready=False),
        2,
    ),
    "a ready one of higher rank before one whose ready time is unknown": (
        running_pod("p", ready_since=NOW),
        2,
        running_pod("p", ready_since=None),
        1,
    ),
    "a higher rank before more restarts": (running_pod("p"), 2, with_restarts(200), 1),
    "an unknown ready time before a known one": (
        running_pod("p", ready_since=None),
        1,
        running_pod("p", ready_since=NOW),
        1,
    ),
    "a lower deletion cost before a higher rank": (
        running_pod("p", metadata={"annotations": {DELETION_COST_ANNOTATION: "10"}}),
        1,
        running_pod("p", metadata={"annotations": {DELETION_COST_ANNOTATION: "100"}}),
        2,
    ),
    "a negative deletion cost before none": (
        running_pod("p", metadata={"annotations": {DELETION_COST_ANNOTATION: "-1"}}),
        1,
        running_pod("p"),
        2,
    ),
    "a pod that is not ready before a low deletion cost": (
        running_pod("p", ready=False),
        1,
        running_pod("p", metadata={"annotations": {DELETION_COST_ANNOTATION: "-100"}}),
        1,
    ),
    "a pod ready for 2 h before one ready for 5 h": (
        running_pod("p", ready_since=NOW - 2 * HOUR),
        1,
        running_pod("p", ready_since=NOW - 5 * HOUR),
        1,
    ),
    "more restarts before fewer": (with_restarts(3), 1, with_restarts(2), 1),
    "more sidecar restarts before fewer, if the others are equal": (
        with_restarts(3, sidecar=4),
        1,
        with_restarts(3, sidecar=3),
        1,
    ),
    "more restarts before more sidecar restarts": (with_restarts(3, sidecar=0), 1, with_restarts(2, sidecar=9), 1),
    "an unassigned pod of 2 h before one of 5 h": (
        running_pod("p", **UNASSIGNED, created=NOW - 2 * HOUR),
        1,
        running_pod("p", **UNASSIGNED, created=NOW - 5 * HOUR),
        1,
    ),
    "an unknown creation time before a known one": (
        running_pod("p", created=None),
        1,
        running_pod("p", created=NOW),
        1,
    ),
}


@pytest.mark.parametrize(("first", "rank", "second", "other_rank"), RANKED.values(), ids=RANKED)
def test_the_ranked_deletion_order(first: Object, rank: int, second: Object, other_rank: int) -> None:
    first["metadata"]["uid"], second["metadata"]["uid"] = "z", "a"
    for i, (each, its_rank) in enumerate([(first, rank), (second, other_rank)]):
        if each["spec"].get("nodeName"):
            each["spec"]["nodeName"] = f"n{i}-{its_rank}"
    on_node = {"n0-1": 1, "n0-2": 2, "n1-1": 1, "n1-2": 2, "": 1}
    earlier, later = entries_of([first, second])
    assert ranked_deletion_order([later, earlier], on_node=on_node, now=NOW) == [earlier, later]
    assert ranked_deletion_order([earlier, later], on_node=on_node, now=NOW) == [earlier, later]


SAME_BUCKET = [
    (running_pod("p", ready_since=NOW - 5 * HOUR), running_pod("p", ready_since=NOW - 8 * HOUR)),
    (running_pod("p", **UNASSIGNED, created=NOW - 5 * HOUR), running_pod("p", **UNASSIGNED, created=NOW - 8 * HOUR)),
]


@pytest.mark.parametrize(("younger", "older"), SAME_BUCKET, ids=["ready", "created"])
@pytest.mark.parametrize(("uid", "other_uid"), [("a", "b"), ("b", "a")])
def test_ages_of_equal_magnitude_are_ordered_by_uid(younger: Object, older: Object, uid: str, other_uid: str) -> None:
    younger["metadata"]["uid"], older["metadata"]["uid"] = uid, other_uid
    entries = entries_of([younger, older])
    assert [pod.uid for pod in ranked_deletion_order(entries, on_node={}, now=NOW)] == ["a", "b"]
    assert [pod.uid for pod in ranked_deletion_order(entries[::-1], on_node={}, now=NOW)] == ["a", "b"]


def test_different_ready_times_of_one_magnitude_end_the_comparison() -> None:
    younger, older = with_restarts(0, ready_since=NOW - 5 * HOUR), with_restarts(9, ready_since=NOW - 8 * HOUR)
    younger["metadata"]["uid"], older["metadata"]["uid"] = "a", "b"
    entries = entries_of([older, younger])
    assert [pod.uid for pod in ranked_deletion_order(entries, on_node={}, now=NOW)] == ["a", "b"]


def test_equal_pods_keep_their_order() -> None:
    entries = entries_of([running_pod("p", metadata={"uid": uid}) for uid in "bca"])
    assert ranked_deletion_order(entries, on_node={}, now=NOW) == entries


def test_pod_with_a_future_time_is_younger_than_others_with_a_time() -> None:
    future, fresh, unknown = entries_of(
        [
            running_pod("p", ready_since=NOW + 60),
            running_pod("p", ready_since=NOW - 1),
            running_pod("p", ready_since=None),
        ]
    )
    assert ranked_deletion_order([fresh, future, unknown], on_node={}, now=NOW) == [unknown, future, fresh]


def test_only_active_pods_are_counted_as_related_pods_of_a_node() -> None:
    pods = [
        running_pod("p", node="n1"),
        running_pod("p", node="n1", phase="Pending"),
        running_pod("p", node="n1", phase="Succeeded"),
        running_pod("p", node="n2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        running_pod("p", **UNASSIGNED),
    ]
    assert related_on_nodes(entries_of(pods)) == {"n1": 2, "": 1}


RATIOS = {
    "whole multiples of the youngest ready pod's age": ([100, 250, 1000], 3, [1.0, 2.0, 10.0]),
    "only of those to be deleted": ([100, 250, 1000], 1, [1.0]),
    "the youngest need not be first": ([1000, 100], 1, [10.0]),
    "none when the youngest is of this instant": ([0, 100], 2, []),
}


@pytest.mark.parametrize(("ages", "count", "ratios"), RATIOS.values(), ids=RATIOS)
def test_the_age_ratios_of_pods_to_be_deleted(ages: Sequence[int], count: int, ratios: Sequence[float]) -> None:
    entries = entries_of([running_pod("p", created=NOW - age) for age in ages])
    assert deletion_age_ratios(entries, count, now=NOW) == ratios


def test_pods_that_are_not_ready_have_no_age_ratio() -> None:
    assert deletion_age_ratios(entries_of([running_pod("p", ready=False, created=NOW - 1)]), 1, now=NOW) == []
    entries = entries_of([running_pod("p", ready=False, created=NOW - 1), running_pod("p", created=NOW - 10)])
    assert deletion_age_ratios(entries, 2, now=NOW) == [1.0]
