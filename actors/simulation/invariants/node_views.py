"""What managers can know of nodes: what their tables have shown over time, and what they have read live.

A process is looked at whenever a node changes on the server, and once a second. What came and went in its table between
two looks is not seen here; so times are taken as early as they may have been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from actors.app.system import ControllerSystem
from actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Committed, Observation, OutcomeReceived, ProcessStarted
from actors.simulation.invariants.zone_rates import eviction_rates
from protocols.messages.commands import Get
from protocols.messages.outcomes import Done
from protocols.nodes import NO_EXECUTE
from protocols.objects import Object, decode_object, resource_version_of
from protocols.resources import NODES

LOOK = 1.0  # seconds
KEPT = 120.0  # seconds for which rates are remembered

Taint = tuple[str, str, str]  # key, value, effect


class TaintedNode:
    """A node that a process sees tainted NoExecute. since: it was not before that. seen: all taints since."""

    __slots__ = ("seen", "since", "uid")

    def __init__(self, uid: str, since: float) -> None:
        self.uid, self.since = uid, since
        self.seen: set[tuple[Taint, ...]] = set()


class View:
    """One process. rates: (when, nodes a second by zone), as its table of nodes gives them, now's last."""

    def __init__(self, system: ControllerSystem, now: float) -> None:
        self.system = system
        self.looked = now
        self.rates: deque[tuple[float, Mapping[str, float]]] = deque()
        self.tainted: dict[str, TaintedNode] = {}  # by name
        self._live: dict[tuple[str, str], Object] = {}  # (sender, node) → as it was last read live

    def look(self, now: float, limits: EvictionLimits) -> None:
        table = self.system.tables[NODES.id]
        entries = table.entries()
        rates = eviction_rates([entry.facts for entry in entries], limits)
        if not self.rates or self.rates[-1][1] != rates or self.rates[-1][0] < now:
            self.rates.append((now, rates))
        while self.rates[0][0] < now - KEPT:
            self.rates.popleft()
        present = set()
        for entry in entries:
            taints = no_execute(decode_object(entry.raw)) if NO_EXECUTE.encode() in entry.raw else ()
            if not taints:
                continue
            present.add(entry.key)
            known = self.tainted.get(entry.key)
            if known is None or known.uid != entry.uid:
                known = self.tainted[entry.key] = TaintedNode(entry.uid, self.looked)
            known.seen.add(taints)
        for name in self.tainted.keys() - present:
            del self.tainted[name]
        self.looked = now

    def read(self, sender: str, name: str, body: bytes) -> None:
        self._live[sender, name] = decode_object(body)

    def node(self, sender: str, name: str) -> Object | None:
        """The newest that this sender can know of the node."""
        entry, read = self.system.tables[NODES.id].get(name), self._live.get((sender, name))
        shown = None if entry is None else decode_object(entry.raw)
        if read is None or (shown is not None and _version(shown) >= _version(read)):
            return shown
        return None if shown is None else read  # a node that the table does not show any more is gone

    def highest_rate(self, zone: str, since: float) -> float:
        """That the zone may have been evicted at, by what was seen since then; at least by the last look."""
        seen = [rates.get(zone, 0.0) for when, rates in self.rates if when >= since]
        return max(seen or [self.rates[-1][1].get(zone, 0.0) if self.rates else 0.0])


class Views:
    """All managers that run, by the name of their process. Passed every observation."""

    def __init__(self, cluster: SimulatedCluster, limits: EvictionLimits) -> None:
        self._clock, self._limits = cluster.clock, limits
        self._looked = 0.0
        self._views: dict[str, View] = {}

    def observe(self, observation: Observation) -> None:
        now = self._clock.monotonic()
        match observation:
            case ProcessStarted(process, system) if process.startswith("manager"):
                self._views[process] = View(system, now)
            case Committed(changes):
                if now - self._looked >= LOOK or any(change.storage == "nodes" for change in changes):
                    self.look()
            case OutcomeReceived(process, _, sender, Get(resource=NODES.id, key=name), Done(body)) if (
                process in self._views
            ):
                self._views[process].read(sender, name, body)

    def look(self) -> None:
        self._looked = now = self._clock.monotonic()
        for view in self._views.values():
            if view.system.tables[NODES.id].synced:
                view.look(now, self._limits)

    def of(self, process: str) -> View:
        return self._views[process]


def no_execute(node: Object) -> tuple[Taint, ...]:
    taints: Sequence[Mapping[str, Any]] = (node.get("spec") or {}).get("taints") or ()
    return tuple(
        (taint["key"], taint.get("value") or "", NO_EXECUTE) for taint in taints if taint.get("effect") == NO_EXECUTE
    )


def _version(obj: Object) -> int:
    return int(resource_version_of(obj))
