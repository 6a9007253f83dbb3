"""Node lifecycle controller: detects failed nodes, and evicts their pods.

In: changes of Nodes; pods that are bound to a node which is not ready, or terminating on a node whose kubelet is too
old to delete them gracefully; NodeDue and ZoneQueueReady from the zones' eviction queues; PauseEvictions,
ResumeEvictions and SetZoneRate from users. Leases are read, but enqueue nothing.
Out: nodes' status (conditions Unknown), taints and labels; pods' status (not ready); events. Pods are deleted only
without taint-based evictions (pods.py).

Work queues: nodes by name; pods by "namespace/name"; zones by name, to send a zone's state to its eviction queue. The
pass over all nodes (monitor.py) runs every --node-monitor-period.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go. Differences, besides
those in the other files of this package:
- Pods are marked not ready, and taints swapped or removed, by the sync of the node's key: as soon as its condition has
  changed, again after a failure, and independently of other nodes. Pods of a node in condition Unknown are marked not
  ready even if another program set the condition, or this controller was restarted in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.nodes.node_lifecycle.metrics import NodeLifecycleMetrics
from kcm.actors.controllers.nodes.node_lifecycle.monitor import NodeMonitor
from kcm.actors.controllers.nodes.node_lifecycle.options import LifecycleSettings
from kcm.actors.controllers.nodes.node_lifecycle.pods import DirectEviction, deletes_gracefully, mark_not_ready
from kcm.actors.controllers.nodes.node_lifecycle.taints import format_keys, sync_labels, sync_taints, wanted_no_execute
from kcm.actors.controllers.nodes.node_lifecycle.zone_queues import ZoneQueues
from kcm.actors.reconciliation import Because, Change, Enqueue, Interest, Reconciliation, RequeueAfter, Step
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.reconciliation.derived import NODE
from kcm.protocols.messages.eviction import NodeDue, PauseEvictions, ResumeEvictions, SetZoneRate, ZoneQueueReady
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.watches import EventType
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.objects import Key, Object, is_deleting
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "node-lifecycle-controller"
# The first two are upstream's names, which are labels of the workqueue metrics.
NODE_QUEUE, POD_QUEUE = "node_lifecycle_controller", "node_lifecycle_controller_pods"
ZONE_QUEUE = "node_lifecycle_controller_zones"


def pod_to_sync(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a pod that was just bound to a not-ready node, or that is terminating on a node with an old kubelet.

    Kubelets before 1.1.0 do not delete pods gracefully, so this controller deletes them by force.
    """
    entry = tables[PODS].entry(change.key)
    if entry is None or change.deleted:
        return
    node = tables[NODES].entry(entry.facts.node) if entry.facts.node else None
    if node is None:
        return
    if entry.facts.deleting:
        if not deletes_gracefully(node.facts.kubelet):
            yield change.key
    elif node.facts.ready != "True":
        old = change.old
        if old is None or (old.get("spec") or {}).get("nodeName") != entry.facts.node:
            yield change.key


BOUND_OR_DELETING = Interest(
    types=(EventType.ADDED, EventType.MODIFIED), changed=("node", "deleting"), filled=("node",)
)


class NodeLifecycleReconciler:
    """Reconciler that taints failed nodes, marks their pods not ready, and limits evictions in each zone.

    Keys: name of a node, "namespace/name" of a pod, name of a zone. It also runs the periodic pass over all nodes.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: NodeLifecycleMetrics,
        settings: LifecycleSettings,
        vitals: Vitals,
    ) -> None:
        self._nodes, self._pods = tables[NODES], tables[PODS]
        self._clock, self._log, self._metrics, self._settings = clock, log, metrics, settings
        self._queues = ZoneQueues(manager=MANAGER, controller=NAME, burst=settings.burst)
        self._monitor = NodeMonitor(
            tables=tables, clock=clock, log=log, metrics=metrics, settings=settings, queues=self._queues, vitals=vitals
        )
        self._direct = DirectEviction(clock=clock, log=log)
        self._tainting: dict[str, str] = {}  # by zone, the released node that is being tainted

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        match message:
            case NodeDue(node=node):
                due = self._queues.accept_release(message, self._clock.monotonic())
                return [Enqueue(NODE_QUEUE, node)] if due else []
            case ZoneQueueReady(zone=zone):
                return _zones([zone] if self._queues.queue_started(message) else [])
            case PauseEvictions(zone=zone):
                return _zones(self._queues.pause(zone))
            case ResumeEvictions(zone=zone):
                return _zones(self._queues.resume(zone))
            case SetZoneRate(zone=zone, qps=qps):
                return _zones(self._queues.override_rate(zone, qps))
            case Restarted(name=name):
                return _zones(self._queues.manager_restarted() if name == MANAGER else [])
            case _:
                raise TypeError(f"{NAME} cannot handle {message!r}")

    def monitor(self) -> Reconciliation:
        yield from self._monitor.run()
        return None

    def reconcile_zone(self, zone: str) -> Reconciliation:
        """Send the eviction queue of a zone its rate, its waiting nodes, and whether it is paused."""
        yield from self._queues.send_state(zone)
        return None

    # One node.

    def reconcile_node(self, name: str) -> Reconciliation:
        """Update the taints and labels of a node, and mark its pods not ready or evict them."""
        entry = self._nodes.entry(name)
        if entry is None:
            self._queues.forget((name,))
            self._direct.cancel(name)
            return None
        yield from self._sync_taints(name)
        yield from sync_labels(self._nodes, name)
        entry = self._nodes.entry(name)
        if entry is None:
            return None
        facts: NodeFacts = entry.facts
        if facts.ready != "True" or facts.no_execute:
            yield Because(self._reason(name, facts))
        if facts.ready == "Unknown":
            yield from mark_not_ready(self._pods_on(name), self._clock.now())
        if not self._settings.taint_based:
            return (yield from self._evict_directly(name, facts))
        return None

    def _reason(self, name: str, facts: NodeFacts) -> str:
        """Return why a node that is not ready is tainted, or not yet."""
        text = f"condition Ready is {facts.ready or 'missing'}"
        health = self._monitor.health(name)
        if health is not None:
            text += f", last heartbeat {self._clock.monotonic() - health.probed:.0f} s ago"
        if facts.zone in self._monitor.spared:
            return f"{text}; nothing is evicted in zone {facts.zone or '(none)'}, which is disrupted"
        if facts.no_execute:
            return f"{text}; tainted {format_keys(facts.no_execute)}:NoExecute"
        return f"{text}; {self._queues.place_of(name, facts.zone)}"

    def _sync_taints(self, name: str) -> Step[None]:
        """Add and remove taints of a node, as its conditions require.

        A NoExecute taint is added only after the zone's eviction queue has released the node. Each release permits one
        attempt, even if the write fails, and is lost if another node of the zone is being tainted at that time. If
        releases accumulated while the API server fails, a whole zone could be tainted at once afterwards.
        """
        entry = self._nodes.entry(name)
        if entry is None:
            return
        zone = entry.facts.zone
        is_released = (
            self._settings.taint_based
            and self._queues.is_due(name, entry.uid, self._clock.monotonic())
            and not self._monitor.is_unreadable(name)
        )
        may_taint = is_released and self._tainting.setdefault(zone, name) == name

        def wanted(facts: NodeFacts) -> frozenset[str]:
            due = may_taint and self._queues.is_due(name, facts.uid, self._clock.monotonic())
            return wanted_no_execute(facts, due=due, spared=facts.zone in self._monitor.spared)

        try:
            newly_tainted = yield from sync_taints(self._nodes, name, wanted, clock=self._clock, log=self._log)
        finally:
            if may_taint:
                del self._tainting[zone]
            if is_released:
                self._queues.release_used(name)
        if newly_tainted:
            self._metrics.evictions(zone).inc()

    def _evict_directly(self, name: str, facts: NodeFacts) -> Step[RequeueAfter | None]:
        """Delete the pods of a failed node if the eviction queue of its zone has released the node.

        Used only without taint-based evictions. Returns RequeueAfter while pods of an evicted node are terminating.
        """
        if facts.ready == "True":
            self._direct.cancel(name)
            self._queues.forget((name,))
            return None
        if self._queues.is_due(name, facts.uid, self._clock.monotonic()):
            self._metrics.evictions(facts.zone).inc()  # a retry is counted too, as upstream
            yield Because("not ready for --pod-eviction-timeout: deletes its pods")
            if (yield from self._direct.evict(name)):
                self._queues.pods_deleted(name)
            else:
                self._queues.release_used(name)
        seconds = yield from self._direct.terminate(name, facts, lambda: self._pods_on(name))
        return None if seconds is None else RequeueAfter(max(0.0, seconds))

    def _pods_on(self, node: str) -> list[Object]:
        return self._pods.indexed(NODE, node)

    # One pod.

    def reconcile_pod(self, key: Key) -> Reconciliation:
        """Mark a pod on a failed node not ready, or delete by force a pod that an old kubelet will not delete."""
        entry = self._pods.entry(key)
        node = None if entry is None else self._nodes.entry(entry.facts.node)
        if entry is None or node is None:
            return None
        pod = self._pods.object_of(entry)
        if is_deleting(pod):
            if not self._settings.taint_based and not deletes_gracefully(node.facts.kubelet):
                yield Because(f"deletes it by force: the kubelet of {node.key} is older than 1.1.0")
                yield from self._direct.force([pod])
        elif self._monitor.health(node.key) is not None and node.facts.ready not in (None, "True"):
            yield Because(f"marks it not ready: condition Ready of node {node.key} is {node.facts.ready}")
            yield from mark_not_ready([pod], self._clock.now())
        return None


def _zones(zones: Iterable[str]) -> list[Enqueue]:
    return [Enqueue(ZONE_QUEUE, zone) for zone in zones]
