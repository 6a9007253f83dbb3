"""The status of a ReplicaSet or ReplicationController: counts, conditions, and the time of the next availability.

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


class PodCounts(NamedTuple):
    """Numbers of pods."""

    replicas: int
    fully_labeled: int  # with all labels of the template
    ready: int
    available: int
    terminating: int | None  # None if they are not counted


def count_pods(
    active: Iterable[PodFacts],
    *,
    template_labels: Mapping[str, str],
    min_ready_seconds: int,
    now: float,
    terminating: int | None,
) -> PodCounts:
    """Count active pods. An available pod has been ready for min_ready_seconds at `now` (Unix seconds)."""
    wanted = template_labels.items()
    replicas = fully_labeled = ready = available = 0
    since = now - min_ready_seconds
    last: Mapping[str, str] | None = None  # most pods share their mapping of labels with the pod before
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
    return PodCounts(replicas, fully_labeled, ready, available, terminating)


def next_status(
    status: Mapping[str, Any], counts: PodCounts, *, generation: int, failure: tuple[str, str] | None, now: float
) -> Object | None:
    """Return the status to write; None if nothing changes. Source: calculateStatus.

    failure: (reason, message) of the condition ReplicaFailure, None on success. An existing condition is kept
    unchanged until a sync succeeds.
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
    new_status = {**status, **numbers, "conditions": conditions}
    if counts.terminating is not None:
        new_status["terminatingReplicas"] = counts.terminating
    if not conditions:
        del new_status["conditions"]
    return without_zeros(new_status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def seconds_to_next_availability(
    active: Iterable[PodFacts], *, min_ready_seconds: int, counted: float, now: float
) -> float | None:
    """Return the seconds until the next ready pod becomes available; None if no pod will.

    counted: time at which the pods were counted for the status. A pod that was unavailable then is included even if it
    has become available since (0 seconds). The result is at most min_ready_seconds: if a pod became ready in the future
    by our clock, the clock is wrong, and a longer wait would not end when it is corrected.

    Source: FindMinNextPodAvailabilityCheck.
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
