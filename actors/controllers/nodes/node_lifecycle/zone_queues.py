"""The owner's side of the zones' eviction queues: which there are, who waits in which, who has been let through.

A queue is told nothing before it has said ZoneQueueReady, and everything then: so it makes no difference whether it has
just been made, was restarted after a failure, or belonged to an earlier incarnation of its owner. A NodeDue counts only
for a node that waits: what an earlier incarnation asked for, or what has been taken back since, evicts nobody.

The rate holds over failures. A queue that survives its owner keeps its bucket. One that is restarted is told when its
zone's last node was let through, and fills its bucket from then on. If nobody remembers, as after a restart of the
whole process, a zone in which some node is tainted NoExecute is taken to be in the middle of an outage: its bucket
starts empty, and the next node waits for its full turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from actors.controllers.nodes.node_lifecycle.zone_eviction_queue import KIND, zone_queue_name
from actors.reconciliation import Tell
from protocols.messages.eviction import (
    EvictNode,
    NodeDue,
    PauseEvictions,
    ResumeEvictions,
    SetEvictionRate,
    SpareNode,
    StartOver,
    ZoneQueueReady,
)
from protocols.messages.lifecycle import StartChild, StopChild

TURN = 5.0  # seconds in which a node that was let through is to be dealt with; else it waits for another turn


class Waiting(NamedTuple):
    """One node that is to be let through. uid: of the node that is meant."""

    zone: str
    uid: str


@dataclass(slots=True)
class _Queue:
    """ready: it is there and listens. qps: what it should let through, None while nobody knows. last: see above.
    known_to_manager: the manager was sent StartChild for it.
    """

    ready: bool = False
    known_to_manager: bool = True
    qps: float | None = None
    last: float | None = None


class ZoneQueues:
    """See the module. Its generators yield what is to be told."""

    def __init__(self, *, manager: str, controller: str, burst: int) -> None:
        """manager: who starts the queues. controller: whose children they are. burst: see SetEvictionRate."""
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

    # What is heard.

    def is_ready(self, message: ZoneQueueReady) -> bool:
        """Answers whether the queue is one of ours, and to be introduced."""
        queue = self._queues.get(message.zone)
        if queue is None:
            return False
        queue.ready = True
        if message.paused:  # as an earlier owner was told to
            self._paused_zones.add(message.zone)
        return True

    def let_through(self, message: NodeDue, now: float) -> bool:
        """Answers whether the node did wait for it, and is now due."""
        queue = self._queues.get(message.zone)
        if queue is not None:
            queue.last = now
        if self._waiting.get(message.node) != Waiting(message.zone, message.uid):
            return False
        del self._waiting[message.node]
        self._due[message.node] = (message.uid, now)
        return True

    def pause(self, zone: str | None) -> list[str]:
        """None is all zones. Answers the zones that are to be introduced anew."""
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
        """The manager is a new one, which does not know of the queues. Returns the zones to be introduced anew."""
        for queue in self._queues.values():
            queue.known_to_manager = False
        return self.zones

    # What is told.

    def keep(self, zones: Mapping[str, float | None]) -> Iterator[Tell]:
        """Have one queue for each of these zones, and no other. The values: when the zone's last node was let through,
        should nobody know better.
        """
        for zone in [zone for zone in self._queues if zone not in zones]:
            del self._queues[zone]
            yield Tell(self._manager, StopChild(self._controller, KIND, zone))
        for zone, last in zones.items():
            if zone not in self._queues:
                self._queues[zone] = _Queue(last=last)
                yield Tell(self._manager, StartChild(self._controller, KIND, zone))
                yield Tell(zone_queue_name(zone), StartOver())  # in case it is there, as an earlier owner left it

    def introduce(self, zone: str) -> Iterator[Tell]:
        """All that the manager and the queue have to know."""
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
        """Nodes a second, by zone. What has not changed is not told again."""
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
        """Exactly these nodes wait. Those that wait already keep their places."""
        for node in [node for node, waiting in self._waiting.items() if wanted.get(node) != waiting]:
            yield from self._tell(self._waiting.pop(node).zone, SpareNode(node))
        for node, waiting in wanted.items():
            if node not in self._waiting:
                self._waiting[node] = waiting
                yield from self._tell(waiting.zone, EvictNode(node, waiting.uid))

    # What has become of those let through.

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
        """It is not evicted again before it has been ready."""
        self._due.pop(node, None)
        self._evicted.add(node)

    def forget(self, nodes: Iterable[str]) -> None:
        """They are well again, gone, or not to be evicted."""
        for node in nodes:
            self._due.pop(node, None)
            self._evicted.discard(node)

    def _tell(self, zone: str, message: EvictNode | SpareNode) -> Iterator[Tell]:
        queue = self._queues.get(zone)
        if queue is not None and queue.ready and queue.qps is not None:
            yield Tell(zone_queue_name(zone), message)
