"""Tests of the zones' eviction queues and of the controller's record of them, driven by single messages."""

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
    """Actor in place of the controller, which ignores the messages of the eviction queue."""

    def receive(self, message: Any) -> None:
        pass


class Scene:
    """Simulated world with one eviction queue.

    messages: (second, message) for each message from the queue to its owner.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.world = World(log=log)
        self.system: ActorSystem = self.world.system()
        self.messages: list[tuple[float, Any]] = []
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
        """Return (second, node) for each node that the queue has released."""
        return [(round(at), message.node) for at, message in self.messages if isinstance(message, NodeDue)]

    def _hear(self, _sender: str, receiver: str, frame: bytes) -> None:
        if receiver == "owner":
            self.messages.append((self.world.clock.monotonic(), decode(frame)))


def evict(*nodes: str) -> list[EvictNode]:
    return [EvictNode(node, f"uid-of-{node}") for node in nodes]


def test_no_node_is_due_before_the_rate_is_set(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(*evict("n1"))
    scene.world.run_for(100)
    assert [message for _, message in scene.messages] == [ZoneQueueReady("eu:a")]


def test_nodes_are_due_in_their_order_at_the_rate(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2", "n3", "n4", "n2"), SpareNode("n3"))
    scene.world.run_for(100)
    assert scene.due() == [(0, "n1"), (10, "n2"), (20, "n4")]


def test_tokens_accumulate_up_to_the_burst(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1, burst=2))
    scene.world.run_for(1000)
    scene.tell(*evict("n1", "n2", "n3"))
    scene.world.run_for(100)
    assert scene.due() == [(1000, "n1"), (1000, "n2"), (1010, "n3")]


def test_new_rate_applies_from_now_on_and_adds_no_token(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2", "n3", "n4"))
    scene.world.run_for(9)
    scene.tell(SetEvictionRate(0.01))
    scene.world.run_for(110)
    assert scene.due() == [(0, "n1"), (109, "n2")]
    scene.tell(SetEvictionRate(0))
    scene.world.run_for(1000)
    scene.tell(SetEvictionRate(1.0))  # also after a rate of 0, where upstream's limiter ignores a change to 1
    scene.world.run_for(10)
    assert scene.due()[2:] == [(1120, "n3"), (1121, "n4")]


def test_setting_the_same_rate_has_no_effect(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2"))
    for _ in range(9):
        scene.world.run_for(1)
        scene.tell(SetEvictionRate(0.1))
    scene.world.run_for(10)
    assert scene.due() == [(0, "n1"), (10, "n2")]


def test_restarted_queue_fills_its_bucket_from_the_last_due_node(
    log: FilteringBoundLogger,
) -> None:
    scene = Scene(log)
    scene.world.run_for(100)
    scene.tell(SetEvictionRate(0.1, last=96.0), *evict("n1", "n2"))
    scene.world.run_for(100)
    assert scene.due() == [(106, "n1"), (116, "n2")]


def test_start_over_keeps_the_bucket(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.tell(SetEvictionRate(0.1), *evict("n1", "n2"))
    scene.world.run_for(4)
    scene.tell(StartOver(), SetEvictionRate(0.1, last=None), *evict("n3"))
    scene.world.run_for(20)
    assert scene.due() == [(0, "n1"), (10, "n3")]
    assert [message for _, message in scene.messages].count(ZoneQueueReady("eu:a")) == 2


# The owner of the queues.


def owner() -> ZoneQueues:
    return ZoneQueues(manager="manager", controller="node-lifecycle-controller", burst=1)


def messages(tells: Any) -> list[tuple[str, Any]]:
    return [(tell.to, tell.message) for tell in tells]


def test_queue_receives_its_state_when_it_queue_started() -> None:
    queues = owner()
    assert messages(queues.set_zones({"eu:a": 7.0})) == [
        ("manager", StartChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a")),
        (QUEUE, StartOver()),
    ]
    assert messages(queues.set_rates({"eu:a": 0.1})) == []
    assert messages(queues.set_waiting({"n1": WaitingNode("eu:a", "u1")})) == []
    assert queues.queue_started(ZoneQueueReady("eu:a"))
    assert (QUEUE, SetEvictionRate(0.1, 1, 7.0)) in messages(queues.send_state("eu:a"))
    assert messages(queues.send_state("eu:a"))[-1] == (QUEUE, EvictNode("n1", "u1"))
    assert not queues.queue_started(ZoneQueueReady("eu:other"))


def ready_owner() -> ZoneQueues:
    queues = owner()
    list(queues.set_zones({"eu:a": None, "eu:b": None}))
    for zone in ("eu:a", "eu:b"):
        queues.queue_started(ZoneQueueReady(zone))
    list(queues.set_rates({"eu:a": 0.1, "eu:b": 0.1}))
    return queues


def test_only_changes_are_sent_to_queues() -> None:
    queues = ready_owner()
    first, second = WaitingNode("eu:a", "u1"), WaitingNode("eu:a", "u2")
    assert messages(queues.set_waiting({"n1": first})) == [(QUEUE, EvictNode("n1", "u1"))]
    assert messages(queues.set_waiting({"n1": first, "n2": second})) == [(QUEUE, EvictNode("n2", "u2"))]
    assert messages(queues.set_waiting({"n2": second})) == [(QUEUE, SpareNode("n1"))]
    moved = messages(queues.set_waiting({"n2": WaitingNode("eu:b", "u2")}))
    assert moved == [(QUEUE, SpareNode("n2")), (zone_queue_name("eu:b"), EvictNode("n2", "u2"))]
    assert messages(queues.set_rates({"eu:a": 0.1, "eu:b": 0.0})) == [
        (zone_queue_name("eu:b"), SetEvictionRate(0.0, 1, None))
    ]


def test_only_waiting_node_can_be_due() -> None:
    queues = ready_owner()
    list(queues.set_waiting({"n1": WaitingNode("eu:a", "u1")}))
    assert not queues.accept_release(NodeDue("eu:a", "n2", "u2"), 5.0)
    assert not queues.accept_release(NodeDue("eu:a", "n1", "another uid"), 5.0)
    assert not queues.accept_release(NodeDue("eu:b", "n1", "u1"), 5.0)
    assert queues.accept_release(NodeDue("eu:a", "n1", "u1"), 6.0)
    assert queues.is_due("n1", "u1", 6.0)
    assert queues.is_due("n1", "u1", 11.0)
    assert not queues.is_due("n1", "u1", 11.1)
    assert not queues.is_due("n1", "u2", 6.0)
    assert not queues.is_due("n2", "u2", 6.0)
    assert not queues.accept_release(NodeDue("eu:a", "n1", "u1"), 7.0)
    queues.forget(["n1"])
    assert not queues.is_due("n1", "u1", 7.0)


def test_queue_of_zone_without_nodes_is_stopped() -> None:
    queues = ready_owner()
    assert messages(queues.set_zones({"eu:b": None})) == [
        ("manager", StopChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a"))
    ]
    assert queues.zones == ["eu:b"]


def test_restarted_manager_is_asked_once_to_start_each_queue() -> None:
    queues = ready_owner()
    assert queues.manager_restarted() == ["eu:a", "eu:b"]
    started = ("manager", StartChild("node-lifecycle-controller", "zone-eviction-queue", "eu:a"))
    assert started in messages(queues.send_state("eu:a"))
    assert started not in messages(queues.send_state("eu:a"))
