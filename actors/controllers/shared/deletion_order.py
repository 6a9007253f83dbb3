"""The two orders in which workload controllers delete surplus pods.

Pods are entries of the informer cache, with PodFacts. The first pod of a result is deleted first. A missing timestamp
counts as newest.

Source: kubernetes v1.36 pkg/controller/controller_utils.go, ActivePods and ActivePodsWithRanks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import NamedTuple

from kcm.protocols.pods import PodFacts, is_active
from kcm.runtime.tables.table import Entry

_PHASES: Mapping[str, int] = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEWEST = -math.inf


def deletion_order(pods: Iterable[Entry]) -> list[Entry]:
    """Sort pods by deletion priority, without regard to related pods or deletion costs.

    Pods without a node come first; then pending pods; then pods that are not ready, became ready more recently, have
    more restarts, or are newer. Each criterion decides only between pods that are equal by the preceding criteria.

    Source: ActivePods.
    """
    return sorted(pods, key=_order)


def _order(pod: Entry) -> tuple[object, ...]:
    facts: PodFacts = pod.facts
    return (
        *_stage(facts),
        _later_first(facts.ready_since),
        -facts.restarts,
        -facts.sidecar_restarts,
        _later_first(facts.created),
    )


def _stage(facts: PodFacts) -> tuple[bool, int, bool]:
    return facts.node != "", _PHASES.get(facts.phase, 0), facts.ready


def _later_first(time: float | None) -> float:
    return _NEWEST if time is None else -time


def related_on_nodes(related: Iterable[Entry]) -> dict[str, int]:
    """Return the number of active pods among `related` by node name; "" counts the pods without a node.

    related: pods of all ReplicaSets with the same controller, such as the ReplicaSets of a Deployment.
    """
    counts: dict[str, int] = {}
    for pod in related:
        if is_active(pod.facts):
            counts[pod.facts.node] = counts.get(pod.facts.node, 0) + 1
    return counts


class _Ranked(NamedTuple):
    """Pod with its sort keys for ranked_deletion_order, in the order in which they are compared."""

    prefix: tuple[object, ...]  # decides most comparisons, as one tuple
    restarts: tuple[int, int]
    created_bucket: int
    pod: Entry


def ranked_deletion_order(
    pods: Iterable[Entry], *, on_node: Mapping[str, int], now: float, by_cost: bool = True
) -> list[Entry]:
    """Sort pods by deletion priority, with regard to deletion costs and to related pods on the same node.

    Pods without a node come first; then pending pods; then pods that are not ready, have a lower deletion cost, are on
    a node with more related pods, became ready more recently, have more restarts, or are newer. Each criterion decides
    only between pods that are equal by the preceding criteria.

    on_node: number of related pods by node, from related_on_nodes; empty to ignore nodes. Related pods are those of all
        ReplicaSets with the same controller.
    now: Unix seconds
    by_cost: whether the annotation pod-deletion-cost is considered

    Ages are rounded down to powers of two. Pods with different times but equal rounded ages are ordered by uid, which
    is random but repeatable.

    Source: ActivePodsWithRanks.
    """
    ranked = []
    for pod in pods:
        facts: PodFacts = pod.facts
        related = on_node.get(facts.node, 0)
        cost = facts.deletion_cost if by_cost else 0
        prefix = (*_stage(facts), cost, -related, _age_bucket(facts.ready_since, now))
        restarts = (-facts.restarts, -facts.sidecar_restarts)
        ranked.append(_Ranked(prefix, restarts, _age_bucket(facts.created, now), pod))
    ranked.sort(key=cmp_to_key(_compare))
    return [item.pod for item in ranked]


def _age_bucket(time: float | None, now: float) -> int:
    """Return floor(log2 of the age in nanoseconds); -1 for a time in the future, -2 for a missing time.

    time, now: Unix seconds.
    """
    if time is None:
        return -2
    age = (now - time) * 1e9
    return int(math.log2(age)) if age >= 1 else -1


def _compare(left: _Ranked, right: _Ranked) -> int:
    """Compare two pods, for functools.cmp_to_key: the result is negative if `left` is deleted first.

    A sort key cannot express this order: if two times differ but have equal rounded ages, the uid decides; if they are
    equal, the next criterion decides.
    """
    if left.prefix != right.prefix:
        return -1 if left.prefix < right.prefix else 1  # both tuples have the same types
    pod, other = left.pod, right.pod
    if pod.facts.ready_since != other.facts.ready_since:
        return _by_uid(pod, other)
    if left.restarts != right.restarts:
        return -1 if left.restarts < right.restarts else 1
    if pod.facts.created == other.facts.created:
        return 0
    return left.created_bucket - right.created_bucket or _by_uid(pod, other)


def _by_uid(pod: Entry, other: Entry) -> int:
    return (pod.uid > other.uid) - (pod.uid < other.uid)


def deletion_age_ratios(ordered: Sequence[Entry], count: int, *, now: float) -> list[float]:
    """Return the values of the metric sorting_deletion_age_ratio for the pods that are deleted.

    The value of a ready pod is its age divided by the age of the youngest ready pod, rounded down.

    ordered: all candidates in deletion order; the first `count` of them are deleted
    now: Unix seconds

    Source: pkg/controller/replicaset/replica_set.go, reportSortingDeletionAgeRatioMetric. Difference: if the youngest
    pod is younger than a millisecond, upstream divides by zero and panics; this returns an empty list.
    """
    creation_times = [pod.facts.created for pod in ordered if pod.facts.ready and pod.facts.created is not None]
    youngest = int((now - max(creation_times)) * 1000) if creation_times else 0
    if youngest <= 0:
        return []
    return [
        float(int((now - pod.facts.created) * 1000) // youngest)
        for pod in ordered[:count]
        if pod.facts.ready and pod.facts.created is not None
    ]
