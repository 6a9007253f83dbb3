"""Nodes as each manager process has observed them: the content of its cache over time, and responses of the server.

The cache of a process is sampled whenever a node changes on the server, and once a second. A change of the cache occurs
at an unknown time between two samples; it is dated to the earlier sample.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.zone_rates import eviction_rates
from kcm.actors.simulation.invariants.observer import (
    Committed,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    decoded,
)
from kcm.protocols.messages.commands import Get, Patch, Update
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.nodes import LEASE_NAMESPACE, NO_EXECUTE, NodeFacts, node_facts
from kcm.protocols.objects import Object, decode_object, make_key, resource_version_of
from kcm.protocols.resources import LEASES, NODES
from kcm.runtime.tables.table import Entry

LIFECYCLE = controller_name("node-lifecycle-controller")
SAMPLE_INTERVAL = 1.0  # maximum seconds between two samples
KEPT = 120.0  # seconds for which rates are kept

Taint = tuple[str, str, str]  # key, value, effect


class TaintedNode:
    """Node that has NoExecute taints in a process's informer cache.

    since: virtual time of the last sample at which it had none.
    seen: all combinations of NoExecute taints that it has had since then.
    """

    __slots__ = ("seen", "since", "uid")

    def __init__(self, uid: str, since: float) -> None:
        self.uid, self.since = uid, since
        self.seen: set[tuple[Taint, ...]] = set()


class _Returned(NamedTuple):
    """Node in a response to one sender.

    version: resourceVersion.
    epoch: epoch of the informer cache of nodes at that time; versions of different epochs cannot be compared.
    """

    node: Object
    facts: NodeFacts
    version: int
    epoch: int


class ObservedNodes:
    """Nodes as one process has observed them, and the eviction rates that its node lifecycle controller may compute.

    rates: (virtual time, eviction rate by zone in nodes per second), in order of time.
    tainted: nodes with NoExecute taints, by name.

    When the controller fails to write the status of a silent node, it excludes the node from the size of its zone,
    until the node or its Lease changes. An observer cannot determine exactly when this is the case, so the higher of
    the rates with and without such nodes is used.
    """

    def __init__(self, system: ControllerSystem, now: float) -> None:
        self.system = system
        self.sampled_at = now
        self.rates: deque[tuple[float, Mapping[str, float]]] = deque()
        self.tainted: dict[str, TaintedNode] = {}  # by name
        self._returned: dict[tuple[str, str], _Returned] = {}  # by sender and node
        self._unclear: dict[str, tuple[int, int]] = {}  # excluded silent nodes: versions of the node and its Lease
        self._contested: set[str] = set()  # nodes that are read again because a write of the status had a conflict
        self._sampled: list[Entry] | None = None  # entries of the latest sample; None if other input has changed since

    def sample(self, now: float, limits: EvictionLimits) -> None:
        """Record the nodes in the cache, and the eviction rates that follow from them."""
        entries = self.system.tables[NODES.id].entries()
        if entries == self._sampled and not self._unclear:  # by identity: an Entry never changes
            rates = self.rates[-1][1]
        else:
            rates = self._sample_entries(entries, limits)
        if not self.rates or self.rates[-1][1] != rates or self.rates[-1][0] < now:
            self.rates.append((now, rates))
        while self.rates[0][0] < now - KEPT:
            self.rates.popleft()
        self.sampled_at, self._sampled = now, entries

    def _sample_entries(self, entries: Sequence[Entry], limits: EvictionLimits) -> Mapping[str, float]:
        """Record the taints of the nodes, and return the eviction rates of their zones."""
        self._unclear = {name: seen for name, seen in self._unclear.items() if self._signs(name) == seen}
        rates = eviction_rates([self._facts(entry) for entry in entries], limits)
        if self._unclear:
            clear = [self._facts(entry) for entry in entries if entry.key not in self._unclear]
            without = eviction_rates(clear, limits)
            rates = {zone: max(rate, without.get(zone, 0.0)) for zone, rate in rates.items()}
        present = set()
        for entry in entries:
            taints = no_execute(decoded(entry.raw)) if NO_EXECUTE.encode() in entry.raw else ()
            if not taints:
                continue
            present.add(entry.key)
            known = self.tainted.get(entry.key)
            if known is None or known.uid != entry.uid:
                known = self.tainted[entry.key] = TaintedNode(entry.uid, self.sampled_at)
            known.seen.add(taints)
        for name in self.tainted.keys() - present:
            del self.tainted[name]
        return rates

    def returned(self, sender: str, command: Get | Update | Patch, outcome: Outcome) -> None:
        """Record the outcome of a command on a node. sender: name of the actor that submitted the command."""
        name, self._sampled = command.key, None
        if isinstance(outcome, Done):
            node = decode_object(outcome.body)
            epoch = self.system.tables[NODES.id].epoch
            self._returned[sender, name] = _Returned(node, node_facts(node), _version(node), epoch)
        of_status = isinstance(command, Update) and command.subresource == "status"
        is_retry = isinstance(command, Get) and name in self._contested
        if sender != LIFECYCLE or not (of_status or is_retry):
            return
        self._contested.discard(name)
        if of_status and isinstance(outcome, Conflict):
            self._contested.add(name)
        elif isinstance(outcome, Done | NotFound):
            self._unclear.pop(name, None)
        else:
            self._unclear[name] = self._signs(name)

    def node(self, sender: str, name: str) -> Object | None:
        """Return the newest version of a node that the sender has observed, in its informer cache or in a response.

        None if the cache does not contain the node.
        """
        entry = self.system.tables[NODES.id].get(name)
        if entry is None:
            return None  # the table shows that the node is deleted
        newer = self._newer(sender, entry)
        return decode_object(entry.raw) if newer is None else newer.node

    def _newer(self, sender: str, entry: Entry) -> _Returned | None:
        """Return the node from a response to the sender, if its version is newer than the informer cache's entry."""
        found = self._returned.get((sender, entry.key))
        if found is None or found.epoch != self.system.tables[NODES.id].epoch:
            return None
        return found if found.version > entry.resource_version else None

    def _facts(self, entry: Entry) -> NodeFacts:
        newer = self._newer(LIFECYCLE, entry)
        facts: NodeFacts = entry.facts if newer is None else newer.facts
        return facts

    def _signs(self, name: str) -> tuple[int, int]:
        """Return (version of a node, version of its Lease) in the caches; 0 if the cache does not contain it."""
        node = self.system.tables[NODES.id].get(name)
        lease = self.system.tables[LEASES.id].get(make_key(LEASE_NAMESPACE, name))
        return (0 if node is None else node.resource_version), (0 if lease is None else lease.resource_version)

    def highest_rate(self, zone: str, since: float) -> float:
        """Return the highest eviction rate of a zone since a virtual time; without a sample the latest rate."""
        seen = [rates.get(zone, 0.0) for when, rates in self.rates if when >= since]
        return max(seen or [self.rates[-1][1].get(zone, 0.0) if self.rates else 0.0])


class NodesByProcess:
    """Views of all running managers, by name of the process. `observe` must be called with every observation."""

    def __init__(self, cluster: SimulatedCluster, limits: EvictionLimits) -> None:
        self._clock, self._limits = cluster.clock, limits
        self._sampled_at = 0.0
        self._views: dict[str, ObservedNodes] = {}

    def observe(self, observation: Observation) -> None:
        now = self._clock.monotonic()
        match observation:
            case ProcessStarted(process, system) if process.startswith("manager"):
                self._views[process] = ObservedNodes(system, now)
            case Committed(changes):
                if now - self._sampled_at >= SAMPLE_INTERVAL or any(change.storage == "nodes" for change in changes):
                    self.sample()
            case OutcomeReceived(process, _, sender, Get() | Update() | Patch() as command, outcome) if (
                command.resource == NODES.id and process in self._views
            ):
                self._views[process].returned(sender, command, outcome)
                if sender == LIFECYCLE:
                    self.sample()

    def sample(self) -> None:
        self._sampled_at = now = self._clock.monotonic()
        for view in self._views.values():
            if view.system.tables[NODES.id].synced:
                view.sample(now, self._limits)

    def of(self, process: str) -> ObservedNodes:
        return self._views[process]


def no_execute(node: Object) -> tuple[Taint, ...]:
    taints: Sequence[Mapping[str, Any]] = (node.get("spec") or {}).get("taints") or ()
    return tuple(
        (taint["key"], taint.get("value") or "", NO_EXECUTE) for taint in taints if taint.get("effect") == NO_EXECUTE
    )


def _version(obj: Object) -> int:
    return int(resource_version_of(obj))
