"""Scaling policies of autoscalers.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestScalingWithRules,
TestStoreScaleEvents).
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    Behavior,
    ReplicaBounds,
    ScalingPolicy,
    ScalingRules,
    add_scale_event,
    limit_rate_by_policies,
    replicas_before,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.histories import NOW, ago, percent, pods, spread

DEFAULT_UP, DEFAULT_DOWN = (pods(4, 15), percent(100, 15)), (percent(100, 15),)


class Way(NamedTuple):
    """Case of scaling in one direction.

    current, desired, end: replicas.
    policies: of this direction; None for the server's defaults.
    added, removed: changes within the last two minutes.
    """

    current: int
    desired: int
    end: int
    reason: str
    policies: tuple[ScalingPolicy, ...] | None = None
    lowest: int = 1
    highest: int = 1000
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


UP, DOWN, WITHIN = "ScaleUpLimit", "ScaleDownLimit", "DesiredWithinRange"
MOST, LEAST = "TooManyReplicas", "TooFewReplicas"
FEW, MANY, TENS = (1, 5, 9), (8, 12, 9, 11), (10, 10, 10)

WITHOUT_A_PAST = [
    Way(5, 7, 7, WITHIN, lowest=3, highest=8),
    Way(3, 1, 2, LEAST, lowest=2, highest=8),
    Way(1, 0, 0, WITHIN, lowest=0, highest=10),
    Way(20, 1000, 10, MOST, highest=10),
    Way(100, 1000, 150, MOST, lowest=100, highest=150),
    Way(3, 1000, 4, UP, (percent(1),), highest=2000),
    Way(1000, 3, 980, DOWN, (pods(20),), lowest=3, highest=2000),
    Way(10, 50, 20, UP),
    Way(10, 500, 110, UP, (pods(100), percent(100))),
    Way(10, 500, 20, UP, (pods(2), percent(100))),
    Way(10, 50, 50, WITHIN, (pods(100),)),
    Way(10, 50, 50, WITHIN, (pods(10_000),)),
    Way(10, 50, 40, UP, (pods(30),)),
    Way(10, 50, 30, UP, (percent(200),)),
    Way(100, 2, 80, DOWN, (pods(20), percent(1))),
    Way(100, 2, 98, DOWN, (pods(2), percent(1))),
    Way(10, 0, 1, LEAST, (pods(100),)),
    Way(10, 2, 5, LEAST, (percent(100),), lowest=5),
    Way(10, 2, 5, DOWN, (pods(5),)),
    Way(10, 5, 5, WITHIN, (percent(50),)),
]
AFTER_UP = [
    Way(100, 500, 200, MOST, (pods(300),), highest=200, added=FEW),
    Way(100, 500, 200, MOST, (percent(10_000),), highest=200, added=FEW),
    Way(100, 500, 100, UP, (pods(5, 120),), added=FEW),  # 90 are less than there are
    Way(100, 500, 235, UP, (pods(150, 120),), added=FEW),
    Way(100, 500, 255, UP, (percent(200, 120),), added=FEW),
    Way(6, 24, 16, UP, (percent(300, 300),), added=(4,), removed=(2,)),
    Way(100, 200, 200, WITHIN, (pods(1000),), added=MANY),
    Way(100, 200, 200, WITHIN, (pods(1000, 120), percent(100)), added=MANY),
    Way(100, 200, 200, WITHIN, (pods(1000, 30), percent(100)), added=MANY),
]
AFTER_DOWN = [
    Way(10, 5, 5, WITHIN, removed=FEW),
    Way(100, 0, 1, LEAST, (pods(115, 120),), removed=FEW),
    Way(100, 0, 5, LEAST, (pods(130, 120),), lowest=5, removed=FEW),
    Way(100, 2, 5, LEAST, (percent(100, 120),), lowest=5, removed=FEW),
    Way(100, 2, 100, DOWN, (pods(5, 120),), removed=FEW),
    Way(100, 0, 56, DOWN, (percent(50, 120),), removed=(2, 4, 6)),
    Way(10, 1, 6, DOWN, (percent(50, 180),), added=(2,), removed=(4,)),
    Way(100, 0, 100, DOWN, (percent(10, 120),), removed=TENS),  # 117 are more than there are
    Way(10, 5, 5, WITHIN, (percent(1000, 120),), removed=TENS),  # 360 too many
    Way(100, 5, 5, WITHIN, (pods(1000),), removed=MANY),
    Way(100, 5, 5, WITHIN, (pods(1000, 120), percent(100)), removed=MANY),
    Way(100, 5, 5, WITHIN, (pods(1000, 30), percent(100)), removed=MANY),
]


@pytest.mark.parametrize("way", [*WITHOUT_A_PAST, *AFTER_UP, *AFTER_DOWN])
def test_size_is_limited_by_policies(way: Way) -> None:
    up, down = DEFAULT_UP, DEFAULT_DOWN
    if way.policies is not None:
        up, down = (way.policies, down) if way.desired > way.current else (up, way.policies)
    behavior = Behavior(ScalingRules(0, "Max", up), ScalingRules(300, "Max", down))
    events = spread(*way.added) + spread(*(-change for change in way.removed))
    bounds = ReplicaBounds(way.lowest, way.highest)
    found = limit_rate_by_policies(behavior, way.desired, events, current=way.current, bounds=bounds, now=NOW)
    assert (found.replicas, found.reason) == (way.end, way.reason)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("policies", "before", "in_a_minute", "kept"),
    [
        (None, (), 0, ()),
        ((pods(10), percent(100)), (), 0, (5,)),
        (None, ((7, 61),), 0, ()),  # upstream keeps it, and ignores it
        ((pods(10), percent(100)), ((7, 61),), 0, (5,)),
        ((pods(10), percent(100)), ((7, 58),), 7, (7, 5)),
        ((pods(10),), ((7, 61), (6, 59)), 6, (6, 5)),
        ((pods(10), percent(100, 30)), ((8, 29), (6, 59), (7, 61), (9, 61)), 14, (8, 6, 5)),  # there one is marked
        ((pods(10, 120), percent(100, 30)), ((7, 58), (6, 59)), 13, (7, 6, 5)),
    ],
)
def test_scale_events_are_kept_for_the_longest_period(
    policies: tuple[ScalingPolicy, ...] | None,
    before: tuple[tuple[int, float], ...],
    in_a_minute: int,
    kept: tuple[int, ...],
    sign: int,
) -> None:
    """Older events are dropped. sign: of all changes, up or down."""
    events = ago(*((sign * change, seconds) for change, seconds in before))
    assert replicas_before(events, 60, current=100, now=NOW) == 100 - sign * in_a_minute
    rules, none = ScalingRules(0, "Max", policies or ()), ScalingRules(0, "Max", ())
    behavior = None if policies is None else Behavior(rules, none) if sign > 0 else Behavior(none, rules)
    found = add_scale_event(behavior, events, sign * 5, now=NOW)
    assert [sign * event.change for event in found] == list(kept)


def test_scale_up_counts_for_scaling_down_within_its_period() -> None:
    """Four pods five minutes ago, so two may stay; upstream has forgotten three that were added, and keeps five."""
    behavior = Behavior(ScalingRules(0, "Max", (pods(10),)), ScalingRules(0, "Max", (pods(2, 300),)))
    events = add_scale_event(behavior, ago((3, 90)), 3, now=NOW)
    found = limit_rate_by_policies(behavior, 1, events, current=10, bounds=ReplicaBounds(1, 10), now=NOW)
    assert (found.replicas, found.reason) == (2, DOWN)
