"""Periodic pass over all nodes: finds silent nodes, disrupted zones, and the nodes to evict.

A node is silent if its kubelet has sent no heartbeat for the grace period.

The order matters. First, new and deleted nodes are recorded, and the conditions of silent nodes are set to Unknown.
Then the state of each zone is computed, and the zone's eviction queue is sent first its rate, then its nodes. Thus the
queue of a zone that has just failed does not release a node at the old rate (upstream's two loops race here).

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, monitorNodeHealth. Difference: after
a restart of the controller, a node keeps its NoExecute taint if its condition still requires the taint. Upstream
removes the taint and sets it again, so that all tolerationSeconds start over.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.events import describe, node_event
from kcm.actors.controllers.nodes.node_lifecycle.health import NodeHealth, NodeHealths, is_over
from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.options import LifecycleSettings
from kcm.actors.controllers.nodes.node_lifecycle.status import mark_unknown
from kcm.actors.controllers.nodes.node_lifecycle.taints import NO_KEYS, taint_patch, waits_for_eviction
from kcm.actors.controllers.nodes.node_lifecycle.zone_queues import WaitingNode, ZoneQueues
from kcm.actors.controllers.nodes.node_lifecycle.zones import Disruption, Mode, ZoneStates
from kcm.actors.reconciliation import Because, Step, in_batches, patch
from kcm.protocols.integers import counted
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.resources import NODES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BATCH = 50  # patches sent together
MOST_NAMED = 5  # nodes and zones that a reason names


class NodeMonitor:
    """Periodic check of all nodes, run every --node-monitor-period (upstream: monitorNodeHealth)."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: NodeLifecycleMetrics,
        settings: LifecycleSettings,
        queues: ZoneQueues,
        vitals: Vitals,
    ) -> None:
        self._nodes = tables[NODES]
        self._clock, self._log, self._metrics = clock, log, metrics
        self._settings, self._queues = settings, queues
        self._healths = NodeHealths(tables=tables, clock=clock, log=log, metrics=metrics, settings=settings)
        self._zones = ZoneStates(log=log, metrics=metrics, limits=settings.limits, vitals=vitals)
        self._known: dict[str, str] = {}  # uids of the nodes in the last pass, by name

    def health(self, node: str) -> NodeHealth | None:
        """Return the recorded health of a node; None if no pass has observed the node yet."""
        return self._healths.health_of(node)

    def is_unreadable(self, node: str) -> bool:
        """Report whether the current version of the node or of its Lease cannot be decoded."""
        return node in self._healths.unreadable()

    @property
    def spared(self) -> frozenset[str]:
        """Names of the zones whose nodes must not be evicted, as of the last pass."""
        return self._zones.spared

    def run(self) -> Step[None]:
        """Run one pass over all nodes. The module docstring explains the order of its steps."""
        began = self._clock.monotonic()
        entries = self._nodes.entries()
        yield from self._record_nodes(entries)
        silent, doubtful = self._healths.observe_all(entries)
        if doubtful:
            silent += yield from self._healths.fetch_leases(doubtful)
        unclear = yield from mark_unknown(
            silent, nodes=self._nodes, healths=self._healths, clock=self._clock, log=self._log
        )
        unclear |= self._healths.unreadable()
        entries = self._nodes.entries()
        disruption = self._zones.assess(entries, unclear)
        if silent or unclear or disruption.disrupted:
            yield Because(_reason(silent, unclear, disruption))
        yield from self._queues.set_zones(last_evictions(entries, self._clock.monotonic()))
        if disruption.mode is Mode.LEFT:
            self._healths.restart_grace_periods()
        yield from self._queues.set_rates(disruption.rates)
        self._queues.forget(
            entry.key for entry in entries if entry.facts.zone in self.spared or entry.facts.ready == "True"
        )
        yield from self._queues.set_waiting(self._waiting(entries, unclear))
        yield from self._remove_taints(entries)
        self._metrics.all_nodes.observe(self._clock.monotonic() - began)

    def _record_nodes(self, entries: Sequence[Entry]) -> Iterator[Record]:
        """Record new and deleted nodes, with events. Records of deleted nodes are removed."""
        present = {entry.key: entry.uid for entry in entries}
        for name, uid in present.items():
            if name not in self._known:
                self._log.info("Controller observed a new Node", v=1, node=name)
                yield node_event(name, uid, "RegisteredNode", f"Registered Node {name} in Controller")
        for name in [name for name in self._known if name not in present]:
            self._log.info("Controller observed a Node deletion", v=1, node=name)
            yield node_event(name, self._known[name], "RemovingNode", f"Removing Node {name} from Controller")
            self._healths.forget(name)
            self._queues.forget((name,))
        self._known = present

    def _waiting(self, entries: Iterable[Entry], unclear: Container[str]) -> dict[str, WaitingNode]:
        """Return the nodes to queue for eviction, by name, in the order of their last heartbeats.

        unclear: names of nodes whose health is unknown in this pass, which are left out.
        """
        taint_based, queues, now = self._settings.taint_based, self._queues, self._clock.monotonic()
        found = []
        for entry in entries:
            facts: NodeFacts = entry.facts
            if facts.ready == "True" or facts.zone in self.spared or entry.key in unclear:
                continue
            health = self._healths.health_of(entry.key)  # None if it was created during this pass
            if health is None or queues.is_due(entry.key, facts.uid, now):
                continue
            if waits_for_eviction(facts) if taint_based else self._timed_out(entry.key, health):
                found.append((health.probed, entry.key, WaitingNode(facts.zone, facts.uid)))
        return {name: waiting for _, name, waiting in sorted(found)}

    def _timed_out(self, name: str, health: NodeHealth) -> bool:
        """Report whether a node has been silent or not ready for longer than --pod-eviction-timeout.

        Used only without taint-based evictions. False for a node whose pods have already been deleted.

        Source: kubernetes 1.8 pkg/controller/node/node_controller.go, monitorNodeStatus.
        """
        if self._queues.is_evicted(name):
            return False
        since = {"False": health.changed, "Unknown": health.probed}.get(health.ready or "")
        return since is not None and is_over(self._clock.monotonic() - since, self._settings.pod_eviction_timeout)

    def _remove_taints(self, entries: Iterable[Entry]) -> Step[None]:
        """Remove NoExecute taints from nodes in zones in which evictions are stopped. Failures are retried later."""
        tainted = [entry for entry in entries if entry.facts.no_execute and entry.facts.zone in self.spared]
        wall, nodes = self._clock.now(), self._nodes
        patches = [
            patch(NODES, entry.key, taint_patch(nodes.object_of(entry), entry.facts, NO_KEYS, wall))
            for entry in tainted
        ]
        for entry, outcome in zip(tainted, (yield from in_batches(patches, BATCH)), strict=True):
            if isinstance(outcome, Done):
                self._log.info("removed NoExecute taints, the zone is disrupted", node=entry.key, zone=entry.facts.zone)
            else:
                self._log.warning("NoExecute taints not removed", node=entry.key, error=describe(outcome))


def last_evictions(entries: Iterable[Entry], now: float) -> dict[str, float | None]:
    """Estimate the time of the last eviction in each zone, for zones whose eviction queue is new.

    It is `now` for a zone in which a node is tainted NoExecute, None for other zones.
    """
    last: dict[str, float | None] = {}
    for entry in entries:
        zone = entry.facts.zone
        last[zone] = now if entry.facts.no_execute else last.get(zone)
    return last


def _reason(silent: Sequence[str], unclear: Collection[str], disruption: Disruption) -> str:
    """Return what a pass has found, in one line."""
    parts = []
    if silent:
        names = ", ".join(silent[:MOST_NAMED])
        parts.append(f"{counted(len(silent), 'node')} sent no heartbeat for the grace period: {names}")
    if unclear:
        parts.append(
            f"the health of {counted(len(unclear), 'node')} is unknown: {', '.join(sorted(unclear)[:MOST_NAMED])}"
        )
    if disruption.all_down:
        parts.append("all zones are fully disrupted: nothing is evicted")
    else:
        parts += [
            f"zone {zone or '(none)'} is in {disruption.states[zone]}: {disruption.rates[zone]:g} evictions per second"
            for zone in disruption.disrupted[:MOST_NAMED]
        ]
    return "; ".join(parts)
