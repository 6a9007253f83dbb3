"""Disruption states of zones, and the eviction rates that follow from them.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, ComputeZoneState, handleDisruption,
setLimiterInZone. Differences: the rate is computed from the current state and size of the zone, not only when the state
changes; and the result does not depend on the order of the zones (kubernetes/kubernetes#111385).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.engine.vitals import ZonesVitals, ZoneVitals
from kcm.protocols.nodes import NodeFacts
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


ZONES = "zones"  # name of the vitals


class ZoneState(StrEnum):
    """Disruption state of a zone, by its share of nodes that are not ready. INITIAL before it is first computed."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class Mode(StrEnum):
    """Transition of the master disruption mode, in which all zones are fully disrupted and no node is evicted."""

    ENTERED = "entered"
    LEFT = "left"
    UNCHANGED = "unchanged"


class ZoneHealth(Struct, frozen=True):
    """Numbers of ready and other nodes in a zone, from which its disruption state is computed."""

    ready: int  # nodes whose condition Ready is True
    not_ready: int  # nodes whose condition Ready is False, Unknown or missing

    @property
    def size(self) -> int:
        return self.ready + self.not_ready


class EvictionLimits(Struct, frozen=True, kw_only=True):
    """Eviction rates, in nodes per second, and the thresholds that determine which of them applies to a zone."""

    eviction_rate: float = 0.1  # --node-eviction-rate
    # --secondary-node-eviction-rate, in a partially disrupted zone of more than large_zone nodes; 0 in a smaller one
    secondary_rate: float = 0.01
    full_disruption_rate: float = 0.1  # in a fully disrupted zone, while other zones are not fully disrupted
    large_zone: int = 50  # --large-cluster-size-threshold
    unhealthy_threshold: float = 0.55  # fraction, --unhealthy-zone-threshold
    pause_when_disrupted: bool = False  # --pause-evictions-in-disrupted-zones


class Disruption(Struct, frozen=True, kw_only=True):
    """Disruption states of all zones, with the eviction rates that follow from them. Returned by `assess`."""

    states: Mapping[str, ZoneState]
    rates: Mapping[str, float]  # nodes per second
    spared: frozenset[str]  # zones whose nodes are not evicted, and lose this controller's NoExecute taints
    all_down: bool  # master disruption mode is on
    mode: Mode

    @property
    def disrupted(self) -> list[str]:
        """Names of the zones that are disrupted, partially or fully."""
        return [zone for zone, state in self.states.items() if state is not ZoneState.NORMAL]


def zone_state(health: ZoneHealth, *, unhealthy_threshold: float) -> ZoneState:
    """Return the disruption state of a zone (upstream: ComputeZoneState).

    An empty zone is NORMAL. One or two nodes that are not ready disrupt a zone only if it has no ready nodes.

    unhealthy_threshold: fraction of nodes that must be not ready for PARTIAL_DISRUPTION.
    """
    if health.ready == 0 and health.not_ready > 0:
        return ZoneState.FULL_DISRUPTION
    if health.not_ready > 2 and health.not_ready / health.size >= unhealthy_threshold:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


def eviction_rate(state: ZoneState, size: int, limits: EvictionLimits) -> float:
    """Return the eviction rate of a zone in nodes per second (upstream: setLimiterInZone).

    size: number of nodes in the zone, without those that are excluded from disruption checks.
    """
    match state:
        case ZoneState.PARTIAL_DISRUPTION:
            return limits.secondary_rate if size > limits.large_zone else 0.0
        case ZoneState.FULL_DISRUPTION:
            return limits.full_disruption_rate
        case _:
            return limits.eviction_rate


def assess(zones: Mapping[str, ZoneHealth], limits: EvictionLimits, *, was_all_down: bool) -> Disruption:
    """Return the disruption state and eviction rate of all zones (upstream: handleDisruption).

    If all zones are fully disrupted, all rates are 0: it is more likely that the controller is disconnected than that
    every node has failed.

    zones: every zone that has nodes, including zones whose nodes are all excluded from disruption checks.
    was_all_down: all_down of the previous result.
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
    """Count the ready and the other nodes of each zone.

    Nodes with the label that excludes them from disruption checks are not counted. If a zone has no other nodes, both
    of its counts are 0.

    unclear: names of nodes whose liveness is unknown, which are not counted either.
    """
    counts: dict[str, list[int]] = {}
    for entry in entries:
        facts: NodeFacts = entry.facts
        count = counts.setdefault(facts.zone, [0, 0])
        if not facts.excluded and entry.key not in unclear:
            count[0 if facts.ready == "True" else 1] += 1
    return {zone: ZoneHealth(ready, not_ready) for zone, (ready, not_ready) in counts.items()}


class ZoneStates:
    """Disruption states of all zones as of the last pass over the nodes. Logs changes and updates the metrics."""

    def __init__(
        self, *, log: FilteringBoundLogger, metrics: NodeLifecycleMetrics, limits: EvictionLimits, vitals: Vitals
    ) -> None:
        self._vitals = vitals
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
                self._metrics.evictions(zone)  # creates the counter of the zone, with value 0
        self._log_changes(found)
        self._vitals.say(
            ZONES,
            ZonesVitals(
                {
                    zone: ZoneVitals(
                        state=found.states[zone].value,
                        ready=health.ready,
                        not_ready=health.not_ready,
                        rate=found.rates[zone],
                        spared=zone in found.spared,
                    )
                    for zone, health in zones.items()
                }
            ),
        )
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
