"""Tests of the disruption states of zones, and of the eviction rates that follow from them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.zones import (
    EvictionLimits,
    Mode,
    ZoneHealth,
    ZoneState,
    assess,
    zone_healths,
    zone_state,
)

NORMAL, PARTIAL, FULL = ZoneState.NORMAL, ZoneState.PARTIAL_DISRUPTION, ZoneState.FULL_DISRUPTION


@pytest.mark.parametrize(
    ("ready", "not_ready", "state"),
    [
        (0, 0, NORMAL),
        (1, 0, NORMAL),
        (0, 1, FULL),
        (0, 50, FULL),
        (1, 2, NORMAL),  # up to two unready nodes never disrupt a zone
        (1, 3, PARTIAL),
        (3, 2, NORMAL),
        (2, 3, PARTIAL),
        (9, 11, PARTIAL),  # 0.55
        (10, 11, NORMAL),
    ],
)
def test_state_of_zone_depends_on_the_share_of_unready_nodes(ready: int, not_ready: int, state: ZoneState) -> None:
    assert zone_state(ZoneHealth(ready, not_ready), unhealthy_threshold=0.55) is state


LIMITS = EvictionLimits(eviction_rate=0.1, secondary_rate=0.01, full_disruption_rate=0.5, large_zone=50)
WELL, DOWN = ZoneHealth(10, 0), ZoneHealth(0, 10)


@pytest.mark.parametrize(
    ("health", "rate"),
    [
        (WELL, 0.1),
        (DOWN, 0.5),
        (ZoneHealth(4, 6), 0.0),
        (ZoneHealth(20, 30), 0.0),  # a zone of 50 nodes is not large
        (ZoneHealth(20, 31), 0.01),
        (ZoneHealth(0, 0), 0.1),
    ],
)
def test_rate_of_zone_depends_on_its_state_and_size(health: ZoneHealth, rate: float) -> None:
    found = assess({"a": health, "b": WELL}, LIMITS, was_all_down=False)
    assert (found.rates["a"], found.spared, found.mode) == (rate, frozenset(), Mode.UNCHANGED)


@pytest.mark.parametrize(
    ("zones", "was_all_down", "all_down", "mode"),
    [
        ({"a": DOWN, "b": DOWN}, False, True, Mode.ENTERED),
        ({"a": DOWN, "b": DOWN}, True, True, Mode.UNCHANGED),
        ({"a": DOWN, "b": WELL}, True, False, Mode.LEFT),
        ({"a": DOWN, "b": WELL}, False, False, Mode.UNCHANGED),
        ({"a": DOWN, "b": ZoneHealth(0, 0)}, False, True, Mode.ENTERED),  # no node of zone b is counted
        ({}, False, False, Mode.UNCHANGED),
        ({}, True, True, Mode.UNCHANGED),
    ],
)
def test_master_disruption_mode(zones: dict[str, ZoneHealth], was_all_down: bool, all_down: bool, mode: Mode) -> None:
    found = assess(zones, LIMITS, was_all_down=was_all_down)
    assert (found.all_down, found.mode) == (all_down, mode)
    if all_down:
        assert set(found.rates.values()) <= {0.0}
        assert found.spared == set(zones)


def test_flag_disables_evictions_in_disrupted_zones() -> None:
    limits = EvictionLimits(pause_when_disrupted=True)
    found = assess({"a": DOWN, "b": ZoneHealth(4, 6), "c": WELL}, limits, was_all_down=False)
    assert found.spared == {"a", "b"}
    assert found.rates == {"a": 0.0, "b": 0.0, "c": 0.1}


def entry(name: str, zone: str, ready: str | None, *, excluded: bool = False) -> Any:
    return SimpleNamespace(key=name, facts=SimpleNamespace(zone=zone, ready=ready, excluded=excluded))


@pytest.mark.parametrize(
    ("entries", "unclear", "expected"),
    [
        ([], (), {}),
        ([entry("a", "z", "True"), entry("b", "z", "Unknown"), entry("c", "z", None)], (), {"z": ZoneHealth(1, 2)}),
        ([entry("a", "y", "True"), entry("b", "z", "False")], (), {"y": ZoneHealth(1, 0), "z": ZoneHealth(0, 1)}),
        ([entry("a", "z", "True", excluded=True)], (), {"z": ZoneHealth(0, 0)}),
        ([entry("a", "z", "Unknown"), entry("b", "z", "True")], ("a",), {"z": ZoneHealth(1, 0)}),
    ],
)
def test_excluded_nodes_and_nodes_without_condition_are_not_counted(
    entries: list[Any], unclear: tuple[str, ...], expected: dict[str, ZoneHealth]
) -> None:
    assert zone_healths(entries, unclear) == expected
