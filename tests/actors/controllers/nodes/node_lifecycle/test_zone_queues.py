"""Zone queues and their owner, message by message."""

from __future__ import annotations

from functools import partial
from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import (
    ZoneEvictionQueue,
    ZoneMeter,
    zone_queue_name,
)
from kcm.actors.controllers.nodes.node_lifecycle.zone_queues import WaitingNode, ZoneQueues
from kcm.protocols.codec import decode
from kcm.protocols.messages.eviction import EvictNode, NodeDue, SetEvictionRate, SpareNode, StartOver, ZoneQueueReady
from kcm.protocols.messages.lifecycle import StartChild, StopChild
from kcm.runtime.metrics.registry import Counter, Gauge
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.actor_system import ActorSystem

QUEUE = zone_queue_name("eu:a")


class Owner(Actor):
    """Receives the messages of the queue, and does nothing."""

    def receive(self, message: Any) -> None:
        pass


class Scene:
    """One queue in a world, and its messages to its owner: (second, message)."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.world = World(log=log)
        self.system: ActorSystem = self.world.system()
        self.told: list[tuple[float, Any]] = []
        self.system.taps.append(self._hear)
        self.system.spawn(ActorSpec(name="owner", build=Owner))
        meter = ZoneMeter(depth=Gauge(), rate=Gauge(), let_through=Counter())
        arguments = {"zone": "eu:a", "owner": "owner", "meter": meter}
        self.spec = ActorSpec(name=QUEUE, build=partial(ZoneEvictionQueue, **arguments))
        self.system.spawn(self.spec)

    def tell(self, *messages: Any) -> None:
        for message in messages:
            self.system.tell(QUEUE, message)

    def due(self) -> list[tuple[int, str]]:
        """When which nodes were let through."""
        return [(round(at), message.node) for at, message in self.told if isinstance(message, NodeDue)]

    def _hear(self, _sender: str, receiver: str, frame: bytes) -> None:
        if receiver == "owner":
            self.told.append((self.world.clock.monotonic(), decode(frame)))


def evict(*nodes: str) -> list[EvictNode]:
    return [EvictNode(node, f"uid-of-{node}") for node in nodes]


def test_nobody_is_let_through_before_the_rate_is_known(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(*evict("n1"))
    scene.world.run_for(100)
    assert [message for _, message in scene.told] == [ZoneQueueReady("eu:a")]


def test_nodes_go_in_the_order_of_their_arrival_at_the_rate(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2", "n3", "n4", "n2"), SpareNode("n3"))
    scene.world.run_for(100)
    assert scene.due() == [(0, "n1"), (10, "n2"), (20, "n4")]


def test_a_token_gathers_while_nobody_waits_and_no_more_than_the_burst(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1, burst=2))
    scene.world.run_for(1000)
    scene.tell(*evict("n1", "n2", "n3"))
    scene.world.run_for(100)
    assert scene.due() == [(1000, "n1"), (1000, "n2"), (1010, "n3")]


def test_a_new_rate_counts_from_now_on_and_brings_no_token(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2", "n3", "n4"))
    scene.world.run_for(9)
    scene.tell(SetEvictionRate(0.01))
    scene.world.run_for(110)
    assert scene.due() == [(0, "n1"), (109, "n2")]
    scene.tell(SetEvictionRate(0))
    scene.world.run_for(1000)
    scene.tell(SetEvictionRate(1.0))  # also out of a rate of 0, where upstream's limiter takes 1 for unchanged
    scene.world.run_for(10)
    assert scene.due()[2:] == [(1120, "n3"), (1121, "n4")]


def test_the_same_rate_again_changes_nothing(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2"))
    for _ in range(9):
        scene.world.run_for(1)
        scene.tell(SetEvictionRate(0.1))
    scene.world.run_for(10)
    assert scene.due() == [(0, "n1"), (10, "n2")]


def test_a_queue_that_starts_fills_its_bucket_from_when_the_last_node_was_let_through(
    log: FilteringBoundLogger,
) -> None:
    scene = Scene(log)
    scene.world.run_for(100)
    scene.tell(SetEvictionRate(0.1, last=96.0), *evict("n1", "n2"))
    scene.world.run_for(100)
    assert scene.due() == [(106, "n1"), (116, "n2")]


def test_a_queue_that_starts_over_keeps_its_bucket(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2"))
    scene.world.run_for(4)
    scene.tell(StartOver(), SetEvictionRate(0.1, last=None), *evict("n3"))
    scene.world.run_for(20)
    assert scene.due() == [(0, "n1"), (10, "n3")]
    assert [message for _, message in scene.told].count(ZoneQueueReady("eu:a")) == 2


# The owner's side.


def owner() -> ZoneQueues:
    return ZoneQueues(manager="manager", controller="node-lifecycle-controller", burst=1)


def told(tells: Any) -> list[tuple[str, Any]]:
    return [(tell.to, tell.message) for tell in tells]


def test_a_queue_is_told_nothing_before_it_is_ready_and_everything_then() -> None:
    queues = owner()
    assert told(queues.keep({"eu:a": 7.0})) == [
        ("manager", StartChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a")),
        (QUEUE, StartOver()),
    ]
    assert told(queues.set_rates({"eu:a": 0.1})) == []
    assert told(queues.set_waiting({"n1": WaitingNode("eu:a", "u1")})) == []
    assert queues.is_ready(ZoneQueueReady("eu:a"))
    assert (QUEUE, SetEvictionRate(0.1, 1, 7.0)) in told(queues.introduce("eu:a"))
    assert told(queues.introduce("eu:a"))[-1] == (QUEUE, EvictNode("n1", "u1"))
    assert not queues.is_ready(ZoneQueueReady("eu:other"))


def ready_owner() -> ZoneQueues:
    queues = owner()
    list(queues.keep({"eu:a": None, "eu:b": None}))
    for zone in ("eu:a", "eu:b"):
        queues.is_ready(ZoneQueueReady(zone))
    list(queues.set_rates({"eu:a": 0.1, "eu:b": 0.1}))
    return queues


def test_only_what_has_changed_is_told() -> None:
    queues = ready_owner()
    one, two = WaitingNode("eu:a", "u1"), WaitingNode("eu:a", "u2")
    assert told(queues.set_waiting({"n1": one})) == [(QUEUE, EvictNode("n1", "u1"))]
    assert told(queues.set_waiting({"n1": one, "n2": two})) == [(QUEUE, EvictNode("n2", "u2"))]
    assert told(queues.set_waiting({"n2": two})) == [(QUEUE, SpareNode("n1"))]
    moved = told(queues.set_waiting({"n2": WaitingNode("eu:b", "u2")}))
    assert moved == [(QUEUE, SpareNode("n2")), (zone_queue_name("eu:b"), EvictNode("n2", "u2"))]
    assert told(queues.set_rates({"eu:a": 0.1, "eu:b": 0.0})) == [
        (zone_queue_name("eu:b"), SetEvictionRate(0.0, 1, None))
    ]


def test_a_node_is_due_only_if_it_waits_for_it() -> None:
    queues = ready_owner()
    list(queues.set_waiting({"n1": WaitingNode("eu:a", "u1")}))
    assert not queues.let_through(NodeDue("eu:a", "n2", "u2"), 5.0)
    assert not queues.let_through(NodeDue("eu:a", "n1", "another uid"), 5.0)
    assert not queues.let_through(NodeDue("eu:b", "n1", "u1"), 5.0)
    assert queues.let_through(NodeDue("eu:a", "n1", "u1"), 6.0)
    assert queues.is_due("n1", "u1", 6.0)
    assert queues.is_due("n1", "u1", 11.0)
    assert not queues.is_due("n1", "u1", 11.1)
    assert not queues.is_due("n1", "u2", 6.0)
    assert not queues.is_due("n2", "u2", 6.0)
    assert not queues.let_through(NodeDue("eu:a", "n1", "u1"), 7.0)
    queues.forget(["n1"])
    assert not queues.is_due("n1", "u1", 7.0)


def test_zones_without_nodes_lose_their_queues() -> None:
    queues = ready_owner()
    assert told(queues.keep({"eu:b": None})) == [
        ("manager", StopChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a"))
    ]
    assert queues.zones == ["eu:b"]


def test_a_new_manager_is_told_of_each_queue_once() -> None:
    queues = ready_owner()
    assert queues.manager_restarted() == ["eu:a", "eu:b"]
    started = ("manager", StartChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a"))
    assert started in told(queues.introduce("eu:a"))
    assert started not in told(queues.introduce("eu:a"))
