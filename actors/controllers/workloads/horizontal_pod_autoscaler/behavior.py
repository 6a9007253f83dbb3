"""How fast a HorizontalPodAutoscaler scales: what it recommended before, and how far its policies let it go.

Without spec.behavior: never below what was recommended within the flag's window, and at most to the double, or 4.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (stabilizeRecommendation,
convertDesiredReplicasWithRules, stabilizeRecommendationWithBehaviors, convertDesiredReplicasWithBehaviorRate,
storeScaleEvent). Differences: what is too old is forgotten, there its place is used again; an event is remembered for
the longest period of either direction, there for that of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.integers import INT32
from kcm.protocols.objects import Object

UP_FACTOR, UP_LEAST = 2, 4  # without behavior
MOST = INT32.stop - 1


class Recommendation(NamedTuple):
    """What the metrics asked for. at: by the uptime, as all times here."""

    replicas: int
    at: float


class ScaleEvent(NamedTuple):
    """By how many replicas we changed a target; up is positive."""

    change: int
    at: float


class Bounds(NamedTuple):
    lowest: int
    highest: int


class Policy(NamedTuple):
    """percent: of what there was when the period began; else value are pods. period: seconds."""

    percent: bool
    value: int
    period: float


class Rules(NamedTuple):
    """Of one direction. window: seconds. select: Max, Min or Disabled."""

    window: float
    select: str
    policies: tuple[Policy, ...]

    @property
    def longest_period(self) -> float:
        return max((policy.period for policy in self.policies), default=0.0)


class Behavior(NamedTuple):
    up: Rules
    down: Rules


class Limited(NamedTuple):
    """A number of replicas, and why it is no other. reason and message: of a condition."""

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
    """None if the autoscaler says none. window: seconds for scaling down, where it does not say how many."""
    behavior = spec.get("behavior")
    if behavior is None:
        return None
    return Behavior(_rules(behavior.get("scaleUp") or {}, 0.0), _rules(behavior.get("scaleDown") or {}, window))


def _rules(rules: Object, window: float) -> Rules:
    said = rules.get("stabilizationWindowSeconds")
    policies = tuple(
        Policy(one.get("type") == "Percent", one.get("value") or 0, one.get("periodSeconds") or 0)
        for one in rules.get("policies") or ()
    )
    return Rules(window if said is None else said, rules.get("selectPolicy") or "Max", policies)


# Without behavior.


def stabilized(
    proposal: int, recommendations: Iterable[Recommendation], *, window: float, now: float
) -> tuple[Limited, tuple[Recommendation, ...]]:
    """The highest recommendation within the window; and what to remember."""
    recent = [one for one in recommendations if one.at >= now - window]
    highest = max([proposal, *(one.replicas for one in recent)])
    why = READY_FOR_NEW_SCALE if highest == proposal else DOWN_STABILIZED
    return Limited(highest, *why), (*recent, Recommendation(proposal, now))


def limited(desired: int, *, current: int, bounds: Bounds) -> Limited:
    fastest = max(UP_FACTOR * current, UP_LEAST)
    most, why = (fastest, UP_TOO_FAST) if bounds.highest > fastest else (bounds.highest, TOO_MANY)
    if desired < bounds.lowest:
        return Limited(bounds.lowest, *TOO_FEW)
    return Limited(most, *why) if desired > most else Limited(desired, *WITHIN_RANGE)


# With it.


def stabilized_by(
    behavior: Behavior, proposal: int, recommendations: Iterable[Recommendation], *, current: int, now: float
) -> tuple[Limited, tuple[Recommendation, ...]]:
    """As near to what there is as the recommendations of both windows let it be; and what to remember."""
    since_up, since_down = now - behavior.up.window, now - behavior.down.window
    recent = [one for one in recommendations if one.at >= min(since_up, since_down)]
    up = min([proposal, *(one.replicas for one in recent if one.at > since_up)])
    down = max([proposal, *(one.replicas for one in recent if one.at > since_down)])
    replicas = min(max(current, up), down)
    if replicas == proposal:
        why = READY_FOR_NEW_SCALE
    else:
        why = UP_STABILIZED if proposal >= current else DOWN_STABILIZED
    return Limited(replicas, *why), (*recent, Recommendation(proposal, now))


def limited_by(
    behavior: Behavior, desired: int, events: Sequence[ScaleEvent], *, current: int, bounds: Bounds, now: float
) -> Limited:
    if desired > current:
        fastest = max(up_limit(behavior.up, events, current=current, now=now), current)
        most, why = (fastest, UP_TOO_FAST) if bounds.highest > fastest else (bounds.highest, TOO_MANY)
        if desired > most:
            return Limited(most, *why)
    elif desired < current:
        fastest = min(down_limit(behavior.down, events, current=current, now=now), current)
        least, why = (fastest, DOWN_TOO_FAST) if bounds.lowest < fastest else (bounds.lowest, TOO_FEW)
        if desired < least:
            return Limited(least, *why)
    return Limited(desired, *WITHIN_RANGE)


def up_limit(rules: Rules, events: Sequence[ScaleEvent], *, current: int, now: float) -> int:
    """The most replicas that the policies let it have now."""
    if rules.select == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        before = replicas_before(events, policy.period, current=current, now=now)
        limits.append(math.ceil(before * (1 + policy.value / 100)) if policy.percent else before + policy.value)
    return min(limits, default=MOST) if rules.select == "Min" else max(limits, default=current)


def down_limit(rules: Rules, events: Sequence[ScaleEvent], *, current: int, now: float) -> int:
    """The fewest replicas that the policies let it have now."""
    if rules.select == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        before = replicas_before(events, policy.period, current=current, now=now)
        limits.append(int(before * (1 - policy.value / 100)) if policy.percent else before - policy.value)
    return max(limits, default=current) if rules.select == "Min" else min(limits, default=current)


def replicas_before(events: Iterable[ScaleEvent], period: float, *, current: int, now: float) -> int:
    """How many there were when the period began, by what we changed since."""
    return current - sum(event.change for event in events if event.at > now - period)


def remembered(
    behavior: Behavior | None, events: Iterable[ScaleEvent], change: int, *, now: float
) -> tuple[ScaleEvent, ...]:
    """The events, and the one that was now. Without behavior nobody asks for them."""
    if behavior is None:
        return ()
    longest = max(behavior.up.longest_period, behavior.down.longest_period)
    return (*(event for event in events if event.at >= now - longest), ScaleEvent(change, now))
