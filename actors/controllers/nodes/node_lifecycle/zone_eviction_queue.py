"""Eviction queue of one zone: an actor that releases failed nodes for eviction at a limited rate.

Receives SetEvictionRate, EvictNode, SpareNode, StartOver, PauseEvictions and ResumeEvictions from the
node-lifecycle-controller, Describe from users, and Wake. Sends ZoneQueueReady and NodeDue. There is one actor, named
`zone-eviction-queue:<zone>`, for each zone that has nodes, so that evictions in one zone neither wait for another zone
nor fail with it.

The queue starts empty, and releases no node before it has received a rate, so that a restart never speeds up evictions.
A released node is removed from the queue, and the controller taints it.

Source of the rate limiter: kubernetes v1.36 pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go. Differences:
nodes are released in order of arrival (upstream moves all of them to the end at each pass of the monitor), a token is
spent only on a node that is released, and a rate of 1 node per second is handled like any other.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec import Struct

from kcm.actors.engine.vitals import ZoneQueueVitals, description
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
from kcm.protocols.messages.lifecycle import Describe, Restarted, Wake
from kcm.runtime.metrics.registry import Counter, Gauge
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

SHOWN_NODES = 20  # waiting nodes that pages name
KIND = "zone-eviction-queue"


def zone_queue_name(zone: str) -> str:
    return f"{KIND}:{zone}"


class ZoneMeter(Struct, frozen=True, kw_only=True):
    """Metrics of the eviction queue of one zone."""

    depth: Gauge  # number of waiting nodes
    rate: Gauge  # nodes per second
    let_through: Counter  # number of released nodes


class ZoneQueueDescription(Struct, frozen=True, kw_only=True):
    """State of an eviction queue, as the reply to a Describe message."""

    zone: str
    waiting: tuple[str, ...]  # nodes, in order
    qps: float | None  # None before the owner has sent the rate
    burst: int
    paused: bool
    let_through: int  # number of released nodes
    next_in_seconds: float | None  # None while there is no rate


class ZoneEvictionQueue(Actor):
    """Actor that queues the nodes of one zone, and releases them for eviction as its token bucket permits."""

    def __init__(
        self, context: Context, *, zone: str, owner: str, meter: ZoneMeter, vitals: Vitals | None = None
    ) -> None:
        """Create an empty eviction queue, which releases no nodes before it has received SetEvictionRate.

        owner: name of the controller's actor, which receives ZoneQueueReady and NodeDue.
        """
        super().__init__(context)
        self._zone, self._owner, self._meter = zone, owner, meter
        self._vitals = vitals if vitals is not None else Vitals()
        self._bucket: TokenBucket | None = None  # None until the owner has sent the rate
        self._burst = 1
        self._waiting: dict[str, EvictNode] = {}  # by node, in order of arrival
        self._paused = False
        self._let_through = 0
        self._override: float | None = None  # rate that an operator has set

    def started(self) -> None:
        self._meter.depth.set(0)
        self._meter.rate.set(0)
        self.tell(self._owner, ZoneQueueReady(self._zone))

    def stopped(self) -> None:
        self._meter.depth.set(0)
        self._meter.rate.set(0)

    def receive(self, message: Any) -> Any:
        now = self.clock.monotonic()
        match message:
            case EvictNode(node=node):
                self._waiting.setdefault(node, message)
            case SpareNode(node=node):
                self._waiting.pop(node, None)
            case SetEvictionRate():
                self._set_rate(message, now)
            case StartOver():
                self._waiting.clear()
                self.tell(self._owner, ZoneQueueReady(self._zone, self._paused, self._override))
            case PauseEvictions():
                self._paused = True
            case ResumeEvictions():
                self._paused = False
            case Wake() | Restarted():
                pass  # nothing to record: whether nodes may be released follows from the state, below
            case Describe():
                return description(self.name, self._description(now))
            case _:
                super().receive(message)
        self._release_nodes(now)
        self._meter.depth.set(len(self._waiting))
        self._publish(now)
        return None

    def _set_rate(self, wanted: SetEvictionRate, now: float) -> None:
        """Change the eviction rate. The new token bucket is full if the old one had a token, otherwise empty."""
        self._override = wanted.override
        qps = max(0.0, wanted.qps if wanted.override is None else wanted.override)
        old = self._bucket
        if old is not None and old.qps == qps and self._burst == wanted.burst:
            return
        if old is None:
            empty = wanted.last is not None or qps == 0
            self._bucket = _bucket(qps, wanted.burst, now=now if wanted.last is None else wanted.last, empty=empty)
        else:
            # A new rate adds no token: a node that had to wait still has to wait.
            self._bucket = _bucket(qps, wanted.burst, now=now, empty=qps == 0 or not old.try_take(now))
        self._burst = wanted.burst
        self._meter.rate.set(qps)
        self.log.info("set eviction rate of zone", v=2, zone=self._zone, qps=qps, waiting=len(self._waiting))

    def _release_nodes(self, now: float) -> None:
        """Release waiting nodes while the token bucket has tokens, and schedule a wake-up for the next token."""
        if self._bucket is None or self._paused:
            return
        while self._waiting and self._bucket.try_take(now):
            eviction = self._waiting.pop(next(iter(self._waiting)))
            self._let_through += 1
            self._meter.let_through.inc()
            self.tell(self._owner, NodeDue(self._zone, eviction.node, eviction.uid))
            self.log.info("node is due for eviction", node=eviction.node, uid=eviction.uid, zone=self._zone)
        if self._waiting and self._bucket.qps > 0:
            self.wake_at(self._bucket.next_token(now))

    def _publish(self, now: float) -> None:
        bucket = self._bucket
        vitals = ZoneQueueVitals(
            waiting=len(self._waiting),
            next_nodes=tuple(islice(self._waiting, SHOWN_NODES)),
            qps=None if bucket is None else bucket.qps,
            override=self._override,
            burst=self._burst,
            paused=self._paused,
            released=self._let_through,
            due=bucket.next_token(now) if bucket is not None and bucket.qps > 0 else None,
        )
        self._vitals.say(self.name, vitals)

    def _description(self, now: float) -> ZoneQueueDescription:
        bucket = self._bucket
        due = bucket.next_token(now) if bucket is not None and bucket.qps > 0 else None
        return ZoneQueueDescription(
            zone=self._zone,
            waiting=tuple(self._waiting),
            qps=None if bucket is None else bucket.qps,
            burst=self._burst,
            paused=self._paused,
            let_through=self._let_through,
            next_in_seconds=None if due is None else round(max(0.0, due - now), 3),
        )


def _bucket(qps: float, burst: int, *, now: float, empty: bool) -> TokenBucket:
    bucket = TokenBucket(qps=qps, burst=burst, now=now)
    if empty:
        while bucket.try_take(now):
            pass
    return bucket
