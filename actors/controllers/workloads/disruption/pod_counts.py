"""Counts in the status of a PodDisruptionBudget: expected, healthy and desired pods, and allowed disruptions.

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

DELETION_TIMEOUT = 120.0  # seconds until an evicted pod must be shown as deleted


class CannotCountError(Exception):
    """The pods of a budget cannot be counted. No eviction is allowed until they can be counted."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        """Keep the text. reason: of the event; "" without an event."""
        super().__init__(message)
        self.reason = reason


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Report whether the budget depends on the replicas of the pods' controllers, and not on the number of pods."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


class Need(NamedTuple):
    """Numbers of pods that a budget requires."""

    expected: int
    desired: int  # pods that must be healthy


def need_of(spec: Mapping[str, Any], *, pods: int, scale: int) -> Need:
    """Compute the need from maxUnavailable or minAvailable. Percentages are rounded up. Source: getExpectedPodCount.

    pods: number of pods. scale: sum of the replicas of their controllers.
    Raises ValueError if a bound is neither a number nor a percentage.
    """
    max_unavailable, min_available = spec.get("maxUnavailable"), spec.get("minAvailable")
    if max_unavailable is not None:
        return Need(scale, max(0, scale - scaled_value(max_unavailable, scale, round_up=True)))
    if min_available is None:
        return Need(0, 0)
    return Need(scale if needs_scale(spec) else pods, scaled_value(min_available, scale, round_up=True))


class Disrupted(NamedTuple):
    """Evicted pods that the table does not show as deleted yet."""

    fresh: frozenset[str]  # names of pods evicted within the timeout, including pods that the table may not show yet
    overdue: tuple[Entry, ...]  # pods that were evicted longer ago, and were not deleted
    recheck: float | None  # seconds until the first fresh pod is overdue; None without fresh pods


def disrupted_pods(
    evicted: Mapping[str, float] | None, pods: Iterable[Entry], *, now: float, unseen: Iterable[str] = ()
) -> Disrupted:
    """Divide the evicted pods into fresh and overdue ones. Source: buildDisruptedPodMap.

    evicted: by name, when we learned of the eviction, in monotonic seconds: the API server's clock may differ.
    unseen: names in `evicted` of pods that the table does not show yet, and may show as they were before the eviction.
    now: monotonic seconds.
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
        if left <= 0:  # a recheck after 0 seconds would repeat without end
            overdue.append(pod)
        else:
            fresh.add(name)
            recheck = left if recheck is None else min(recheck, left)
    return Disrupted(frozenset(fresh), tuple(overdue), recheck)


def healthy(pod: Entry, disrupted: Disrupted) -> bool:
    """Report whether the pod is ready, not being deleted and not evicted. Source: countHealthyPods."""
    return pod.facts.ready and not pod.facts.deleting and split_key(pod.key)[1] not in disrupted.fresh


def next_status(budget: Object, need: Need, *, current: int, disrupted: Mapping[str, str], now: float) -> Object | None:
    """Return the status to write; None if it is unchanged. Source: updatePdbStatus.

    Without expected pods no disruption is allowed, so that the first pods of a budget are protected before they are
    counted.

    current: number of healthy pods.
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
    """Return a status that allows no disruption; None if it is unchanged. Source: failSafe."""
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
