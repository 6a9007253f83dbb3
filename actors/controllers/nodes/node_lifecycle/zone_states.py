"""The states of all zones from pass to pass, with their log lines and metrics. The decisions are in zones.py."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.zones import (
    Disruption,
    EvictionLimits,
    Mode,
    ZoneHealth,
    ZoneState,
    assess,
)
from kcm.protocols.nodes import NodeFacts
from kcm.runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def zone_healths(entries: Iterable[Entry], unclear: Container[str]) -> dict[str, ZoneHealth]:
    """Every zone that has nodes. Excluded and unclear nodes are not counted. unclear: names."""
    counts: dict[str, list[int]] = {}
    for entry in entries:
        facts: NodeFacts = entry.facts
        count = counts.setdefault(facts.zone, [0, 0])
        if not facts.excluded and entry.key not in unclear:
            count[0 if facts.ready == "True" else 1] += 1
    return {zone: ZoneHealth(ready, not_ready) for zone, (ready, not_ready) in counts.items()}


class ZoneStates:
    """spared: zones whose nodes are not evicted, see Disruption."""

    def __init__(self, *, log: FilteringBoundLogger, metrics: NodeLifecycleMetrics, limits: EvictionLimits) -> None:
        self._log, self._metrics, self._limits = log, metrics, limits
        self._states: dict[str, ZoneState] = {}
        self._all_down = False
        self.spared: frozenset[str] = frozenset()

    def assess(self, entries: Iterable[Entry], unclear: Container[str]) -> Disruption:
        zones = zone_healths(entries, unclear)
        found = assess(zones, self._limits, was_all_down=self._all_down)
        for zone in self._states.keys() - zones.keys():
            self._metrics.zone(zone, ready=0, not_ready=0)
        for zone, health in zones.items():
            self._metrics.zone(zone, ready=health.ready, not_ready=health.not_ready)
            if zone not in self._states:
                self._metrics.evictions(zone)  # reported from now on, at 0
        self._log_changes(found)
        self._states, self._all_down, self.spared = dict(found.states), found.all_down, found.spared
        return found

    def _log_changes(self, found: Disruption) -> None:
        if found.mode is Mode.ENTERED:
            self._log.info("Controller detected that all Nodes are not-Ready. Entering master disruption mode")
        elif found.mode is Mode.LEFT:
            self._log.info("Controller detected that some Nodes are Ready. Exiting master disruption mode")
        for zone, state in found.states.items():
            if state is not self._states.get(zone, ZoneState.INITIAL):
                self._log.info("Controller detected that zone is now in new state", zone=zone, newState=state.value)
