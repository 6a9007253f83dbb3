"""Messages between node-lifecycle, the eviction queues of its zones, and operators.

A zone is "region:zone" (protocols/nodes.py), "" for nodes without these labels. Times are of the monotonic clock.
"""

from __future__ import annotations

from kcm.protocols.messages.message import Message


class ZoneQueueReady(Message, frozen=True, tag=110):
    """The queue of this zone has started, or was reset, and contains no nodes. Queue → node-lifecycle.

    A queue that has just started has no rate either, and releases no node before SetEvictionRate. paused: the queue
    has received PauseEvictions. A new incarnation of its owner has no record of that, nor of an overridden rate.
    """

    zone: str
    paused: bool = False
    override: float | None = None  # as in SetEvictionRate, from the last one


class SetEvictionRate(Message, frozen=True, tag=111):
    """Set the rate to `qps` nodes per second; 0 stops evictions. node-lifecycle → queue.

    burst: number of nodes that may be released at once.
    last: time at which the owner last received a NodeDue of the zone. A queue without a rate refills its token bucket
        from then on; with None its bucket is full.
    override: rate that an operator has set, which applies in place of `qps`; None without one.
    """

    qps: float
    burst: int = 1
    last: float | None = None
    override: float | None = None


class EvictNode(Message, frozen=True, tag=112):
    """Release this node once the zone's rate allows; the queue then sends NodeDue. node-lifecycle → queue.

    uid: of the node; a node that registers again under the same name has another. Sending this twice has no effect.
    """

    node: str
    uid: str


class SpareNode(Message, frozen=True, tag=113):
    """Remove the node from the queue. node-lifecycle → queue."""

    node: str


class StartOver(Message, frozen=True, tag=114):
    """Remove all nodes, keep the rate, and send ZoneQueueReady. A new incarnation of node-lifecycle → queue."""


class NodeDue(Message, frozen=True, tag=115):
    """The rate limiter has released this node: taint the node, or delete its pods. Queue → node-lifecycle."""

    zone: str
    node: str
    uid: str


class PauseEvictions(Message, frozen=True, tag=116):
    """Release no node until ResumeEvictions; waiting nodes keep their places. zone: None for all zones.

    Operator → node-lifecycle → queue. The pause survives a failure of either actor, but not of both at once.
    """

    zone: str | None = None


class ResumeEvictions(Message, frozen=True, tag=117):
    """Resume after PauseEvictions."""

    zone: str | None = None


class SetZoneRate(Message, frozen=True, tag=118):
    """Release `qps` nodes per second for eviction, whatever the state of the zone; None for its usual rate.

    Operator → node-lifecycle. As a pause, the rate survives a failure of node-lifecycle or of the queue, but not of
    both at once. Nodes of a zone whose evictions are stopped are not in its queue, so the rate has no effect on them.
    """

    zone: str
    qps: float | None = None
