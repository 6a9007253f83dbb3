"""Which pods to delete first: the two deletion orders of the workload controllers.

Pods are table entries with PodFacts; both orders begin with the pod to delete first. A missing time is the newest.

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
    """ActivePods: unassigned, pending, not ready, ready for a shorter time, more restarts, newer."""
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
    """By node ("" for unassigned pods), how many of these pods are active."""
    counts: dict[str, int] = {}
    for pod in related:
        if is_active(pod.facts):
            counts[pod.facts.node] = counts.get(pod.facts.node, 0) + 1
    return counts


class _Ranked(NamedTuple):
    """prefix: decides in most cases, so that most comparisons compare one tuple."""

    prefix: tuple[object, ...]
    restarts: tuple[int, int]
    created_bucket: int
    pod: Entry


def ranked_deletion_order(
    pods: Iterable[Entry], *, on_node: Mapping[str, int], now: float, by_cost: bool = True
) -> list[Entry]:
    """ActivePodsWithRanks: unassigned, pending, not ready, lower deletion cost, on a more crowded node, ready for a
    shorter time, more restarts, newer.

    on_node: see related_on_nodes; empty ranks none. by_cost: whether the deletion cost counts. Ages are compared by
    their order of magnitude, in powers of two; within one, different times are decided by the uids: as good as random,
    but repeatable.
    """
    ranked = []
    for pod in pods:
        facts: PodFacts = pod.facts
        crowd = on_node.get(facts.node, 0)
        cost = facts.deletion_cost if by_cost else 0
        prefix = (*_stage(facts), cost, -crowd, _age_bucket(facts.ready_since, now))
        restarts = (-facts.restarts, -facts.sidecar_restarts)
        ranked.append(_Ranked(prefix, restarts, _age_bucket(facts.created, now), pod))
    ranked.sort(key=cmp_to_key(_compare))
    return [each.pod for each in ranked]


def _age_bucket(time: float | None, now: float) -> int:
    """floor(log2 of the age in nanoseconds); -1 for the future, -2 for a missing time."""
    if time is None:
        return -2
    age = (now - time) * 1e9
    return int(math.log2(age)) if age >= 1 else -1


def _compare(one: _Ranked, other: _Ranked) -> int:
    """Negative if `one` is deleted first. Not a sort key: different times in one bucket end the comparison at the uids,
    equal ones go on to the next criterion.
    """
    if one.prefix != other.prefix:
        return -1 if one.prefix < other.prefix else 1  # both have the same types in the same places
    this, that = one.pod, other.pod
    if this.facts.ready_since != that.facts.ready_since:
        return _by_uid(this, that)
    if one.restarts != other.restarts:
        return -1 if one.restarts < other.restarts else 1
    if this.facts.created == that.facts.created:
        return 0
    return one.created_bucket - other.created_bucket or _by_uid(this, that)


def _by_uid(this: Entry, that: Entry) -> int:
    return (this.uid > that.uid) - (this.uid < that.uid)


def deletion_age_ratios(ordered: Sequence[Entry], count: int, *, now: float) -> list[float]:
    """For each ready one of the first `count` pods: its age as a whole multiple of that of the youngest ready pod.

    Source: pkg/controller/replicaset/replica_set.go, reportSortingDeletionAgeRatioMetric. Differs: upstream divides by
    zero if the youngest is younger than a millisecond, and then panics; this returns none.
    """
    born = [pod.facts.created for pod in ordered if pod.facts.ready and pod.facts.created is not None]
    youngest = int((now - max(born)) * 1000) if born else 0
    if youngest <= 0:
        return []
    return [
        float(int((now - pod.facts.created) * 1000) // youngest)
        for pod in ordered[:count]
        if pod.facts.ready and pod.facts.created is not None
    ]
