"""Messages between node-lifecycle, the eviction queues of its zones, and operators.

A zone is "region:zone" (protocols/nodes.py), "" for nodes without these labels. Times are of the monotonic clock.
"""

from __future__ import annotations

from msgspec import Struct


class ZoneQueueReady(Struct, frozen=True):
    """The queue of this zone has started, or started over: it holds no nodes. Queue → node-lifecycle.

    A queue that has just started has no rate either, and lets no node through before SetEvictionRate. paused: the queue
    has received PauseEvictions; a new incarnation of its owner has no record of that.
    """

    zone: str
    paused: bool = False


class SetEvictionRate(Struct, frozen=True):
    """Set the rate to `qps` nodes a second; 0: none. node-lifecycle → queue.

    burst: number of nodes that may be let through at once.
    last: when the owner last saw a node of the zone let through. A queue without a rate fills its bucket from then on;
    with None its bucket is full.
    """

    qps: float
    burst: int = 1
    last: float | None = None


class EvictNode(Struct, frozen=True):
    """Let this node through once the zone's rate allows; then the queue sends NodeDue. node-lifecycle → queue.

    uid: of the node; one that registers again under the same name is another. Sending this twice changes nothing.
    """

    node: str
    uid: str


class SpareNode(Struct, frozen=True):
    """Remove the node from the queue. node-lifecycle → queue."""

    node: str


class StartOver(Struct, frozen=True):
    """Remove all nodes, keep the rate, send ZoneQueueReady. A new incarnation of node-lifecycle → queue."""


class NodeDue(Struct, frozen=True):
    """This node's turn has come, and its token is spent: taint it, or delete its pods. Queue → node-lifecycle."""

    zone: str
    node: str
    uid: str


class PauseEvictions(Struct, frozen=True):
    """Let no node through until ResumeEvictions; waiting nodes keep their places. zone: None for all zones.

    Operator → node-lifecycle → queue. The pause survives a failure of either, not of both at once.
    """

    zone: str | None = None


class ResumeEvictions(Struct, frozen=True):
    """Resume after PauseEvictions."""

    zone: str | None = None
