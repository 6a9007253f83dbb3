"""Computation of a PodDisruptionBudget's status: expected, healthy and desired pods, and allowed disruptions.

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

DELETION_TIMEOUT = 120.0  # seconds within which the deletion of an evicted pod must be observed


class CannotCountError(Exception):
    """Raised if the pods of a PodDisruptionBudget cannot be counted. Then the budget allows no evictions."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        """Initialize the error.

        reason: reason of the event that reports the error; "" if no event must be recorded.
        """
        super().__init__(message)
        self.reason = reason


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Report whether the limits of a PodDisruptionBudget depend on spec.replicas of the workloads that own its pods.

    They do if maxUnavailable is set, or if minAvailable is a percentage. A minAvailable that is a number is compared
    with the number of existing pods.
    """
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


class PodRequirement(NamedTuple):
    """Numbers of pods that a PodDisruptionBudget expects to exist and requires to be healthy."""

    expected: int  # status.expectedPods
    desired: int  # status.desiredHealthy: number of pods that must be healthy


def pod_requirement(spec: Mapping[str, Any], *, pods: int, scale: int) -> PodRequirement:
    """Compute the numbers of expected and desired pods of a PodDisruptionBudget from maxUnavailable or minAvailable.

    spec: spec of the budget
    pods: number of pods that the budget selects
    scale: sum of spec.replicas of the workloads that these pods belong to

    Percentages of `scale` are rounded up. Raises ValueError if a limit is neither a number nor a percentage.
    Source: getExpectedPodCount.
    """
    max_unavailable, min_available = spec.get("maxUnavailable"), spec.get("minAvailable")
    if max_unavailable is not None:
        return PodRequirement(scale, max(0, scale - scaled_value(max_unavailable, scale, round_up=True)))
    if min_available is None:
        return PodRequirement(0, 0)
    return PodRequirement(scale if needs_scale(spec) else pods, scaled_value(min_available, scale, round_up=True))


class RecentEvictions(NamedTuple):
    """Evicted pods whose deletion was not observed yet, grouped by whether the eviction is older than the timeout."""

    fresh: frozenset[str]  # names of pods whose eviction is at most DELETION_TIMEOUT old
    overdue: tuple[Entry, ...]  # pods whose eviction is older, although they still exist and are not being deleted
    recheck: float | None  # seconds until the first fresh pod becomes overdue; None without fresh pods


def recent_evictions(
    evicted: Mapping[str, float] | None, pods: Iterable[Entry], *, now: float, not_in_table: Iterable[str] = ()
) -> RecentEvictions:
    """Divide evicted pods, whose deletion was not observed yet, into fresh and overdue pods.

    An eviction is overdue when it is older than DELETION_TIMEOUT.

    evicted: by pod name, the time in monotonic seconds at which this controller observed the eviction. The time in
        the status is not used, because the API server's clock may differ.
    pods: the pods that the budget selects, as entries of the informer cache
    now: monotonic seconds
    not_in_table: names in `evicted` of pods that are not in the informer cache because it is older than the eviction.
        They count as fresh until the timeout.

    Source: buildDisruptedPodMap.
    """
    if not evicted:
        return RecentEvictions(frozenset(), (), None)
    waiting = {name: left for name in not_in_table if (left := evicted[name] + DELETION_TIMEOUT - now) > 0}
    fresh: set[str] = {*waiting}
    overdue = []
    recheck = min(waiting.values(), default=None)
    for pod in pods:
        name = split_key(pod.key)[1]
        if pod.facts.deleting or name not in evicted:
            continue
        left = evicted[name] + DELETION_TIMEOUT - now
        if left <= 0:  # not `< 0`: a recheck after 0 seconds would repeat endlessly
            overdue.append(pod)
        else:
            fresh.add(name)
            recheck = left if recheck is None else min(recheck, left)
    return RecentEvictions(frozenset(fresh), tuple(overdue), recheck)


def is_healthy(pod: Entry, disrupted: RecentEvictions) -> bool:
    """Report whether a pod is ready, not being deleted, and not evicted recently. Source: countHealthyPods."""
    facts = pod.facts
    # Most budgets have no evicted pods: their names are not looked at.
    return facts.ready and not facts.deleting and not (disrupted.fresh and split_key(pod.key)[1] in disrupted.fresh)


def next_status(
    budget: Object, requirement: PodRequirement, *, current: int, disrupted: Mapping[str, str], now: float
) -> Object | None:
    """Return the new status of a PodDisruptionBudget; None if it is equal to the present status.

    If no pods are expected, no disruption is allowed, so that the first pods of a budget are protected until they are
    counted.

    current: number of healthy pods
    disrupted: value of status.disruptedPods: by pod name, the time of the eviction
    now: Unix seconds, for lastTransitionTime

    Source: updatePdbStatus.
    """
    status = budget.get("status") or {}
    counts = {
        "disruptionsAllowed": max(0, current - requirement.desired) if requirement.expected > 0 else 0,
        "currentHealthy": current,
        "desiredHealthy": requirement.desired,
        "expectedPods": requirement.expected,
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
    """Return a PodDisruptionBudget's status that allows no disruptions, because its pods cannot be counted.

    None if it is equal to the present status.

    why: message of the condition DisruptionAllowed. now: Unix seconds, for lastTransitionTime.
    Source: failSafe.
    """
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
