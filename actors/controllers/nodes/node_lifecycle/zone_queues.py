"""Record of the zones' eviction queues in the reconciler: which queues exist, which nodes wait or have been released.

An eviction queue is an actor that limits the rate of evictions in its zone. It is sent nothing before it has sent
ZoneQueueReady, and then its whole state. Thus a new queue, a restarted queue, and a queue that outlived a restart of
the controller are handled alike. A NodeDue is accepted only for a node that waits: a request that was cancelled, or
made before a restart of the controller, evicts no node.

The rate limit outlasts failures. If only the controller restarts, the queue keeps its token bucket. A restarted queue
is sent the time at which the zone's last node was released, and fills its bucket from that time on. After a restart of
the whole process this time is unknown. Then a zone with a node that is tainted NoExecute is assumed to be in an outage:
its bucket starts empty, and the next node waits for a whole token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import KIND, zone_queue_name
from kcm.actors.reconciliation import Tell
from kcm.protocols.messages.eviction import (
    EvictNode,
    NodeDue,
    PauseEvictions,
    ResumeEvictions,
    SetEvictionRate,
    SpareNode,
    StartOver,
    ZoneQueueReady,
)
from kcm.protocols.messages.lifecycle import StartChild, StopChild

RELEASE_VALIDITY = 5.0  # seconds within which a released node must be tainted; otherwise it is queued again


class WaitingNode(NamedTuple):
    """Node that has been added to the eviction queue of its zone, and has not been released for eviction yet."""

    zone: str
    uid: str


class _Queue(Struct):
    """Recorded state of the eviction queue of one zone."""

    ready: bool = False  # it has sent ZoneQueueReady
    known_to_manager: bool = True  # the current incarnation of the manager was sent StartChild for it
    qps: float | None = None  # rate in nodes per second; None while unknown
    last: float | None = None  # monotonic time at which its last node was released; None if unknown


class ZoneQueues:
    """Record of the eviction queues of all zones, and of the nodes that wait in them or have been released.

    Its generators yield messages to the queues and to the manager, which starts and stops the queues.
    """

    def __init__(self, *, manager: str, controller: str, burst: int) -> None:
        """Create the record, without eviction queues.

        manager: name of the manager's actor, which starts and stops the queues.
        controller: name of the controller that the queues belong to.
        burst: number of nodes that a queue may release at once.
        """
        self._manager, self._controller, self._burst = manager, controller, burst
        self._queues: dict[str, _Queue] = {}
        self._waiting: dict[str, WaitingNode] = {}  # by node, in order of arrival
        self._paused_zones: set[str] = set()
        self._overrides: dict[str, float] = {}  # rates that an operator has set, by zone
        self._all_paused = False
        self._due: dict[str, tuple[str, float]] = {}  # released nodes that are not evicted yet: (uid, when), by name
        self._evicted: set[str] = set()  # nodes whose pods were deleted, and which have not been ready since

    @property
    def zones(self) -> list[str]:
        return list(self._queues)

    # Messages received.

    def queue_started(self, message: ZoneQueueReady) -> bool:
        """Record that the eviction queue of a zone has started, and is empty.

        Returns True if the caller must send the queue its state; False if the zone does not exist any more.
        """
        queue = self._queues.get(message.zone)
        if queue is None:
            return False
        queue.ready = True
        if message.paused:  # by an earlier incarnation of its owner
            self._paused_zones.add(message.zone)
        if message.override is not None:
            self._overrides[message.zone] = message.override
        return True

    def accept_release(self, message: NodeDue, now: float) -> bool:
        """Record that the eviction queue of a zone has released a node. Returns whether the node may be evicted.

        False if the node does not wait any more, or was registered again with another uid.
        """
        queue = self._queues.get(message.zone)
        if queue is not None:
            queue.last = now
        if self._waiting.get(message.node) != WaitingNode(message.zone, message.uid):
            return False
        del self._waiting[message.node]
        self._due[message.node] = (message.uid, now)
        return True

    def pause(self, zone: str | None) -> list[str]:
        """Record that the evictions of a zone, or of all zones (None), are paused.

        Returns the names of these zones. The caller must send their queues the new state.
        """
        if zone is None:
            self._all_paused = True
            return self.zones
        self._paused_zones.add(zone)
        return [zone]

    def resume(self, zone: str | None) -> list[str]:
        if zone is None:
            self._all_paused = False
            self._paused_zones.clear()
            return self.zones
        self._paused_zones.discard(zone)
        return [zone]

    def override_rate(self, zone: str, qps: float | None) -> list[str]:
        """Record the rate that an operator has set for a zone; None for its usual one.

        Returns the names of the zones whose queues must be sent the new state: this zone, if it exists.
        """
        self._overrides.pop(zone, None)
        if qps is not None and zone in self._queues:
            self._overrides[zone] = qps
        return [zone] if zone in self._queues else []

    def manager_restarted(self) -> list[str]:
        """Record that the manager has restarted, and does not run the zones' eviction queues yet.

        Returns the zones whose queues must be started again: all zones.
        """
        for queue in self._queues.values():
            queue.known_to_manager = False
        return self.zones

    # Messages sent.

    def set_zones(self, zones: Mapping[str, float | None]) -> Iterator[Tell]:
        """Start and stop eviction queues, so that there is one queue for each of these zones.

        zones: by zone, the monotonic time at which a node was last released; None if unknown. Used for new queues.
        """
        for zone in [zone for zone in self._queues if zone not in zones]:
            del self._queues[zone]
            self._overrides.pop(zone, None)
            yield Tell(self._manager, StopChild(self._controller, KIND, zone))
        for zone, last in zones.items():
            if zone not in self._queues:
                self._queues[zone] = _Queue(last=last)
                yield Tell(self._manager, StartChild(self._controller, KIND, zone))
                yield Tell(zone_queue_name(zone), StartOver())  # in case a queue of an earlier incarnation still runs

    def send_state(self, zone: str) -> Iterator[Tell]:
        """Send the eviction queue of a zone its state: whether it is paused, its rate and its waiting nodes.

        A queue that the manager does not run yet is started; it is sent its state once it has sent ZoneQueueReady.
        """
        queue = self._queues.get(zone)
        if queue is None:
            return
        if not queue.known_to_manager:
            queue.known_to_manager = True
            yield Tell(self._manager, StartChild(self._controller, KIND, zone))
        if not queue.ready:
            return
        name = zone_queue_name(zone)
        paused = self._all_paused or zone in self._paused_zones
        yield Tell(name, PauseEvictions(zone) if paused else ResumeEvictions(zone))
        if queue.qps is None:
            return
        yield Tell(name, self._rate(zone, queue.qps, queue.last))
        for node, waiting in self._waiting.items():
            if waiting.zone == zone:
                yield Tell(name, EvictNode(node, waiting.uid))

    def set_rates(self, rates: Mapping[str, float]) -> Iterator[Tell]:
        """Send each eviction queue its rate if the rate has changed. rates: nodes per second, by zone."""
        for zone, qps in rates.items():
            queue = self._queues[zone]
            if queue.qps == qps:
                continue
            first, queue.qps = queue.qps is None, qps
            if first:
                yield from self.send_state(zone)
            elif queue.ready:
                yield Tell(zone_queue_name(zone), self._rate(zone, qps, queue.last))

    def set_waiting(self, wanted: Mapping[str, WaitingNode]) -> Iterator[Tell]:
        """Add nodes to the eviction queues and remove nodes, so that exactly these nodes wait.

        A node that waits already keeps its place. wanted: the nodes by name, in the order in which to add them.
        """
        for node in [node for node, waiting in self._waiting.items() if wanted.get(node) != waiting]:
            yield from self._tell_if_ready(self._waiting.pop(node).zone, SpareNode(node))
        for node, waiting in wanted.items():
            if node not in self._waiting:
                self._waiting[node] = waiting
                yield from self._tell_if_ready(waiting.zone, EvictNode(node, waiting.uid))

    def place_of(self, node: str, zone: str) -> str:
        """Return in words whether a node waits for its eviction, at which place and at which rate."""
        if node in self._due:
            return "its eviction queue has released it"
        if node not in self._waiting:
            return "does not wait for eviction yet"
        place = 1 + [other for other, waiting in self._waiting.items() if waiting.zone == zone].index(node)
        queue = self._queues.get(zone)
        rate = 0.0 if queue is None else queue.qps or 0.0
        paused = " and are paused" if self._all_paused or zone in self._paused_zones else ""
        return f"number {place} in the eviction queue of zone {zone or '(none)'}: {rate:g} nodes per second{paused}"

    # Released nodes.

    def is_due(self, node: str, uid: str, now: float) -> bool:
        """Report whether a node may be evicted now, because its queue has released it at most 5 s ago."""
        due = self._due.get(node)
        return due is not None and due[0] == uid and now - due[1] <= RELEASE_VALIDITY

    def is_evicted(self, node: str) -> bool:
        """Report whether the node's pods have been deleted, and it has not been ready since."""
        return node in self._evicted

    def release_used(self, node: str) -> None:
        """Record that a node released for eviction has been handled: it was tainted, or does not have to be."""
        self._due.pop(node, None)

    def pods_deleted(self, node: str) -> None:
        """Record that a node's pods have been deleted. It is not evicted again before it has been ready."""
        self._due.pop(node, None)
        self._evicted.add(node)

    def forget(self, nodes: Iterable[str]) -> None:
        """Discard the records about releases and evictions of these nodes.

        Called for nodes that are ready again, have been deleted, or must not be evicted any more.
        """
        for node in nodes:
            self._due.pop(node, None)
            self._evicted.discard(node)

    def _rate(self, zone: str, qps: float, last: float | None) -> SetEvictionRate:
        return SetEvictionRate(qps, self._burst, last, self._overrides.get(zone))

    def _tell_if_ready(self, zone: str, message: EvictNode | SpareNode) -> Iterator[Tell]:
        queue = self._queues.get(zone)
        if queue is not None and queue.ready and queue.qps is not None:
            yield Tell(zone_queue_name(zone), message)
