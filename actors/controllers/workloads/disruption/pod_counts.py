"""How many pods of a PodDisruptionBudget are healthy, how many have to be, and how many may be evicted.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go (getExpectedPodCount, countHealthyPods,
buildDisruptedPodMap, updatePdbStatus, failSafe).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.protocols.budgets import DISRUPTION_ALLOWED, SYNC_FAILED, says_what_is_allowed, with_disruption_allowed
from kcm.protocols.conditions import set_condition
from kcm.protocols.objects import Object, metadata, split_key
from kcm.protocols.percentages import scaled_value
from kcm.runtime.tables.table import Entry

DELETION_TIMEOUT = 120.0  # seconds from an eviction to when its pod has to be seen as deleted


class CannotCountError(Exception):
    """The pods of a budget cannot be counted: no eviction is allowed until they can.

    reason: of the event that reports it; empty if there is none.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Whether the sizes of the pods' controllers are asked for, and not how many pods there are."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


class Need(NamedTuple):
    """expected: pods that there are to be. desired: of these, those that have to be healthy."""

    expected: int
    desired: int


def need_of(spec: Mapping[str, Any], *, pods: int, scale: int) -> Need:
    """pods: how many there are. scale: the sizes of their controllers together. Percentages are rounded up.

    Raises ValueError on a bound that is neither a number nor a percentage.
    """
    most_missing, fewest = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most_missing is not None:
        return Need(scale, max(0, scale - scaled_value(most_missing, scale, round_up=True)))
    if fewest is None:
        return Need(0, 0)
    return Need(scale if needs_scale(spec) else pods, scaled_value(fewest, scale, round_up=True))


class Disrupted(NamedTuple):
    """Pods that the API server is about to delete, and we do not see as deleted yet.

    fresh: their names, and those of pods that may not be seen yet. overdue: pods that were evicted too long ago, and
    stay. recheck: seconds until the first of the fresh ones is overdue; None if there is none.
    """

    fresh: frozenset[str]
    overdue: tuple[Entry, ...]
    recheck: float | None


def disrupted_pods(
    evicted: Mapping[str, float] | None, pods: Iterable[Entry], *, now: float, unseen: Iterable[str] = ()
) -> Disrupted:
    """evicted: by name, since when we know of it, by the uptime, as now is: the API server's clock may be another's.
    unseen: names among these whose pods a late table may show yet, as they were before their eviction.
    """
    if not evicted:
        return Disrupted(frozenset(), (), None)
    waiting = {name: left for name in unseen if (left := evicted[name] + DELETION_TIMEOUT - now) > 0}
    fresh: set[str] = {*waiting}
    overdue = []
    recheck = min(waiting.values(), default=None)
    for pod in pods:
        name = split_key(pod.key)[1]
        if pod.facts.deleting or name not in evicted:
            continue
        left = evicted[name] + DELETION_TIMEOUT - now
        if left <= 0:  # looked at again in no time, it would be again and again
            overdue.append(pod)
        else:
            fresh.add(name)
            recheck = left if recheck is None else min(recheck, left)
    return Disrupted(frozenset(fresh), tuple(overdue), recheck)


def healthy(pod: Entry, disrupted: Disrupted) -> bool:
    """Ready, not being deleted, and not about to be."""
    return pod.facts.ready and not pod.facts.deleting and split_key(pod.key)[1] not in disrupted.fresh


def next_status(budget: Object, need: Need, *, current: int, disrupted: Mapping[str, str], now: float) -> Object | None:
    """The status to write; None if it is there. current: how many pods are healthy.

    Nothing is allowed while no pod is expected: the first pods of a budget are safe before they are counted.
    """
    status = budget.get("status") or {}
    counts = {
        "disruptionsAllowed": max(0, current - need.desired) if need.expected > 0 else 0,
        "currentHealthy": current,
        "desiredHealthy": need.desired,
        "expectedPods": need.expected,
    }
    if (
        all(status.get(name) == count for name, count in counts.items())
        and (status.get("disruptedPods") or {}) == disrupted
        and says_what_is_allowed(budget)
    ):
        return None
    wanted: Object = {**counts, "observedGeneration": metadata(budget).get("generation") or 0}
    if disrupted:
        wanted["disruptedPods"] = dict(disrupted)
    if status.get("conditions"):
        wanted["conditions"] = status["conditions"]
    return with_disruption_allowed(wanted, now=now)


def fail_safe_status(budget: Object, why: str, *, now: float) -> Object | None:
    """A status that allows nothing, as the pods could not be counted; None if it is there."""
    status: Object = budget.get("status") or {}
    conditions = set_condition(
        status.get("conditions"),
        DISRUPTION_ALLOWED,
        "False",
        SYNC_FAILED,
        why,
        now=now,
        observed_generation=status.get("observedGeneration") or None,
    )
    wanted = {**status, "disruptionsAllowed": 0, "conditions": conditions}
    return None if wanted == status else wanted
