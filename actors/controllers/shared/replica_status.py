"""Computation of the status of a ReplicaSet or ReplicationController, and of the time when a pod becomes available.

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
    """Pod counts for the status of a ReplicaSet or ReplicationController."""

    replicas: int  # active pods
    fully_labeled: int  # active pods with all labels of the template
    ready: int
    available: int
    terminating: int | None  # None if the status does not report terminating pods


def count_pods(
    active: Iterable[PodFacts],
    *,
    template_labels: Mapping[str, str],
    min_ready_seconds: int,
    now: float,
    terminating: int | None,
) -> PodCounts:
    """Count the active pods by state, for the status of their owner.

    min_ready_seconds: a pod counts as available if it has been ready for this time
    now: Unix seconds
    terminating: copied to the result
    """
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
    """Return the new status of a ReplicaSet or ReplicationController; None if it equals the present one.

    status: the present status
    generation: metadata.generation of the owner, for observedGeneration
    failure: (reason, message) of the condition ReplicaFailure if the sync failed; None if it succeeded. An existing
        condition is kept unchanged until a sync succeeds.
    now: Unix seconds, for lastTransitionTime

    Source: calculateStatus.
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
    """Return the seconds until the next ready pod becomes available; None if there is no such pod.

    counted: Unix time at which the pods were counted for the status. A pod that has become available since then gives
        a result of 0, so that it is counted again.
    now: Unix seconds

    The result is at most min_ready_seconds. Without this limit, a pod whose readiness is in the future, because a clock
    is wrong, would be checked too late when the clock is corrected.

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
