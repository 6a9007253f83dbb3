"""Health of nodes: when each kubelet last sent a heartbeat, by this process's monotonic clock.

A heartbeat is a change of the lastHeartbeatTime of the node's condition Ready, or of the renewTime of its Lease. These
times are compared only with their earlier values, so that clock skew between machines has no effect.

A node that exceeds its grace period without a heartbeat is silent. While the watch that would show its heartbeats
receives nothing either, the node counts only as doubtful: with --live-heartbeat-reads its Lease is fetched from the
server, otherwise the watch has to recover first.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth. Differences:
- The grace period of a node that never posted a status begins when it was first observed, not at its creationTimestamp.
- A Lease that is renewed with an earlier time than before (its holder's clock was set back) counts as a heartbeat too.
- A node that is registered again under the same name has a new grace period.
- A node is silent only while the watch is not stale (`heard` below). After a long time without data from the server the
  grace period of every node starts over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.options import GracePeriods, LifecycleSettings
from kcm.actors.reconciliation import Step, batches, get_live, together
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.nodes import LEASE_NAMESPACE, NodeFacts, lease_facts
from kcm.protocols.objects import decode_object, make_key, split_key
from kcm.protocols.resources import LEASES, NODES, Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class NodeHealth(Struct, frozen=True, kw_only=True):
    """Last observed health of a node (upstream: nodeHealthData)."""

    uid: str
    probed: float  # monotonic seconds: when the last heartbeat was observed
    changed: float  # monotonic seconds: when the last change of condition Ready was observed
    ready: str | None  # status of condition Ready; None if the node has no such condition
    heartbeat: str | None  # lastHeartbeatTime of condition Ready
    transitioned: str | None  # lastTransitionTime of condition Ready
    renewed: float | None  # renewTime of the Lease, Unix seconds by the kubelet's clock


class Liveness(Enum):
    """Liveness of a node by its heartbeats.

    A SILENT node has sent no heartbeat for its grace period, and its conditions are set to Unknown. A DOUBTFUL node has
    exceeded its grace period too, but its watch is stale and may have missed heartbeats, so the node is not changed.
    """

    ALIVE = "alive"
    SILENT = "silent"
    DOUBTFUL = "doubtful"


def observe(before: NodeHealth | None, node: NodeFacts, renewed: float | None, now: float) -> NodeHealth:
    """Return the health of a node after one more observation of the node and its Lease.

    before: the health recorded so far, which is returned itself if nothing has changed; None for a new node.
    renewed: renewTime of the node's Lease; None if it has no Lease.
    """
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
    posted = node.ready is not None and node.heartbeat != before.heartbeat
    renews = renewed is not None and renewed != before.renewed
    if not posted and not renews and node.ready == before.ready:
        return before
    return replace(
        before,
        probed=now if posted or renews else before.probed,
        changed=now if posted and node.transitioned != before.transitioned else before.changed,
        ready=node.ready,
        heartbeat=node.heartbeat,
        transitioned=node.transitioned,
        renewed=renewed if renews else before.renewed,
    )


def is_over(elapsed: float, period: float) -> bool:
    """Report whether the elapsed seconds exceed a period in seconds, by more than a rounding error of floats."""
    return elapsed - period > 1e-6


def liveness(
    health: NodeHealth, node: NodeFacts, *, now: float, periods: GracePeriods, heard: float | None
) -> Liveness:
    """Return whether a node is ALIVE, SILENT (no heartbeat for its grace period) or DOUBTFUL (its watch is stale too).

    health: the node's last observed health.
    heard: monotonic time of the last watch event or bookmark of the resource that contains the node's heartbeats
        (Leases, or nodes if it has no Lease); None if there was none.
    """
    if not is_over(now - health.probed, periods.period_of(node)):
        return Liveness.ALIVE
    return Liveness.SILENT if heard is not None and now - heard <= periods.stale_after else Liveness.DOUBTFUL


def marked_unknown(health: NodeHealth, written: NodeFacts, now: float) -> NodeHealth:
    """Return the health of a node after this controller has set the node's conditions to Unknown.

    written: facts of the node as the server returned it after the write.
    """
    return replace(
        health, changed=now, ready=written.ready, heartbeat=written.heartbeat, transitioned=written.transitioned
    )


BATCH = 50  # Leases fetched at once
# Seconds without watch events. An idle watch receives a bookmark each minute, so a longer time is caused by the server
# or the network, which may have kept kubelets from renewing their Leases too.
STALLED_WATCH = 75.0


class NodeHealths:
    """Record of the last observed health of each node, by the node's name."""

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
        self._had_doubtful = False
        self._leases_heard: float | None = None  # when the table of Leases last received data, as of the last pass

    def health_of(self, node: str) -> NodeHealth | None:
        """Return the recorded health of a node; None if it has not been observed yet."""
        return self._healths.get(node)

    def unreadable(self) -> set[str]:
        """Return the names of the nodes whose liveness is unknown, because they or their Leases cannot be decoded."""
        leases = self._leases.unreadable(LEASE_NAMESPACE)
        return {node.key for node in self._nodes.unreadable()} | {split_key(lease.key)[1] for lease in leases}

    def forget(self, node: str) -> None:
        self._healths.pop(node, None)

    def restart_grace_periods(self) -> None:
        """Restart the grace period of every node. Called after a time without data from the API server."""
        now = self._clock.monotonic()
        for name, health in self._healths.items():
            self._healths[name] = replace(health, probed=now, changed=now)

    def observe_all(self, entries: Iterable[Entry]) -> tuple[list[str], list[str]]:
        """Update the recorded health of all nodes from their versions and Leases in the tables.

        Returns the names of the SILENT nodes and of the DOUBTFUL nodes, see Liveness.
        """
        now = before = self._clock.monotonic()
        nodes_heard, leases_heard = self._heard(NODES), self._heard(LEASES)
        if (
            self._leases_heard is not None
            and leases_heard is not None
            and leases_heard - self._leases_heard > STALLED_WATCH
        ):
            self.restart_grace_periods()  # kubelets need a moment to reconnect too
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
                found = liveness(health, facts, now=now, periods=self._settings.grace_periods, heard=heard)
                if found is Liveness.SILENT:
                    silent.append(entry.key)
                elif found is Liveness.DOUBTFUL:
                    doubtful.append(entry.key)
            after = self._clock.monotonic()
            observe_seconds(after - before)
            before = after
        if doubtful and not self._had_doubtful:
            self._log.warning("watch is stale, not marking silent nodes unhealthy", nodes=len(doubtful))
        self._had_doubtful = bool(doubtful)
        return silent, doubtful

    def fetch_leases(self, doubtful: Sequence[str]) -> Step[list[str]]:
        """Fetch the Leases of DOUBTFUL nodes from the API server. Returns the names of the nodes that are SILENT.

        A node whose Lease cannot be fetched remains DOUBTFUL. Without --live-heartbeat-reads nothing is fetched, and
        the result is empty.
        """
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
                found = liveness(health, entry.facts, now=now, periods=self._settings.grace_periods, heard=now)
                if found is Liveness.SILENT:
                    silent.append(name)
        return silent

    def is_still_silent(self, name: str) -> bool:
        """Report whether a node still has not sent a heartbeat for its grace period.

        The node is observed again. Called just before its status is written.
        """
        entry = self._nodes.entry(name)
        if entry is None or entry.facts.ready == "Unknown" or name in self.unreadable():
            return False
        lease = self._leases.entry(f"{LEASE_NAMESPACE}/{name}")
        now = self._clock.monotonic()
        health = self._observe(entry, None if lease is None else lease.facts.renewed, now)
        return is_over(now - health.probed, self._settings.grace_periods.period_of(entry.facts))

    def record_unknown(self, name: str, written: NodeFacts) -> float:
        """Record that a node's conditions were set to Unknown. Returns the seconds since its last heartbeat.

        written: facts of the node as the server returned it after the write.
        """
        health, now = self._healths[name], self._clock.monotonic()
        self._healths[name] = marked_unknown(health, written, now)
        return now - health.probed

    def _observe(self, entry: Entry, renewed: float | None, now: float) -> NodeHealth:
        health = self._healths[entry.key] = observe(self._healths.get(entry.key), entry.facts, renewed, now)
        return health

    def _heard(self, resource: Resource) -> float | None:
        overlay = self._tables.overlay(resource.id)
        return None if overlay is None else overlay.table.heard
