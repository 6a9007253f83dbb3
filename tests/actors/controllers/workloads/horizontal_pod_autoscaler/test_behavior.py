"""Stabilization and scaling rates.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestConvertDesiredReplicasWithRules,
TestNormalizeDesiredReplicas, TestNormalizeDesiredReplicasWithBehavior, TestCalculateScaleUpLimit…,
TestCalculateScaleDownLimit…); test_policies.py has the rest.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    Behavior,
    ReplicaBounds,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    add_scale_event,
    behavior_of,
    down_limit,
    limit_rate,
    limit_rate_by_policies,
    replicas_before,
    stabilize,
    stabilize_by_windows,
    up_limit,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.histories import NOW, ago, percent, pods, recommended

ALL_AT_ONCE = ScalingRules(0, "Max", (ScalingPolicy(True, 100, 15),))


@pytest.mark.parametrize(
    ("current", "desired", "bounds", "end", "reason"),
    [
        (5, 7, (3, 8), 7, "DesiredWithinRange"),
        (3, 1, (2, 8), 2, "TooFewReplicas"),
        (20, 1000, (1, 10), 10, "TooManyReplicas"),
        (2, 0, (1, 10), 1, "TooFewReplicas"),
        (1, 0, (0, 10), 0, "DesiredWithinRange"),
        (20, 18, (1, 10), 10, "TooManyReplicas"),
        (3, 1000, (1, 2000), 6, "ScaleUpLimit"),
        (1, 9, (1, 10), 4, "ScaleUpLimit"),
        (3, 1000, (1, 5), 5, "TooManyReplicas"),
        (2, 3, (1, 10), 3, "DesiredWithinRange"),
    ],
)
def test_size_is_at_most_doubled_without_behavior(
    current: int, desired: int, bounds: tuple[int, int], end: int, reason: str
) -> None:
    found = limit_rate(desired, current=current, bounds=ReplicaBounds(*bounds))
    assert (found.replicas, found.reason) == (end, reason)


@pytest.mark.parametrize(
    ("before", "proposal", "end", "kept"),
    [
        ((), 5, 5, [5]),
        (((4, 120), (5, 60)), 3, 5, [4, 5, 3]),
        (((4, 120), (5, 60)), 7, 7, [4, 5, 7]),
        (((1, 120), (2, 60)), 3, 3, [1, 2, 3]),
        (((10, 600), (9, 540)), 3, 3, [3]),  # upstream keeps the first one, but ignores it
        (((10, 600), (4, 60), (5, 120), (9, 540)), 3, 5, [4, 5, 3]),
        (((6, 301), (5, 60)), 3, 5, [5, 3]),
        (((6, 400), (9, 301)), 3, 3, [3]),
        (((6, 300),), 3, 6, [6, 3]),
    ],
)
def test_size_is_not_below_recent_recommendations_without_behavior(
    before: tuple[tuple[int, float], ...], proposal: int, end: int, kept: list[int]
) -> None:
    found, remembers = stabilize(proposal, recommended(*before), window=300, now=NOW)
    assert found.replicas == end
    assert found.reason == ("ReadyForNewScale" if end == proposal else "ScaleDownStabilized")
    assert [recommendation.replicas for recommendation in remembers] == kept


OLD = ((10, 600), (9, 540))


@pytest.mark.parametrize(
    ("up", "down", "before", "current", "proposal", "end", "reason", "kept"),
    [
        (0, 0, (), 5, 100, 100, "ReadyForNewScale", [100]),
        (0, 0, (), 100, 5, 5, "ReadyForNewScale", [5]),
        (0, 180, ((4, 120), (5, 60)), 100, 3, 5, "ScaleDownStabilized", [4, 5, 3]),
        (300, 0, ((4, 120), (5, 60)), 1, 7, 4, "ScaleUpStabilized", [4, 5, 7]),
        (300, 0, ((1, 120), (2, 60)), 100, 3, 3, "ReadyForNewScale", [1, 2, 3]),
        (0, 300, ((4, 120), (5, 60)), 1, 3, 3, "ReadyForNewScale", [4, 5, 3]),
        (0, 0, OLD, 100, 3, 3, "ReadyForNewScale", [3]),  # upstream keeps the first one, but ignores it
        (0, 0, OLD, 1, 100, 100, "ReadyForNewScale", [100]),  # the same
        (0, 180, (*OLD, (4, 60), (5, 120)), 100, 3, 5, "ScaleDownStabilized", [4, 5, 3]),  # the same
        (300, 0, ((10, 6000), (6, 60), (5, 120), (9, 180)), 1, 100, 5, "ScaleUpStabilized", [6, 5, 9, 100]),
        (300, 300, ((2, 6000), (3, 180)), 2, 1, 2, "ScaleDownStabilized", [3, 1]),
        (300, 300, ((2, 6000), (1, 180)), 2, 3, 2, "ScaleUpStabilized", [1, 3]),
        (300, 0, ((4, 301), (9, 60)), 1, 7, 7, "ReadyForNewScale", [9, 7]),
        (0, 300, ((9, 301), (5, 60)), 100, 3, 5, "ScaleDownStabilized", [5, 3]),
        (60, 300, ((4, 120),), 2, 5, 5, "ReadyForNewScale", [4, 5]),
    ],
)
def test_size_changes_only_as_both_stabilization_windows_require(
    up: float,
    down: float,
    before: tuple[tuple[int, float], ...],
    current: int,
    proposal: int,
    end: int,
    reason: str,
    kept: list[int],
) -> None:
    behavior = Behavior(ALL_AT_ONCE._replace(window=up), ALL_AT_ONCE._replace(window=down))
    found, remembers = stabilize_by_windows(behavior, proposal, recommended(*before), current=current, now=NOW)
    assert (found.replicas, found.reason) == (end, reason)
    assert [recommendation.replicas for recommendation in remembers] == kept


MIXED = ago((1, 10), (5, 25), (9, 35))


@pytest.mark.parametrize(
    ("select", "policies", "events", "current", "limit"),
    [
        ("Max", (pods(100), percent(100)), (), 10, 110),
        ("Max", (pods(2), percent(100)), (), 10, 20),
        ("Min", (pods(2), percent(50)), (), 1, 2),
        ("Min", (pods(100), percent(100)), (), 10, 20),
        ("Disabled", (pods(100),), (), 10, 10),
        ("Max", (pods(150, 120),), MIXED, 100, 235),
        ("Max", (percent(200, 120),), MIXED, 100, 255),
        ("Max", (pods(5, 120),), MIXED, 100, 90),
        ("Max", (pods(5, 20),), MIXED, 100, 104),
        ("Max", (percent(300, 300),), ago((4, 20), (-2, 10)), 6, 16),
        ("Max", (percent(10),), (), 7, 8),
    ],
)
def test_scale_up_is_limited_by_policies(
    select: str, policies: tuple[ScalingPolicy, ...], events: tuple[ScaleEvent, ...], current: int, limit: int
) -> None:
    """Changes within a policy's period reduce or extend what the policy allows."""
    assert up_limit(ScalingRules(0, select, policies), events, current=current, now=NOW) == limit


REMOVED = ago((-2, 10), (-4, 25), (-6, 35))


@pytest.mark.parametrize(
    ("select", "policies", "events", "current", "limit"),
    [
        ("Max", (pods(20), percent(1)), (), 100, 80),
        ("Max", (pods(2), percent(50)), (), 10, 5),
        ("Min", (pods(2), percent(50)), (), 5, 3),
        ("Disabled", (pods(100),), (), 10, 10),
        ("Max", (percent(50, 120),), REMOVED, 100, 56),
        ("Max", (percent(10, 120),), ago((-10, 10), (-10, 20), (-10, 30)), 100, 117),
        ("Max", (pods(4, 120),), ago((4, 20), (-2, 10)), 6, 0),
    ],
)
def test_scale_down_is_limited_by_policies(
    select: str, policies: tuple[ScalingPolicy, ...], events: tuple[ScaleEvent, ...], current: int, limit: int
) -> None:
    assert down_limit(ScalingRules(0, select, policies), events, current=current, now=NOW) == limit


@pytest.mark.parametrize(
    ("rules", "current", "desired", "events", "bounds", "end", "reason"),
    [
        ((pods(4),), 10, 500, (), (1, 1000), 14, "ScaleUpLimit"),
        ((pods(4),), 10, 500, (), (1, 12), 12, "TooManyReplicas"),
        ((pods(4),), 10, 500, ((9, 5),), (1, 1000), 10, "ScaleUpLimit"),
        ((pods(4),), 10, 12, (), (1, 1000), 12, "DesiredWithinRange"),
        ((pods(4),), 10, 1, (), (1, 1000), 6, "ScaleDownLimit"),
        ((pods(4),), 10, 1, (), (7, 1000), 7, "TooFewReplicas"),
        ((percent(10, 120),), 100, 1, ((-10, 10), (-10, 20), (-10, 30)), (1, 1000), 100, "ScaleDownLimit"),
        ((pods(4),), 10, 10, (), (1, 1000), 10, "DesiredWithinRange"),
    ],
)
def test_limits_never_reverse_the_direction(
    rules: tuple[ScalingPolicy, ...],
    current: int,
    desired: int,
    events: tuple[tuple[int, float], ...],
    bounds: tuple[int, int],
    end: int,
    reason: str,
) -> None:
    behavior = Behavior(ScalingRules(0, "Max", rules), ScalingRules(0, "Max", rules))
    found = limit_rate_by_policies(
        behavior, desired, ago(*events), current=current, bounds=ReplicaBounds(*bounds), now=NOW
    )
    assert (found.replicas, found.reason) == (end, reason)


def test_only_events_within_the_period_are_counted() -> None:
    assert replicas_before(ago((2, 29), (3, 59), (5, 60), (7, 61)), 60, current=20, now=NOW) == 15


def test_events_are_kept_for_the_longest_period_with_behavior() -> None:
    behavior = Behavior(ScalingRules(0, "Max", (pods(1, 30), pods(1, 60))), ScalingRules(0, "Max", (pods(1, 20),)))
    kept = add_scale_event(behavior, ago((1, 61), (2, 60), (-3, 10)), 4, now=NOW)
    assert [event.change for event in kept] == [2, -3, 4]
    assert add_scale_event(None, ago((1, 10)), 4, now=NOW) == ()


def test_unset_behavior_fields_have_upstreams_defaults() -> None:
    assert behavior_of({}, window=300) is None
    policies = [{"type": "Percent", "value": 50, "periodSeconds": 15}]
    found = behavior_of({"behavior": {"scaleDown": {"policies": policies}}}, window=300)
    assert found == Behavior(ScalingRules(0, "Max", ()), ScalingRules(300, "Max", (percent(50, 15),)))
