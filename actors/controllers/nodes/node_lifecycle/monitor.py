"""One pass over all nodes: who is silent, how disrupted zones are, who waits for eviction.

What is decided about one node is in its neighbours (health, zones, taints); this is the order in which it happens:
nodes come and gone are noted; the silent ones' conditions are set to Unknown; only then are zones assessed, their
queues told their rates, and only after that who waits in them. So the first token of a zone that has just broken down
is not spent before its rate is cut (upstream's two loops race here).

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, monitorNodeHealth. Difference: a
node's NoExecute taint is left where it is when a new incarnation first sees the node, if its condition still asks for
it; there it is taken off and set again, and all tolerationSeconds begin anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from actors.controllers.nodes.node_lifecycle.conditions import silent_node
from actors.controllers.nodes.node_lifecycle.health import (
    NodeHealth,
    Verdict,
    is_over,
    observe,
    taken_for_silent,
    verdict,
)
from actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from actors.controllers.nodes.node_lifecycle.settings import LifecycleSettings
from actors.controllers.nodes.node_lifecycle.taints import NOTHING, taint_patch, waits_for_eviction
from actors.controllers.nodes.node_lifecycle.zone_queues import Waiting, ZoneQueues
from actors.controllers.nodes.node_lifecycle.zones import Disruption, Mode, ZoneHealth, ZoneState, assess
from actors.reconciliation import Step, get_live, patch, together, update
from protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from protocols.messages.recording import Record
from protocols.nodes import LEASE_NAMESPACE, NodeFacts, lease_facts, node_facts
from protocols.objects import decode_object, make_key
from protocols.resources import LEASES, NODES, Resource
from runtime.scheduling.clock import Clock
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

AT_ONCE = 50  # writes that go together; what is to be written is looked at again before each
DEAF = 75.0  # seconds; an idle watch brings a bookmark each minute, so longer silence is the server's or the network's
TRIES = 5  # of one status, after conflicts. Source: scheduler.NodeHealthUpdateRetry

T = TypeVar("T")


class NodeMonitor:
    """Remembers each node's health, by name, and what the zones are in."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: NodeLifecycleMetrics,
        settings: LifecycleSettings,
        queues: ZoneQueues,
    ) -> None:
        self._nodes, self._leases = tables[NODES], tables[LEASES]
        self._tables = tables
        self._clock, self._log, self._metrics = clock, log, metrics
        self._settings, self._queues = settings, queues
        self._healths: dict[str, NodeHealth] = {}
        self._known: dict[str, str] = {}  # uids of the nodes that the last pass saw, by name
        self._states: dict[str, ZoneState] = {}
        self._all_down = self._doubted = False
        self._leases_heard: float | None = None  # as the last pass found it
        self.spared: frozenset[str] = frozenset()  # zones, see Disruption

    def health(self, node: str) -> NodeHealth | None:
        """None before the first pass that saw it."""
        return self._healths.get(node)

    def run(self) -> Step[None]:
        """The pass."""
        began = self._clock.monotonic()
        entries = self._nodes.entries()
        yield from self._note_nodes(entries)
        silent, doubtful = self._look(entries)
        if doubtful:
            silent += yield from self._ask_for_leases(doubtful)
        unclear = yield from self._give_up(silent)
        entries = self._nodes.entries()
        disruption = self._assess(entries, unclear)
        yield from self._queues.keep(self._zones_in_need(entries))
        if disruption.mode is Mode.LEFT:
            self._start_clocks_again()
        yield from self._queues.set_rates(disruption.rates)
        self._queues.forget(
            entry.key for entry in entries if entry.facts.zone in self.spared or entry.facts.ready == "True"
        )
        yield from self._queues.set_waiting(self._waiting(entries, unclear))
        yield from self._take_taints_back(entries)
        self._metrics.all_nodes.observe(self._clock.monotonic() - began)

    # Nodes that come and go.

    def _note_nodes(self, entries: Sequence[Entry]) -> Iterator[Record]:
        present = {entry.key: entry.uid for entry in entries}
        for name, uid in present.items():
            if name not in self._known:
                self._log.info("Controller observed a new Node", node=name)
                yield node_event(name, uid, "RegisteredNode", f"Registered Node {name} in Controller")
        for name in [name for name in self._known if name not in present]:
            self._log.info("Controller observed a Node deletion", node=name)
            yield node_event(name, self._known[name], "RemovingNode", f"Removing Node {name} from Controller")
            self._healths.pop(name, None)
            self._queues.forget((name,))
        self._known = present

    # Signs of life.

    def _look(self, entries: Iterable[Entry]) -> tuple[list[str], list[str]]:
        """The names of those that are silent, and of those that may be: the tables are too stale to tell."""
        settings, healths = self._settings, self._healths
        now = before = self._clock.monotonic()
        nodes_heard, leases_heard = self._heard(NODES), self._heard(LEASES)
        if self._leases_heard is not None and leases_heard is not None and leases_heard - self._leases_heard > DEAF:
            self._start_clocks_again()  # kubelets, too, need a moment to come through again
        self._leases_heard = leases_heard
        observe_seconds = self._metrics.node.observe
        silent, doubtful = [], []
        for entry in entries:
            facts: NodeFacts = entry.facts
            lease = self._leases.entry(f"{LEASE_NAMESPACE}/{entry.key}")
            health = observe(healths.get(entry.key), facts, None if lease is None else lease.facts.renewed, now)
            healths[entry.key] = health
            if facts.ready != "Unknown":
                # One that never said anything has no Lease that could be missed.
                heard = nodes_heard if lease is None and facts.ready is not None else leases_heard
                found = verdict(health, facts, now=now, patience=settings.patience, heard=heard)
                if found is Verdict.SILENT:
                    silent.append(entry.key)
                elif found is Verdict.DOUBTFUL:
                    doubtful.append(entry.key)
            after = self._clock.monotonic()
            observe_seconds(after - before)
            before = after
        self._say_doubts(len(doubtful))
        return silent, doubtful

    def _say_doubts(self, doubtful: int) -> None:
        if doubtful and not self._doubted:
            self._log.warning("nodes look silent, but so does the server: they are not given up", nodes=doubtful)
        self._doubted = doubtful > 0

    def _ask_for_leases(self, doubtful: Sequence[str]) -> Step[list[str]]:
        """Those whose Lease, read live, says nothing new. Without an answer a node stays doubtful."""
        silent: list[str] = []
        if not self._settings.live_reads:
            return silent
        for some in chunks(doubtful):
            outcomes = yield from together([get_live(LEASES, make_key(LEASE_NAMESPACE, name)) for name in some])
            now = self._clock.monotonic()
            for name, outcome in zip(some, outcomes, strict=True):
                health, facts = self._healths.get(name), self._facts(name)
                if health is None or facts is None or not isinstance(outcome, Done | NotFound):
                    continue
                renewed = lease_facts(decode_object(outcome.body)).renewed if isinstance(outcome, Done) else None
                self._healths[name] = health = observe(health, facts, renewed, now)
                if verdict(health, facts, now=now, patience=self._settings.patience, heard=now) is Verdict.SILENT:
                    silent.append(name)
        return silent

    def _still_silent(self, name: str) -> bool:
        """Look again, as time passes between writes."""
        entry = self._nodes.entry(name)
        if entry is None or entry.facts.ready == "Unknown":
            return False
        lease = self._leases.entry(f"{LEASE_NAMESPACE}/{name}")
        now = self._clock.monotonic()
        health = observe(self._healths.get(name), entry.facts, None if lease is None else lease.facts.renewed, now)
        self._healths[name] = health
        return is_over(now - health.probed, self._settings.patience.of(entry.facts))

    def _give_up(self, silent: Sequence[str]) -> Step[set[str]]:
        """Set their conditions to Unknown. Answers those that could not be written: nothing is concluded from them."""
        unclear: set[str] = set()
        for some in chunks(silent):
            pending = list(some)
            for _ in range(TRIES):
                pending = [name for name in pending if self._still_silent(name)]
                pending = yield from self._write_unknown(pending, unclear)
                if not pending:
                    break
            unclear.update(pending)
        return unclear

    def _write_unknown(self, names: Sequence[str], unclear: set[str]) -> Step[list[str]]:
        """Answers those that had changed meanwhile, and were read anew."""
        entries = [entry for name in names if (entry := self._nodes.entry(name)) is not None]
        wall = self._clock.now()
        commands = [
            update(
                NODES,
                {"apiVersion": "v1", "kind": "Node", **silent_node(self._nodes.object_of(entry), wall)},
                subresource="status",
            )
            for entry in entries
        ]
        outcomes = yield from together(commands)
        changed = []
        for entry, outcome in zip(entries, outcomes, strict=True):
            match outcome:
                case Done(body):
                    yield from self._gave_up(entry, node_facts(decode_object(body)))
                case Conflict():
                    changed.append(entry.key)
                case NotFound():
                    pass  # its event tells us
                case _:
                    unclear.add(entry.key)
                    self._log.warning("node status not written", node=entry.key, error=describe(outcome))
        live = yield from together([get_live(NODES, name) for name in changed])
        for name, outcome in zip(changed, live, strict=True):
            if not isinstance(outcome, Done):
                unclear.add(name)
        return [name for name in changed if name not in unclear]

    def _gave_up(self, entry: Entry, written: NodeFacts) -> Iterator[Record]:
        name, before = entry.key, entry.facts
        health = self._healths[name]
        now = self._clock.monotonic()
        self._healths[name] = taken_for_silent(health, written, now)
        self._log.info("node is silent", node=name, zone=before.zone, seconds=round(now - health.probed, 3))
        if before.ready == "True":
            yield Record(
                NODES.api_version,
                NODES.kind,
                "",
                name,
                before.uid,
                "",
                "Normal",
                "NodeNotReady",
                f"Node {name} status is now: NodeNotReady",
            )

    def _heard(self, resource: Resource) -> float | None:
        overlay = self._tables.overlay(resource.id)
        return None if overlay is None else overlay.table.heard

    def _facts(self, name: str) -> NodeFacts | None:
        entry = self._nodes.entry(name)
        return None if entry is None else entry.facts

    # Zones.

    def _assess(self, entries: Iterable[Entry], unclear: Container[str]) -> Disruption:
        counts: dict[str, list[int]] = {}
        for entry in entries:
            facts: NodeFacts = entry.facts
            count = counts.setdefault(facts.zone, [0, 0])
            if not facts.excluded and entry.key not in unclear:
                count[0 if facts.ready == "True" else 1] += 1
        zones = {zone: ZoneHealth(ready, not_ready) for zone, (ready, not_ready) in counts.items()}
        found = assess(zones, self._settings.limits, was_all_down=self._all_down)
        for zone in self._states.keys() - zones.keys():
            self._metrics.zone(zone, ready=0, not_ready=0)
        for zone, health in zones.items():
            self._metrics.zone(zone, ready=health.ready, not_ready=health.not_ready)
            if zone not in self._states:
                self._metrics.evictions(zone)  # there from now on, at 0
        self._say_states(found)
        self._states, self._all_down, self.spared = dict(found.states), found.all_down, found.spared
        return found

    def _say_states(self, found: Disruption) -> None:
        if found.mode is Mode.ENTERED:
            self._log.info("Controller detected that all Nodes are not-Ready. Entering master disruption mode")
        elif found.mode is Mode.LEFT:
            self._log.info("Controller detected that some Nodes are Ready. Exiting master disruption mode")
        for zone, state in found.states.items():
            if state is not self._states.get(zone, ZoneState.INITIAL):
                self._log.info("Controller detected that zone is now in new state", zone=zone, newState=state.value)

    def _zones_in_need(self, entries: Iterable[Entry]) -> dict[str, float | None]:
        """All zones that have nodes; and, for a zone whose queue is still to be made, when its last node may have been
        let through: just now, if some node in it is tainted.
        """
        tainted: dict[str, float | None] = dict.fromkeys((entry.facts.zone for entry in entries), None)
        now = self._clock.monotonic()
        for entry in entries:
            if entry.facts.no_execute:
                tainted[entry.facts.zone] = now
        return tainted

    def _start_clocks_again(self) -> None:
        """We could not see for a while: every node has its whole time again."""
        now = self._clock.monotonic()
        for name, health in self._healths.items():
            self._healths[name] = replace(health, probed=now, changed=now)

    def _waiting(self, entries: Iterable[Entry], unclear: Container[str]) -> dict[str, Waiting]:
        """Who was heard of last comes last."""
        by_taints, queues, now = self._settings.by_taints, self._queues, self._clock.monotonic()
        found = []
        for entry in entries:
            facts: NodeFacts = entry.facts
            if facts.ready == "True" or facts.zone in self.spared or entry.key in unclear:
                continue
            health = self._healths.get(entry.key)  # None: it has come during this pass
            if health is None or queues.is_due(entry.key, facts.uid, now):
                continue
            if waits_for_eviction(facts) if by_taints else self._timed_out(entry.key, health):
                found.append((health.probed, entry.key, Waiting(facts.zone, facts.uid)))
        return {name: waiting for _, name, waiting in sorted(found)}

    def _timed_out(self, name: str, health: NodeHealth) -> bool:
        """Its pods are to be deleted by this controller. Source: the node controller of 1.8, monitorNodeStatus."""
        if self._queues.is_evicted(name):
            return False
        since = {"False": health.changed, "Unknown": health.probed}.get(health.ready or "")
        return since is not None and is_over(self._clock.monotonic() - since, self._settings.pod_eviction_timeout)

    def _take_taints_back(self, entries: Iterable[Entry]) -> Step[None]:
        """Off the nodes of zones that are spared. What does not succeed is tried again in the next pass."""
        tainted = [entry for entry in entries if entry.facts.no_execute and entry.facts.zone in self.spared]
        wall = self._clock.now()
        for some in chunks(tainted):
            outcomes = yield from together(
                [
                    patch(NODES, entry.key, taint_patch(self._nodes.object_of(entry), entry.facts, NOTHING, wall))
                    for entry in some
                ]
            )
            for entry, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Done):
                    self._log.info("taints taken back", node=entry.key, zone=entry.facts.zone)
                else:
                    self._log.warning("taints not taken back", node=entry.key, error=describe(outcome))


def node_event(name: str, uid: str, reason: str, message: str) -> Record:
    """About a node, in the form that upstream's RecordNodeEvent gives it."""
    text = f"Node {name} event: {message}"
    return Record(NODES.api_version, NODES.kind, "", name, uid, "", "Normal", reason, text)


def describe(outcome: Outcome) -> str:
    """For a line in the log."""
    return f"{type(outcome).__name__}: {getattr(outcome, 'message', '')}"


def chunks(many: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(many), AT_ONCE):
        yield many[start : start + AT_ONCE]
