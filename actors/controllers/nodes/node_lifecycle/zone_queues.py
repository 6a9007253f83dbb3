"""The owner's side of the zones' eviction queues: which exist, which nodes wait in them, which were let through.

A queue is sent nothing before its ZoneQueueReady, and its whole state then. So a new queue, a restarted one and one of
an earlier incarnation of its owner are treated alike. A NodeDue counts only for a node that waits: a request of an
earlier incarnation, or one that was taken back, evicts no node.

The rate holds over failures. A queue that survives its owner keeps its bucket. A restarted one is sent when its zone's
last node was let through, and fills its bucket from then on. After a restart of the whole process this is unknown: a
zone with a node that is tainted NoExecute then counts as in the middle of an outage. Its bucket starts empty, and the
next node waits for a full turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import KIND, zone_queue_name
from kcm.actors.reconciliation import Tell
from kcm.protocols.late_methods import dataclass
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

TURN = 5.0  # seconds within which a node that was let through is tainted; else it waits for another turn


class Waiting(NamedTuple):
    """A node that waits to be let through, in the queue of its zone."""

    zone: str
    uid: str


@dataclass(slots=True)
class _Queue:
    """ready: it has sent ZoneQueueReady. known_to_manager: this manager was sent StartChild for it.

    qps: its rate, None while unknown. last: when its last node was let through, monotonic; None if unknown.
    """

    ready: bool = False
    known_to_manager: bool = True
    qps: float | None = None
    last: float | None = None


class ZoneQueues:
    """Its generators yield the messages to the manager and the queues."""

    def __init__(self, *, manager: str, controller: str, burst: int) -> None:
        """manager: the actor that starts the queues. controller: their owner. burst: see SetEvictionRate."""
        self._manager, self._controller, self._burst = manager, controller, burst
        self._queues: dict[str, _Queue] = {}
        self._waiting: dict[str, Waiting] = {}  # by node, in order of arrival
        self._paused_zones: set[str] = set()
        self._all_paused = False
        self._due: dict[str, tuple[str, float]] = {}  # let through and not dealt with yet: (uid, when), by name
        self._evicted: set[str] = set()  # nodes whose pods were deleted, and that have not been ready since

    @property
    def zones(self) -> list[str]:
        return list(self._queues)

    # Messages received.

    def is_ready(self, message: ZoneQueueReady) -> bool:
        """Whether the queue is one of ours, and to be introduced."""
        queue = self._queues.get(message.zone)
        if queue is None:
            return False
        queue.ready = True
        if message.paused:  # for an earlier owner
            self._paused_zones.add(message.zone)
        return True

    def let_through(self, message: NodeDue, now: float) -> bool:
        """Whether the node waited, and is now due."""
        queue = self._queues.get(message.zone)
        if queue is not None:
            queue.last = now
        if self._waiting.get(message.node) != Waiting(message.zone, message.uid):
            return False
        del self._waiting[message.node]
        self._due[message.node] = (message.uid, now)
        return True

    def pause(self, zone: str | None) -> list[str]:
        """None is all zones. Returns the zones to introduce again."""
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

    def manager_restarted(self) -> list[str]:
        """The new manager does not know the queues. Returns the zones to introduce again."""
        for queue in self._queues.values():
            queue.known_to_manager = False
        return self.zones

    # Messages sent.

    def keep(self, zones: Mapping[str, float | None]) -> Iterator[Tell]:
        """Start and stop queues, so that there is one for each of these zones. The values: when the zone's last node
        was let through, for a queue that is new.
        """
        for zone in [zone for zone in self._queues if zone not in zones]:
            del self._queues[zone]
            yield Tell(self._manager, StopChild(self._controller, KIND, zone))
        for zone, last in zones.items():
            if zone not in self._queues:
                self._queues[zone] = _Queue(last=last)
                yield Tell(self._manager, StartChild(self._controller, KIND, zone))
                yield Tell(zone_queue_name(zone), StartOver())  # in case an earlier owner left it

    def introduce(self, zone: str) -> Iterator[Tell]:
        """Send the manager and the queue the zone's whole state."""
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
        yield Tell(name, SetEvictionRate(queue.qps, self._burst, queue.last))
        for node, waiting in self._waiting.items():
            if waiting.zone == zone:
                yield Tell(name, EvictNode(node, waiting.uid))

    def set_rates(self, rates: Mapping[str, float]) -> Iterator[Tell]:
        """Nodes a second, by zone. Only changes are sent."""
        for zone, qps in rates.items():
            queue = self._queues[zone]
            if queue.qps == qps:
                continue
            first, queue.qps = queue.qps is None, qps
            if first:
                yield from self.introduce(zone)
            elif queue.ready:
                yield Tell(zone_queue_name(zone), SetEvictionRate(qps, self._burst, queue.last))

    def set_waiting(self, wanted: Mapping[str, Waiting]) -> Iterator[Tell]:
        """Have exactly these nodes wait. Those that wait already keep their places."""
        for node in [node for node, waiting in self._waiting.items() if wanted.get(node) != waiting]:
            yield from self._tell(self._waiting.pop(node).zone, SpareNode(node))
        for node, waiting in wanted.items():
            if node not in self._waiting:
                self._waiting[node] = waiting
                yield from self._tell(waiting.zone, EvictNode(node, waiting.uid))

    # Nodes that were let through.

    def is_due(self, node: str, uid: str, now: float) -> bool:
        """It was let through, and its turn is not over."""
        due = self._due.get(node)
        return due is not None and due[0] == uid and now - due[1] <= TURN

    def is_evicted(self, node: str) -> bool:
        """Its pods have been deleted already, and it has not been ready since."""
        return node in self._evicted

    def dealt_with(self, node: str) -> None:
        """It is tainted, or need not be."""
        self._due.pop(node, None)

    def pods_deleted(self, node: str) -> None:
        """The node is not evicted again before it has been ready."""
        self._due.pop(node, None)
        self._evicted.add(node)

    def forget(self, nodes: Iterable[str]) -> None:
        """These nodes are ready again, gone, or not to be evicted."""
        for node in nodes:
            self._due.pop(node, None)
            self._evicted.discard(node)

    def _tell(self, zone: str, message: EvictNode | SpareNode) -> Iterator[Tell]:
        queue = self._queues.get(zone)
        if queue is not None and queue.ready and queue.qps is not None:
            yield Tell(zone_queue_name(zone), message)
