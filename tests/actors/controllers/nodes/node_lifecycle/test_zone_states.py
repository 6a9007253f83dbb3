"""How many nodes count in each zone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.zone_states import zone_healths
from kcm.actors.controllers.nodes.node_lifecycle.zones import ZoneHealth


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
def test_excluded_and_unclear_nodes_do_not_count(
    entries: list[Any], unclear: tuple[str, ...], expected: dict[str, ZoneHealth]
) -> None:
    assert zone_healths(entries, unclear) == expected
