"""The conversation between node-lifecycle and the eviction queues of its zones, and of people with it.

A zone is "region:zone", as protocols/nodes.py has it; "" for nodes that say neither. Times are of the monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ZoneQueueReady:
    """The queue of this zone has started, or started over: it has no nodes. Queue → node-lifecycle.

    A queue that has started does not know its rate either, and lets nobody through before it is told. paused: it was
    told PauseEvictions, which a new incarnation of its owner cannot know.
    """

    zone: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class SetEvictionRate:
    """Let through so many nodes a second from now on; 0: none. node-lifecycle → queue.

    burst: how many may be let through at once. last: when the zone's last node was let through, so far as its owner
    knows; it counts for a queue that did not know its rate, whose bucket is filled from then on; None: it is full.
    """

    qps: float
    burst: int = 1
    last: float | None = None


@dataclass(frozen=True, slots=True)
class EvictNode:
    """Let this node through once the zone's rate allows; answered by NodeDue. node-lifecycle → queue.

    uid: of the node that is meant; one that registers anew under the same name is another. Told again, nothing changes.
    """

    node: str
    uid: str


@dataclass(frozen=True, slots=True)
class SpareNode:
    """That node need not be let through. node-lifecycle → queue."""

    node: str


@dataclass(frozen=True, slots=True)
class StartOver:
    """Forget all nodes, keep the rate; answered by ZoneQueueReady. A new incarnation of node-lifecycle → queue."""


@dataclass(frozen=True, slots=True)
class NodeDue:
    """This node's turn has come, and its token is spent: taint it, or delete its pods. Queue → node-lifecycle."""

    zone: str
    node: str
    uid: str


@dataclass(frozen=True, slots=True)
class PauseEvictions:
    """Let nobody through until ResumeEvictions; waiting nodes keep their places. zone: None for all zones.

    Operator → node-lifecycle → queue. It outlives a failure of either, not of both at once.
    """

    zone: str | None = None


@dataclass(frozen=True, slots=True)
class ResumeEvictions:
    """Go on after PauseEvictions."""

    zone: str | None = None
