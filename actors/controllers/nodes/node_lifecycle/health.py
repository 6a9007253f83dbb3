"""Health of nodes: which of them still report, measured by this process's monotonic clock.

A node reports when the heartbeat of its condition Ready or the renewTime of its Lease changes. These times are compared
only with their earlier values, so that the clocks of other machines, and a change of the wall clock, have no effect.

A silent node is only doubtful while its watch is silent too: with --live-heartbeat-reads its Lease is fetched,
otherwise the watch has to recover first.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth. Differences:
- The grace period of a node that never posted a status begins when it was first observed, not at its creationTimestamp.
- A Lease that is renewed with an earlier time than before (its holder's clock was set back) counts as a report too.
- A node that is registered again under the same name has a new grace period.
- Silence counts only while the watch is fresh (`heard` below). After a long silence of the server every node has a new
  grace period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.options import LifecycleSettings, Patience
from kcm.actors.reconciliation import Step, batches, get_live, together
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.nodes import LEASE_NAMESPACE, NodeFacts, lease_facts
from kcm.protocols.objects import decode_object, make_key, split_key
from kcm.protocols.resources import LEASES, NODES, Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The last observation of a node. Times are monotonic seconds.

    probed: the last sign of life. changed: when we saw Ready change. ready, heartbeat, transitioned: as in
    NodeFacts. renewed: of its Lease.
    """

    uid: str
    probed: float
    changed: float
    ready: str | None
    heartbeat: str | None
    transitioned: str | None
    renewed: float | None


class Verdict(Enum):
    """SILENT: given up. DOUBTFUL: it would be, but the table may have missed its signs of life."""

    ALIVE = "alive"
    SILENT = "silent"
    DOUBTFUL = "doubtful"


def observe(before: NodeHealth | None, node: NodeFacts, renewed: float | None, now: float) -> NodeHealth:
    """The health after an observation; the same object if nothing is new. renewed: of its Lease, None without one."""
    if before is None or before.uid != node.uid or (before.ready is None and node.ready is not None):
        return NodeHealth(
            uid=node.uid,
            probed=now,
            changed=now,
            ready=node.ready,
            heartbeat=node.heartbeat,
            transitioned=node.transitioned,
            renewed=renewed,
        )
    spoke = node.ready is not None and node.heartbeat != before.heartbeat
    renews = renewed is not None and renewed != before.renewed
    if not spoke and not renews and node.ready == before.ready:
        return before
    return replace(
        before,
        probed=now if spoke or renews else before.probed,
        changed=now if spoke and node.transitioned != before.transitioned else before.changed,
        ready=node.ready,
        heartbeat=node.heartbeat,
        transitioned=node.transitioned,
        renewed=renewed if renews else before.renewed,
    )


def is_over(elapsed: float, period: float) -> bool:
    """Whether more seconds than the period have passed; rounding errors do not count."""
    return elapsed - period > 1e-6


def verdict(health: NodeHealth, node: NodeFacts, *, now: float, patience: Patience, heard: float | None) -> Verdict:
    """heard: when the table that would show this node's next sign of life last received anything from the server."""
    if not is_over(now - health.probed, patience.of(node)):
        return Verdict.ALIVE
    return Verdict.SILENT if heard is not None and now - heard <= patience.hearing else Verdict.DOUBTFUL


def taken_for_silent(health: NodeHealth, written: NodeFacts, now: float) -> NodeHealth:
    """After its conditions were set to Unknown. written: the node as it is then."""
    return replace(
        health, changed=now, ready=written.ready, heartbeat=written.heartbeat, transitioned=written.transitioned
    )


BATCH = 50  # Leases fetched at once
DEAF = 75.0  # seconds; an idle watch brings a bookmark each minute, so longer silence is the server's or the network's


class SignsOfLife:
    """The health of each node, by name."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: NodeLifecycleMetrics,
        settings: LifecycleSettings,
    ) -> None:
        self._tables, self._nodes, self._leases = tables, tables[NODES], tables[LEASES]
        self._clock, self._log, self._metrics = clock, log, metrics
        self._settings = settings
        self._healths: dict[str, NodeHealth] = {}
        self._doubted = False
        self._leases_heard: float | None = None  # as the last look found it

    def of(self, node: str) -> NodeHealth | None:
        """None before the first look that saw it."""
        return self._healths.get(node)

    def unreadable(self) -> set[str]:
        """Names of the nodes that cannot be read, or whose Lease cannot: whether they live is not known."""
        leases = self._leases.unreadable(LEASE_NAMESPACE)
        return {one.key for one in self._nodes.unreadable()} | {split_key(one.key)[1] for one in leases}

    def forget(self, node: str) -> None:
        self._healths.pop(node, None)

    def start_over(self) -> None:
        """Give every node its whole grace period again: the server could not be heard for a while."""
        now = self._clock.monotonic()
        for name, health in self._healths.items():
            self._healths[name] = replace(health, probed=now, changed=now)

    def look(self, entries: Iterable[Entry]) -> tuple[list[str], list[str]]:
        """Names of the silent nodes, and of the doubtful ones: the tables are too stale to tell."""
        now = before = self._clock.monotonic()
        nodes_heard, leases_heard = self._heard(NODES), self._heard(LEASES)
        if self._leases_heard is not None and leases_heard is not None and leases_heard - self._leases_heard > DEAF:
            self.start_over()  # kubelets, too, need a moment to reconnect
        self._leases_heard = leases_heard
        observe_seconds = self._metrics.node.observe
        silent, doubtful, unreadable = [], [], self.unreadable()
        for entry in entries:
            facts: NodeFacts = entry.facts
            lease = self._leases.entry(f"{LEASE_NAMESPACE}/{entry.key}")
            health = self._observe(entry, None if lease is None else lease.facts.renewed, now)
            if facts.ready != "Unknown" and entry.key not in unreadable:
                # A node that never posted a status has no Lease that could be missed.
                heard = nodes_heard if lease is None and facts.ready is not None else leases_heard
                found = verdict(health, facts, now=now, patience=self._settings.patience, heard=heard)
                if found is Verdict.SILENT:
                    silent.append(entry.key)
                elif found is Verdict.DOUBTFUL:
                    doubtful.append(entry.key)
            after = self._clock.monotonic()
            observe_seconds(after - before)
            before = after
        if doubtful and not self._doubted:
            self._log.warning("nodes look silent, but so does the server: they are not given up", nodes=len(doubtful))
        self._doubted = bool(doubtful)
        return silent, doubtful

    def fetch_leases(self, doubtful: Sequence[str]) -> Step[list[str]]:
        """Returns the nodes whose Lease, fetched, has not been renewed. Without an answer a node stays doubtful."""
        silent: list[str] = []
        if not self._settings.live_reads:
            return silent
        for names in batches(doubtful, BATCH):
            gets = [get_live(LEASES, make_key(LEASE_NAMESPACE, name), as_informer=True) for name in names]
            outcomes = yield from together(gets)
            now = self._clock.monotonic()
            for name, outcome in zip(names, outcomes, strict=True):
                entry = self._nodes.entry(name)
                if name not in self._healths or entry is None or not isinstance(outcome, Done | NotFound):
                    continue
                renewed = lease_facts(decode_object(outcome.body)).renewed if isinstance(outcome, Done) else None
                health = self._observe(entry, renewed, now)
                if verdict(health, entry.facts, now=now, patience=self._settings.patience, heard=now) is Verdict.SILENT:
                    silent.append(name)
        return silent

    def is_still_silent(self, name: str) -> bool:
        """Look again at one node, as time passes between writes."""
        entry = self._nodes.entry(name)
        if entry is None or entry.facts.ready == "Unknown" or name in self.unreadable():
            return False
        lease = self._leases.entry(f"{LEASE_NAMESPACE}/{name}")
        now = self._clock.monotonic()
        health = self._observe(entry, None if lease is None else lease.facts.renewed, now)
        return is_over(now - health.probed, self._settings.patience.of(entry.facts))

    def note_given_up(self, name: str, written: NodeFacts) -> float:
        """Its conditions were set to Unknown. written: the node as it is now. Returns the seconds it was silent for."""
        health, now = self._healths[name], self._clock.monotonic()
        self._healths[name] = taken_for_silent(health, written, now)
        return now - health.probed

    def _observe(self, entry: Entry, renewed: float | None, now: float) -> NodeHealth:
        health = self._healths[entry.key] = observe(self._healths.get(entry.key), entry.facts, renewed, now)
        return health

    def _heard(self, resource: Resource) -> float | None:
        overlay = self._tables.overlay(resource.id)
        return None if overlay is None else overlay.table.heard
