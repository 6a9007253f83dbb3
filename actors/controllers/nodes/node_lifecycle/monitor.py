"""One pass over all nodes: which are silent, how disrupted the zones are, which nodes wait for eviction.

The order matters. Nodes that came and went are noted; the conditions of silent ones are set to Unknown; only then are
zones assessed and their queues sent their rates, and only then the nodes that wait. So the first token of a zone that
has just broken down is not spent before its rate is cut (upstream's two loops race here).

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, monitorNodeHealth. Difference: a
node's NoExecute taint is left where it is when a new incarnation first sees the node, if its condition still asks for
it; there it is removed and set again, and all tolerationSeconds start over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.events import describe, node_event
from kcm.actors.controllers.nodes.node_lifecycle.health import NodeHealth, SignsOfLife, is_over
from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.options import LifecycleSettings
from kcm.actors.controllers.nodes.node_lifecycle.status import give_up
from kcm.actors.controllers.nodes.node_lifecycle.taints import NOTHING, taint_patch, waits_for_eviction
from kcm.actors.controllers.nodes.node_lifecycle.zone_queues import Waiting, ZoneQueues
from kcm.actors.controllers.nodes.node_lifecycle.zones import Mode, ZoneStates
from kcm.actors.reconciliation import Step, in_batches, patch
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.resources import NODES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BATCH = 50  # patches that go together


class NodeMonitor:
    """Remembers which nodes the last pass saw; SignsOfLife, ZoneStates and ZoneQueues remember the rest."""

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
        self._nodes = tables[NODES]
        self._clock, self._log, self._metrics = clock, log, metrics
        self._settings, self._queues = settings, queues
        self._signs = SignsOfLife(tables=tables, clock=clock, log=log, metrics=metrics, settings=settings)
        self._zones = ZoneStates(log=log, metrics=metrics, limits=settings.limits)
        self._known: dict[str, str] = {}  # uids by name

    def health(self, node: str) -> NodeHealth | None:
        """None before the first pass that saw it."""
        return self._signs.of(node)

    def is_in_doubt(self, node: str) -> bool:
        """It, or its Lease, cannot be read."""
        return node in self._signs.unreadable()

    @property
    def spared(self) -> frozenset[str]:
        """Zones whose nodes are not evicted, as the last pass found."""
        return self._zones.spared

    def run(self) -> Step[None]:
        """The pass."""
        began = self._clock.monotonic()
        entries = self._nodes.entries()
        yield from self._note_nodes(entries)
        silent, doubtful = self._signs.look(entries)
        if doubtful:
            silent += yield from self._signs.fetch_leases(doubtful)
        unclear = yield from give_up(silent, nodes=self._nodes, signs=self._signs, clock=self._clock, log=self._log)
        unclear |= self._signs.unreadable()
        entries = self._nodes.entries()
        disruption = self._zones.assess(entries, unclear)
        yield from self._queues.keep(last_evictions(entries, self._clock.monotonic()))
        if disruption.mode is Mode.LEFT:
            self._signs.start_over()
        yield from self._queues.set_rates(disruption.rates)
        self._queues.forget(
            entry.key for entry in entries if entry.facts.zone in self.spared or entry.facts.ready == "True"
        )
        yield from self._queues.set_waiting(self._waiting(entries, unclear))
        yield from self._remove_taints(entries)
        self._metrics.all_nodes.observe(self._clock.monotonic() - began)

    def _note_nodes(self, entries: Sequence[Entry]) -> Iterator[Record]:
        present = {entry.key: entry.uid for entry in entries}
        for name, uid in present.items():
            if name not in self._known:
                self._log.info("Controller observed a new Node", v=1, node=name)
                yield node_event(name, uid, "RegisteredNode", f"Registered Node {name} in Controller")
        for name in [name for name in self._known if name not in present]:
            self._log.info("Controller observed a Node deletion", v=1, node=name)
            yield node_event(name, self._known[name], "RemovingNode", f"Removing Node {name} from Controller")
            self._signs.forget(name)
            self._queues.forget((name,))
        self._known = present

    def _waiting(self, entries: Iterable[Entry], unclear: Container[str]) -> dict[str, Waiting]:
        """The nodes to be evicted, by name; the longer silent, the earlier."""
        by_taints, queues, now = self._settings.by_taints, self._queues, self._clock.monotonic()
        found = []
        for entry in entries:
            facts: NodeFacts = entry.facts
            if facts.ready == "True" or facts.zone in self.spared or entry.key in unclear:
                continue
            health = self._signs.of(entry.key)  # None: it was created during this pass
            if health is None or queues.is_due(entry.key, facts.uid, now):
                continue
            if waits_for_eviction(facts) if by_taints else self._timed_out(entry.key, health):
                found.append((health.probed, entry.key, Waiting(facts.zone, facts.uid)))
        return {name: waiting for _, name, waiting in sorted(found)}

    def _timed_out(self, name: str, health: NodeHealth) -> bool:
        """Without taints: its pods are to be deleted. Source: the node controller of 1.8, monitorNodeStatus."""
        if self._queues.is_evicted(name):
            return False
        since = {"False": health.changed, "Unknown": health.probed}.get(health.ready or "")
        return since is not None and is_over(self._clock.monotonic() - since, self._settings.pod_eviction_timeout)

    def _remove_taints(self, entries: Iterable[Entry]) -> Step[None]:
        """Remove NoExecute taints from the nodes of spared zones. The next pass tries again what failed."""
        tainted = [entry for entry in entries if entry.facts.no_execute and entry.facts.zone in self.spared]
        wall, nodes = self._clock.now(), self._nodes
        patches = [
            patch(NODES, one.key, taint_patch(nodes.object_of(one), one.facts, NOTHING, wall)) for one in tainted
        ]
        for entry, outcome in zip(tainted, (yield from in_batches(patches, BATCH)), strict=True):
            if isinstance(outcome, Done):
                self._log.info("taints taken back", node=entry.key, zone=entry.facts.zone)
            else:
                self._log.warning("taints not taken back", node=entry.key, error=describe(outcome))


def last_evictions(entries: Iterable[Entry], now: float) -> dict[str, float | None]:
    """Every zone that has nodes; and, for a zone whose queue is yet to be started, when its last node may have been let
    through: now, if some node in it is tainted.
    """
    last: dict[str, float | None] = {}
    for entry in entries:
        zone = entry.facts.zone
        last[zone] = now if entry.facts.no_execute else last.get(zone)
    return last
