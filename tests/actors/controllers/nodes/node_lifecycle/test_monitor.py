"""Tests of the estimated time of the last eviction, for zones whose eviction queue is new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.monitor import last_evictions


def entry(zone: str, *taints: str) -> Any:
    return SimpleNamespace(facts=SimpleNamespace(zone=zone, no_execute=frozenset(taints)))


def test_zone_with_tainted_node_is_treated_as_disrupted_already() -> None:
    entries = [entry("a"), entry("b"), entry("b", "unreachable"), entry("b"), entry("c", "unreachable")]
    assert last_evictions(entries, 7.0) == {"a": None, "b": 7.0, "c": 7.0}
