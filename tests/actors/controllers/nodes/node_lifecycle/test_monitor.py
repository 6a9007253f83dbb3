"""What a pass concludes for zones whose queues are yet to be started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.monitor import last_evictions


def entry(zone: str, *taints: str) -> Any:
    return SimpleNamespace(facts=SimpleNamespace(zone=zone, no_execute=frozenset(taints)))


def test_a_zone_with_a_tainted_node_counts_as_in_the_middle_of_an_outage() -> None:
    entries = [entry("a"), entry("b"), entry("b", "unreachable"), entry("b"), entry("c", "unreachable")]
    assert last_evictions(entries, 7.0) == {"a": None, "b": 7.0, "c": 7.0}
