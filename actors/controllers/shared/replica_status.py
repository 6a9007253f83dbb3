"""The status of a ReplicaSet or ReplicationController: its counts, what to write, when time alone will change it.

Source: kubernetes v1.36 pkg/controller/replicaset/replica_set_utils.go, calculateStatus; controller_utils.go,
FindMinNextPodAvailabilityCheck.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.status import without_zeros
from kcm.protocols.conditions import find_condition, set_condition, without_condition
from kcm.protocols.objects import Object
from kcm.protocols.pods import PodFacts

REPLICA_FAILURE = "ReplicaFailure"


class Counts(NamedTuple):
    """How many pods there are. fully_labeled: with all labels of the template. terminating: None if not counted."""

    replicas: int
    fully_labeled: int
    ready: int
    available: int
    terminating: int | None


def count_pods(
    active: Iterable[PodFacts],
    *,
    template_labels: Mapping[str, str],
    min_ready_seconds: int,
    now: float,
    terminating: int | None,
) -> Counts:
    """now: Unix seconds, when a pod must have been ready for min_ready_seconds to be available."""
    wanted = template_labels.items()
    replicas = fully_labeled = ready = available = 0
    since = now - min_ready_seconds
    last: Mapping[str, str] | None = None  # most pods share their mapping of labels with the one before
    complete = False
    for pod in active:
        replicas += 1
        if pod.labels is not last:
            last = pod.labels
            complete = wanted <= last.items()
        fully_labeled += complete
        if pod.ready:
            ready += 1
            # Inlined is_available: this runs for every pod at every sync.
            if min_ready_seconds == 0 or (pod.ready_since is not None and pod.ready_since <= since):
                available += 1
    return Counts(replicas, fully_labeled, ready, available, terminating)


def next_status(
    status: Mapping[str, Any], counts: Counts, *, generation: int, failure: tuple[str, str] | None, now: float
) -> Object | None:
    """The status to write; None if it is as it should be.

    failure: (reason, message) of the condition ReplicaFailure, None on success. An existing condition stays as it was
    first set until a sync succeeds.
    """
    before = status.get("conditions") or []
    conditions: list[Object] = before
    known = find_condition(before, REPLICA_FAILURE)
    if failure is None and known is not None:
        conditions = without_condition(before, REPLICA_FAILURE)
    elif failure is not None and known is None:
        conditions = set_condition(before, REPLICA_FAILURE, "True", *failure, now=now)
    numbers = {
        "replicas": counts.replicas,
        "fullyLabeledReplicas": counts.fully_labeled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "observedGeneration": generation,
    }
    same_terminating = counts.terminating is None or status.get("terminatingReplicas") == counts.terminating
    if same_terminating and conditions == before and all(status.get(n, 0) == number for n, number in numbers.items()):
        return None
    wanted = {**status, **numbers, "conditions": conditions}
    if counts.terminating is not None:
        wanted["terminatingReplicas"] = counts.terminating
    if not conditions:
        del wanted["conditions"]
    return without_zeros(wanted, "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def seconds_to_next_availability(
    active: Iterable[PodFacts], *, min_ready_seconds: int, counted: float, now: float
) -> float | None:
    """Seconds until the next ready pod becomes available; None if no pod will.

    counted: when the status was counted; a pod that was not available then counts, also if it is by now (0 seconds).
    No pod takes longer than min_ready_seconds from now on: where one became ready in what is the future by our clock,
    our clock is wrong, and a wait by it would not end when it is set right.
    """
    if min_ready_seconds <= 0:
        return None
    nearest = min(
        (
            pod.ready_since
            for pod in active
            if pod.ready and pod.ready_since is not None and pod.ready_since + min_ready_seconds > counted
        ),
        default=None,
    )
    return None if nearest is None else min(max(0.0, nearest + min_ready_seconds - now), min_ready_seconds)
