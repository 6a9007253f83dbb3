from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.controllers.shared.replica_status import (
    PodCounts,
    count_pods,
    next_status,
    seconds_to_next_availability,
)
from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object
from kcm.protocols.pods import PodFacts, is_available, pod_facts
from kcm.protocols.times import format_time
from kcm.runtime.tables.frozen import freeze
from tests.support.objects import running_pod

WEB = {"app": "web"}


def facts(*pods: Object) -> list[PodFacts]:
    return [pod_facts(each) for each in pods]


def counted(*pods: Object, min_ready_seconds: int = 0, terminating: int = 0) -> PodCounts:
    return count_pods(
        facts(*pods), template_labels=WEB, min_ready_seconds=min_ready_seconds, now=NOW, terminating=terminating
    )


def test_pods_are_counted_by_labels_readiness_and_availability() -> None:
    pods = [
        running_pod("a", labels=WEB),
        running_pod("b", labels={**WEB, "more": "yes"}),
        running_pod("c", labels={"other": "label"}),
        running_pod("d", labels=WEB, ready=False),
        running_pod("e", labels=WEB, ready_since=NOW - 5),
        running_pod("f", labels=WEB, ready_since=None),
    ]
    assert counted(*pods, min_ready_seconds=10, terminating=7) == PodCounts(
        replicas=6, fully_labeled=5, ready=5, available=3, terminating=7
    )


def test_template_without_labels_matches_every_pod() -> None:
    counts = count_pods(facts(running_pod("a")), template_labels={}, min_ready_seconds=0, now=NOW, terminating=None)
    assert (counts.fully_labeled, counts.terminating) == (1, None)


@pytest.mark.parametrize("min_ready_seconds", [0, 10])
@pytest.mark.parametrize("ready_since", [None, NOW, NOW - 9, NOW - 10, NOW - 11, NOW + 1])
@pytest.mark.parametrize("ready", [True, False])
def test_available_count_agrees_with_is_available(
    min_ready_seconds: int, ready_since: float | None, ready: bool
) -> None:
    pod = running_pod("a", ready=ready, ready_since=ready_since)
    expected = is_available(pod_facts(pod), min_ready_seconds=min_ready_seconds, now=NOW)
    assert counted(pod, min_ready_seconds=min_ready_seconds).available == expected


# The status.

COUNTS = PodCounts(replicas=3, fully_labeled=2, ready=2, available=1, terminating=0)
STATUS = {
    "replicas": 3,
    "fullyLabeledReplicas": 2,
    "readyReplicas": 2,
    "availableReplicas": 1,
    "terminatingReplicas": 0,
    "observedGeneration": 5,
}
FAILURE = ("FailedCreate", "quota")
CONDITION = {
    "type": "ReplicaFailure",
    "status": "True",
    "lastTransitionTime": format_time(NOW),
    "reason": "FailedCreate",
    "message": "quota",
}
OTHER_CONDITION = {"type": "Other", "status": "True"}
NO_PODS = PodCounts(0, 0, 0, 0, 0)


def status_after(
    status: Object, counts: PodCounts = COUNTS, generation: int = 5, failure: tuple[str, ...] | None = None
) -> Object | None:
    return next_status(freeze(status), counts, generation=generation, failure=failure, now=NOW)


# status, what changes, the status that follows (None: the same)
STATUSES = {
    "nothing has changed": (STATUS, {}, None),
    "there was none": ({}, {}, STATUS),
    "a number": (STATUS, {"counts": COUNTS._replace(available=2)}, {**STATUS, "availableReplicas": 2}),
    "the generation": (STATUS, {"generation": 6}, {**STATUS, "observedGeneration": 6}),
    "pods that terminate": (STATUS, {"counts": COUNTS._replace(terminating=1)}, {**STATUS, "terminatingReplicas": 1}),
    "terminating pods that were not counted before": (
        {name: value for name, value in STATUS.items() if name != "terminatingReplicas"},
        {},
        STATUS,
    ),
    "terminating pods of a kind that does not count them": (
        STATUS,
        {"counts": COUNTS._replace(terminating=None)},
        None,
    ),
    "terminating pods are not counted by this kind": (
        {"replicas": 1, "observedGeneration": 5},
        {"counts": PodCounts(2, 0, 0, 0, None)},
        {"replicas": 2, "observedGeneration": 5},
    ),
    "zeros are left out as Go leaves them out": (
        STATUS,
        {"counts": NO_PODS},
        {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 5},
    ),
    "zeros that are left out are no change": (
        {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 5},
        {"counts": NO_PODS},
        None,
    ),
    "what we do not know stays": ({"a": 1, "replicas": 1}, {}, {"a": 1, **STATUS}),
    "a failure is set": (STATUS, {"failure": FAILURE}, {**STATUS, "conditions": [CONDITION]}),
    "a failure does not replace an earlier one": (
        {**STATUS, "conditions": [{**CONDITION, "message": "an earlier one"}]},
        {"failure": FAILURE},
        None,
    ),
    "a failure is over": ({**STATUS, "conditions": [CONDITION]}, {}, STATUS),
    "other conditions stay when a failure is set": (
        {**STATUS, "conditions": [OTHER_CONDITION]},
        {"failure": FAILURE},
        {**STATUS, "conditions": [OTHER_CONDITION, CONDITION]},
    ),
    "other conditions stay when a failure is over": (
        {**STATUS, "conditions": [CONDITION, OTHER_CONDITION]},
        {},
        {**STATUS, "conditions": [OTHER_CONDITION]},
    ),
    "conditions are null": ({**STATUS, "conditions": None}, {}, None),
}


@pytest.mark.parametrize(("status", "change", "expected"), STATUSES.values(), ids=STATUSES)
def test_status_follows_the_counts(status: Object, change: Object, expected: Object | None) -> None:
    assert status_after(status, **change) == expected


# Status changes through the passage of time.

# ready since, minReadySeconds, seconds until available
NEXT = {
    "no pods": ([], 10, None),
    "not ready": ([running_pod("a", ready=False)], 10, None),
    "no minReadySeconds": ([running_pod("a", ready_since=NOW + 5)], 0, None),
    "an unknown ready time": ([running_pod("a", ready_since=None)], 10, None),
    "available already": ([running_pod("a", ready_since=NOW - 10)], 10, None),
    "just ready": ([running_pod("a", ready_since=NOW)], 1, 1.0),
    "ready for 20 s of 30": ([running_pod("a", ready_since=NOW - 20)], 30, 10.0),
    "ready an hour from now, by a clock that is behind": ([running_pod("a", ready_since=NOW + 3600)], 5, 5.0),
    "the one that is next": (
        [running_pod("a", ready_since=NOW - 3), running_pod("b", ready_since=NOW - 7), running_pod("c")],
        10,
        3.0,
    ),
}


@pytest.mark.parametrize(("pods", "min_ready_seconds", "seconds"), NEXT.values(), ids=NEXT)
def test_time_until_a_pod_becomes_available(
    pods: Sequence[Object], min_ready_seconds: int, seconds: float | None
) -> None:
    assert (
        seconds_to_next_availability(facts(*pods), min_ready_seconds=min_ready_seconds, counted=NOW, now=NOW) == seconds
    )


@pytest.mark.parametrize(("later", "seconds"), [(4.0, 6.0), (10.0, 0.0), (60.0, 0.0)])
def test_pod_that_became_available_meanwhile_is_counted_at_once(later: float, seconds: float) -> None:
    pods = facts(running_pod("a", ready_since=NOW))
    assert seconds_to_next_availability(pods, min_ready_seconds=10, counted=NOW, now=NOW + later) == seconds
