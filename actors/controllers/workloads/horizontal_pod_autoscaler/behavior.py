"""Stabilization and scaling policies, which limit how fast a HorizontalPodAutoscaler scales its target.

A recommendation is a number of replicas that was computed from the metrics. Without spec.behavior, the target is not
scaled below the highest recommendation within --horizontal-pod-autoscaler-downscale-stabilization, and not above twice
the current number of replicas (or 4, if that is more).

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (stabilizeRecommendation,
convertDesiredReplicasWithRules, stabilizeRecommendationWithBehaviors, convertDesiredReplicasWithBehaviorRate,
storeScaleEvent). Differences:
- Outdated recommendations and scale events are removed; upstream overwrites them.
- A scale event is kept for the longest period in the policies of both directions; upstream considers only the policies
  of the event's direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.integers import INT32
from kcm.protocols.objects import Object

UP_FACTOR, UP_MINIMUM = 2, 4  # limit for scaling up without spec.behavior: twice the current replicas, but at least 4
MAX_REPLICAS = INT32.stop - 1


class Recommendation(NamedTuple):
    """Number of replicas that was computed from the metrics, before stabilization and policies."""

    replicas: int
    at: float  # monotonic seconds, as all times in this module


class ScaleEvent(NamedTuple):
    """Record of a change of the target's replicas by this controller."""

    change: int  # new minus old number of replicas
    at: float  # monotonic seconds


class ReplicaBounds(NamedTuple):
    lowest: int
    highest: int


class ScalingPolicy(NamedTuple):
    """Entry of behavior.scaleUp.policies or behavior.scaleDown.policies: the maximum change within a period."""

    percent: bool  # `value` is a percentage of the replicas at the start of the period; otherwise a number of pods
    value: int
    period: float  # seconds


class ScalingRules(NamedTuple):
    """Scaling rules of one direction: behavior.scaleUp or behavior.scaleDown."""

    window: float  # stabilization window in seconds
    select: str  # Max, Min or Disabled
    policies: tuple[ScalingPolicy, ...]

    @property
    def longest_period(self) -> float:
        return max((policy.period for policy in self.policies), default=0.0)


class Behavior(NamedTuple):
    up: ScalingRules
    down: ScalingRules


class LimitedReplicas(NamedTuple):
    """Number of replicas after a limit was applied, with reason and message for the condition that reports it."""

    replicas: int
    reason: str
    message: str


READY_FOR_NEW_SCALE = ("ReadyForNewScale", "recommended size matches current size")
UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
WITHIN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
UP_TOO_FAST = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
DOWN_TOO_FAST = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def behavior_of(spec: Mapping[str, Any], *, window: float) -> Behavior | None:
    """Parse spec.behavior of a HorizontalPodAutoscaler. Return None if it is not set.

    window: default stabilization window for scaling down, in seconds.
    """
    behavior = spec.get("behavior")
    if behavior is None:
        return None
    return Behavior(_rules(behavior.get("scaleUp") or {}, 0.0), _rules(behavior.get("scaleDown") or {}, window))


def _rules(rules: Object, window: float) -> ScalingRules:
    own_window = rules.get("stabilizationWindowSeconds")
    policies = tuple(
        ScalingPolicy(policy.get("type") == "Percent", policy.get("value") or 0, policy.get("periodSeconds") or 0)
        for policy in rules.get("policies") or ()
    )
    return ScalingRules(window if own_window is None else own_window, rules.get("selectPolicy") or "Max", policies)


# Without spec.behavior.


def stabilize(
    proposal: int, recommendations: Iterable[Recommendation], *, window: float, now: float
) -> tuple[LimitedReplicas, tuple[Recommendation, ...]]:
    """Stabilize a new recommendation without spec.behavior: return the highest recommendation within the window.

    proposal: the new recommendation
    window: seconds
    now: monotonic seconds

    Also returns the recommendations to keep for the next evaluation, including the new one.
    """
    recent = [recommendation for recommendation in recommendations if recommendation.at >= now - window]
    highest = max([proposal, *(recommendation.replicas for recommendation in recent)])
    why = READY_FOR_NEW_SCALE if highest == proposal else DOWN_STABILIZED
    return LimitedReplicas(highest, *why), (*recent, Recommendation(proposal, now))


def limit_rate(desired: int, *, current: int, bounds: ReplicaBounds) -> LimitedReplicas:
    fastest = max(UP_FACTOR * current, UP_MINIMUM)
    most, why = (fastest, UP_TOO_FAST) if bounds.highest > fastest else (bounds.highest, TOO_MANY)
    if desired < bounds.lowest:
        return LimitedReplicas(bounds.lowest, *TOO_FEW)
    return LimitedReplicas(most, *why) if desired > most else LimitedReplicas(desired, *WITHIN_RANGE)


# With spec.behavior.


def stabilize_by_windows(
    behavior: Behavior, proposal: int, recommendations: Iterable[Recommendation], *, current: int, now: float
) -> tuple[LimitedReplicas, tuple[Recommendation, ...]]:
    """Stabilize a new recommendation with the windows of spec.behavior.

    The target is not scaled up above the lowest recommendation in the scale-up window, and not scaled down below the
    highest recommendation in the scale-down window.

    proposal: the new recommendation
    current: current number of replicas
    now: monotonic seconds

    Returns the stabilized number, and the recommendations to keep for the next evaluation, including the new one.
    """
    since_up, since_down = now - behavior.up.window, now - behavior.down.window
    recent = [recommendation for recommendation in recommendations if recommendation.at >= min(since_up, since_down)]
    up = min([proposal, *(recommendation.replicas for recommendation in recent if recommendation.at > since_up)])
    down = max([proposal, *(recommendation.replicas for recommendation in recent if recommendation.at > since_down)])
    replicas = min(max(current, up), down)
    if replicas == proposal:
        why = READY_FOR_NEW_SCALE
    else:
        why = UP_STABILIZED if proposal >= current else DOWN_STABILIZED
    return LimitedReplicas(replicas, *why), (*recent, Recommendation(proposal, now))


def limit_rate_by_policies(
    behavior: Behavior, desired: int, events: Sequence[ScaleEvent], *, current: int, bounds: ReplicaBounds, now: float
) -> LimitedReplicas:
    if desired > current:
        fastest = max(up_limit(behavior.up, events, current=current, now=now), current)
        most, why = (fastest, UP_TOO_FAST) if bounds.highest > fastest else (bounds.highest, TOO_MANY)
        if desired > most:
            return LimitedReplicas(most, *why)
    elif desired < current:
        fastest = min(down_limit(behavior.down, events, current=current, now=now), current)
        least, why = (fastest, DOWN_TOO_FAST) if bounds.lowest < fastest else (bounds.lowest, TOO_FEW)
        if desired < least:
            return LimitedReplicas(least, *why)
    return LimitedReplicas(desired, *WITHIN_RANGE)


def up_limit(rules: ScalingRules, events: Sequence[ScaleEvent], *, current: int, now: float) -> int:
    """Return the maximum number of replicas that the policies for scaling up permit now.

    Source: calculateScaleUpLimitWithScalingRules.
    """
    if rules.select == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        before = replicas_before(events, policy.period, current=current, now=now)
        limits.append(math.ceil(before * (1 + policy.value / 100)) if policy.percent else before + policy.value)
    return min(limits, default=MAX_REPLICAS) if rules.select == "Min" else max(limits, default=current)


def down_limit(rules: ScalingRules, events: Sequence[ScaleEvent], *, current: int, now: float) -> int:
    """Return the minimum number of replicas that the policies for scaling down permit now.

    Source: calculateScaleDownLimitWithBehaviors.
    """
    if rules.select == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        before = replicas_before(events, policy.period, current=current, now=now)
        limits.append(int(before * (1 - policy.value / 100)) if policy.percent else before - policy.value)
    return max(limits, default=current) if rules.select == "Min" else min(limits, default=current)


def replicas_before(events: Iterable[ScaleEvent], period: float, *, current: int, now: float) -> int:
    """Return the number of replicas that the target had `period` seconds ago.

    It is computed from the current number and this controller's own changes since then.
    """
    return current - sum(event.change for event in events if event.at > now - period)


def add_scale_event(
    behavior: Behavior | None, events: Iterable[ScaleEvent], change: int, *, now: float
) -> tuple[ScaleEvent, ...]:
    """Add a scale event, and drop events that are older than the periods of all policies.

    Without spec.behavior no events are kept, because only policies use them.

    change: new minus old number of replicas. now: monotonic seconds.
    """
    if behavior is None:
        return ()
    longest = max(behavior.up.longest_period, behavior.down.longest_period)
    return (*(event for event in events if event.at >= now - longest), ScaleEvent(change, now))
