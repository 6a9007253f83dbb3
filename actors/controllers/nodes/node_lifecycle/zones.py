"""States of zones, and the eviction rates that follow from them.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, ComputeZoneState, handleDisruption,
setLimiterInZone. Differences: a rate follows the state and the size of the zone as they are, not as they were when the
state last changed; and whether a zone counts as disrupted before does not depend on the order of the zones
(kubernetes/kubernetes#111385).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.protocols.late_methods import dataclass
from kcm.protocols.nodes import NodeFacts
from kcm.runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class ZoneState(StrEnum):
    """State of a zone; INITIAL before its first assessment."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class Mode(StrEnum):
    """Change of master disruption mode (all zones are fully disrupted) by an assessment."""

    ENTERED = "entered"
    LEFT = "left"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class ZoneHealth:
    """Number of nodes of a zone whose condition Ready is True, and of those where it is not, or is missing."""

    ready: int
    not_ready: int

    @property
    def size(self) -> int:
        return self.ready + self.not_ready


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionLimits:
    """Limits of evictions. Rates are in nodes per second."""

    eviction_rate: float = 0.1  # --node-eviction-rate
    # --secondary-node-eviction-rate, in a partially disrupted zone of more than large_zone nodes; 0 in a smaller one
    secondary_rate: float = 0.01
    full_disruption_rate: float = 0.1  # in a fully disrupted zone while others are not
    large_zone: int = 50  # --large-cluster-size-threshold
    unhealthy_threshold: float = 0.55  # fraction, --unhealthy-zone-threshold
    pause_when_disrupted: bool = False  # --pause-evictions-in-disrupted-zones


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """Outcome of an assessment, by zone."""

    states: Mapping[str, ZoneState]
    rates: Mapping[str, float]
    spared: frozenset[str]  # zones whose nodes are not evicted, and lose this controller's NoExecute taints
    all_down: bool  # master disruption mode is on
    mode: Mode


def zone_state(health: ZoneHealth, *, unhealthy_threshold: float) -> ZoneState:
    """Return the state of a zone (upstream: ComputeZoneState).

    An empty zone is NORMAL. One or two nodes that are not ready are a disruption only if the zone has no others.
    """
    if health.ready == 0 and health.not_ready > 0:
        return ZoneState.FULL_DISRUPTION
    if health.not_ready > 2 and health.not_ready / health.size >= unhealthy_threshold:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


def eviction_rate(state: ZoneState, size: int, limits: EvictionLimits) -> float:
    """Return the eviction rate of a zone (upstream: setLimiterInZone). size: number of counted nodes in the zone."""
    match state:
        case ZoneState.PARTIAL_DISRUPTION:
            return limits.secondary_rate if size > limits.large_zone else 0.0
        case ZoneState.FULL_DISRUPTION:
            return limits.full_disruption_rate
        case _:
            return limits.eviction_rate


def assess(zones: Mapping[str, ZoneHealth], limits: EvictionLimits, *, was_all_down: bool) -> Disruption:
    """Assess all zones (upstream: handleDisruption).

    When all zones are down, it is more likely that the controller is disconnected than that every node has failed.

    zones: every zone that has nodes, including zones without counted nodes. was_all_down: all_down of the last
    assessment.
    """
    states = {
        zone: zone_state(health, unhealthy_threshold=limits.unhealthy_threshold) for zone, health in zones.items()
    }
    counted = [zone for zone, health in zones.items() if health.size]
    all_down = all(states[zone] is ZoneState.FULL_DISRUPTION for zone in counted) if counted else was_all_down
    if all_down:
        return Disruption(
            states=dict.fromkeys(zones, ZoneState.FULL_DISRUPTION),
            rates=dict.fromkeys(zones, 0.0),
            spared=frozenset(zones),
            all_down=True,
            mode=Mode.UNCHANGED if was_all_down else Mode.ENTERED,
        )
    disrupted = frozenset(
        zone for zone, state in states.items() if state in (ZoneState.PARTIAL_DISRUPTION, ZoneState.FULL_DISRUPTION)
    )
    spared = disrupted if limits.pause_when_disrupted else frozenset()
    return Disruption(
        states=states,
        rates={
            zone: 0.0 if zone in spared else eviction_rate(states[zone], health.size, limits)
            for zone, health in zones.items()
        },
        spared=spared,
        all_down=False,
        mode=Mode.LEFT if was_all_down else Mode.UNCHANGED,
    )


def zone_healths(entries: Iterable[Entry], unclear: Container[str]) -> dict[str, ZoneHealth]:
    """Count the nodes of every zone that has nodes.

    Nodes that are excluded from disruption checks are not counted, nor are unclear nodes, given by name.
    """
    counts: dict[str, list[int]] = {}
    for entry in entries:
        facts: NodeFacts = entry.facts
        count = counts.setdefault(facts.zone, [0, 0])
        if not facts.excluded and entry.key not in unclear:
            count[0 if facts.ready == "True" else 1] += 1
    return {zone: ZoneHealth(ready, not_ready) for zone, (ready, not_ready) in counts.items()}


class ZoneStates:
    """States of all zones since the last pass, with their log lines and metrics."""

    def __init__(self, *, log: FilteringBoundLogger, metrics: NodeLifecycleMetrics, limits: EvictionLimits) -> None:
        self._log, self._metrics, self._limits = log, metrics, limits
        self._states: dict[str, ZoneState] = {}
        self._all_down = False
        self.spared: frozenset[str] = frozenset()  # zones whose nodes are not evicted, see Disruption

    def assess(self, entries: Iterable[Entry], unclear: Container[str]) -> Disruption:
        zones = zone_healths(entries, unclear)
        found = assess(zones, self._limits, was_all_down=self._all_down)
        for zone in self._states.keys() - zones.keys():
            self._metrics.zone(zone, ready=0, not_ready=0)
        for zone, health in zones.items():
            self._metrics.zone(zone, ready=health.ready, not_ready=health.not_ready)
            if zone not in self._states:
                self._metrics.evictions(zone)  # create the counter, at 0
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
