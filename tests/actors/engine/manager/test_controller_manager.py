"""The manager restarts each child by itself, whatever happens to others or to the manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import orjson
from msgspec.structs import asdict
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.manager import ControllerManager
from kcm.actors.engine.manager.plan import ControllerPlan, DiscoveredInformer, ManagerPlan, Steering
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.lifecycle import (
    ActorFailed,
    Describe,
    Disable,
    Drain,
    Drained,
    Enable,
    LeaseHeld,
    LeaseLost,
    Pause,
    Restart,
    Restarted,
    Resume,
    StartChild,
    StopChild,
)
from kcm.protocols.messages.watches import Unsubscribe
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.vitals import Vitals


class NothingDiscovered:
    """Implements DiscoveryPlan for controllers that discover nothing."""

    def __init__(self, actor: ActorSpec) -> None:
        self.actor = actor
        self.informers: Mapping[str, DiscoveredInformer] = {}

    def add(self, served: ServedResource, *, metadata_only: bool) -> DiscoveredInformer:
        raise AssertionError(f"{served} is wanted by no controller")

    def drop(self, resource_id: str) -> None:
        raise AssertionError(f"{resource_id} has no informer")


class Keeper(Actor):
    """Records the messages of each incarnation."""

    def __init__(self, context: Context, *, kept: list[tuple[str, int, Any]]) -> None:
        super().__init__(context)
        self._kept = kept

    def receive(self, message: Any) -> None:
        self._kept.append((self.name, self.context.incarnation, message))


class ManagerRig:
    """Manager, the actors that it may start (each keeps its messages), and the reason of its end."""

    def __init__(self, log: FilteringBoundLogger, **plan: Any) -> None:
        self.world = World(log=log)
        self.process = self.world.process("manager")
        self.system = self.world.system()
        self.kept: list[tuple[str, int, Any]] = []
        self.ended: list[str] = []
        self.vitals = Vitals()

        def child(kind: str, name: str) -> ActorSpec:
            if kind != "queue":
                raise KeyError(kind)
            return self.keeper(f"queue:{name}")

        def controller(name: str) -> ControllerPlan:
            pods = ("v1/pods",)
            return ControllerPlan(spec=self.keeper(f"controller:{name}"), resources=pods, tables=pods, child=child)

        arguments: Mapping[str, Any] = {
            "infrastructure": (self.keeper("dispatcher"), self.keeper("elector")),
            "informers": {"v1/pods": self.keeper("informer:v1/pods")},
            "controllers": {name: controller(name) for name in ("one", "two", "off")},
            "enabled": ("one", "two"),
            "leader_elect": False,
            "discovery": NothingDiscovered(self.keeper("discovery")),
            **plan,
        }
        self.spec = ActorSpec(
            name=MANAGER,
            build=partial(
                ControllerManager,
                plan=ManagerPlan(**arguments),
                steering=Steering(),
                vitals=self.vitals,
                ended=self.ended.append,
                seed=1,
            ),
        )
        self.system.spawn(self.spec)
        self.world.run_for(0.5)

    def keeper(self, name: str) -> ActorSpec:
        return ActorSpec(name=name, build=partial(Keeper, kept=self.kept))

    def tell(self, *messages: Any, then: float = 0.5) -> None:
        for message in messages:
            self.system.tell(MANAGER, message)
        self.world.run_for(then)

    def received(self, name: str, kind: type[Any]) -> list[tuple[int, Any]]:
        """Return the messages of this type that an actor received, with its incarnation."""
        return [
            (incarnation, message) for to, incarnation, message in self.kept if to == name and type(message) is kind
        ]

    def alive(self, name: str) -> bool:
        return self.system.is_alive(name)

    def children(self) -> dict[str, Any]:
        facts: dict[str, Any] = orjson.loads(self.world.ask(self.system, MANAGER, Describe()).facts)["children"]
        return facts

    def lose_manager(self) -> None:
        """Let the manager fail and be restarted, as ControllerSystem does."""
        self.system.fence(MANAGER)
        self.world.run_for(0.1)
        self.system.spawn(self.spec)
        self.world.run_for(0.5)


def test_failure_of_a_replaced_incarnation_does_not_count(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Restart("one"), ActorFailed("controller:one", 1, "late news"))
    assert rig.system.incarnation("controller:one") == 2
    assert rig.alive("controller:one")
    assert rig.children()["controller:one"]["failures"] == 0


def test_vitals_match_the_state_of_children_after_each_event(
    log: FilteringBoundLogger,
) -> None:
    rig = ManagerRig(log)

    def fail() -> None:
        rig.world.kill(rig.system, "controller:two")

    happenings: list[Callable[[], None]] = [
        lambda: rig.tell(Restart("one")),
        lambda: rig.tell(Disable("one")),
        lambda: rig.tell(Enable("one"), Enable("off")),
        lambda: rig.tell(StartChild("one", "queue", "a")),
        lambda: rig.tell(StopChild("one", "queue", "a")),
        *[fail] * 12,  # until the manager gives up
    ]
    for happens in happenings:
        happens()
        for _ in range(20):
            rig.world.run_for(1.0)
            vitals = rig.vitals.of(MANAGER, ManagerVitals)
            assert vitals is not None
            assert {name: asdict(child) for name, child in vitals.children.items()} == rig.children()
    assert rig.children()["controller:two"]["gave_up"]


# Pause, resume, enable and disable in every state.


def test_pause_before_the_start_applies_from_the_start(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(Pause("one"))
    rig.tell(LeaseHeld(100.0))
    assert rig.received("controller:one", Pause) == [(1, Pause("one"))]
    assert rig.received("controller:two", Pause) == []


def test_pause_survives_restarts_of_controller_and_manager(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Pause("one"))
    rig.tell(Restart("one"))
    rig.lose_manager()
    rig.tell(Restart("one"))
    assert [incarnation for incarnation, _ in rig.received("controller:one", Pause)] == [1, 2, 3]
    rig.tell(Resume("one"))
    rig.tell(Restart("one"))
    assert len(rig.received("controller:one", Pause)) == 3


def test_controller_disabled_on_a_standby_stays_off_with_the_lease(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(Disable("one"))
    rig.tell(LeaseHeld(100.0))
    assert not rig.alive("controller:one")
    assert rig.alive("controller:two")


def test_controller_enabled_on_a_standby_waits_for_the_lease(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(Enable("off"), then=3.0)
    assert not rig.alive("controller:off"), "it may not write yet"
    rig.tell(LeaseHeld(100.0))
    assert rig.alive("controller:off")


def test_a_new_manager_knows_what_was_switched_on_and_off(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Disable("one"), Enable("off"))
    rig.system.fence("controller:off")  # stopped when the manager fails
    rig.lose_manager()
    assert not rig.alive("controller:one")
    assert rig.alive("controller:off")


def test_controller_enabled_twice_is_started_once(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Enable("off"), Enable("off"))
    rig.tell(Enable("off"))
    assert rig.system.incarnation("controller:off") == 1


def test_controller_disabled_before_its_restart_stays_off(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.system.fence("controller:one")
    rig.tell(ActorFailed("controller:one", 1, "broken"), Disable("one"), then=60.0)
    assert not rig.alive("controller:one")
    assert rig.received("informer:v1/pods", Unsubscribe) == [(1, Unsubscribe("controller:one"))]


def test_unknown_controller_is_logged_and_ignored(log: FilteringBoundLogger, logs: LogCapture) -> None:
    rig = ManagerRig(log)
    rig.tell(Pause("nobody"), Resume("nobody"), Enable("nobody"), Disable("nobody"), Restart("nobody"))
    assert [e["log_level"] for e in logs.entries if "nobody" in e.values()] == ["warning"] * 5


# Children of controllers.


def test_unknown_kind_of_child_is_logged_and_does_not_stop_the_manager(
    log: FilteringBoundLogger, logs: LogCapture
) -> None:
    rig = ManagerRig(log)
    rig.tell(StartChild("one", "riddle", "a"), StartChild("one", "queue", "b"))
    assert rig.alive(MANAGER)
    assert rig.alive("queue:b")
    assert any(e["log_level"] == "error" and e.get("kind") == "riddle" for e in logs.entries)


def test_controller_can_stop_only_its_own_children(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(StartChild("one", "queue", "b"))
    rig.tell(StopChild("two", "queue", "b"), StopChild("two", "controller", "one"))
    assert rig.alive("queue:b")
    assert rig.alive("controller:one")
    rig.tell(StopChild("one", "queue", "b"))
    assert not rig.alive("queue:b")


def test_children_go_with_a_controller_that_is_disabled_after_a_new_manager_came(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(StartChild("one", "queue", "b"))
    rig.lose_manager()
    rig.tell(StartChild("one", "queue", "b"))
    assert rig.system.incarnation("queue:b") == 1, "it lives"
    rig.tell(Disable("one"))
    assert not rig.alive("queue:b")


# Hung actors, and a paused process.


def test_hung_actor_is_replaced_and_may_recover(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.world.hang(rig.system, "controller:one", seconds=50.0)
    rig.world.run_for(29.0)
    assert rig.system.incarnation("controller:one") == 1
    rig.world.run_for(7.0)
    assert rig.system.incarnation("controller:one") == 2
    rig.world.run_for(120.0)
    assert rig.system.incarnation("controller:one") == 2
    assert rig.alive("controller:one")


def test_busy_actor_with_progress_is_not_hung(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    for number in range(5):
        rig.world.hang(rig.system, "controller:one", seconds=20.0)
        rig.system.tell("controller:one", Resume(str(number)))
        assert rig.world.run_until(partial(_has_received, rig, number + 1), within=21.0)
    assert rig.system.incarnation("controller:one") == 1


def _has_received(rig: ManagerRig, messages: int) -> bool:
    return len(rig.received("controller:one", Resume)) == messages


def test_supervision_wakes_no_idle_actor(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    steps = rig.world.steps
    rig.world.run_for(600.0)
    assert rig.world.steps - steps == 600 / 5, "the manager's own looks"


def test_vitals_are_current_immediately(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Disable("one"), then=0.0)
    vitals = rig.vitals.of(MANAGER, ManagerVitals)
    assert vitals is not None
    assert "controller:one" not in vitals.children


def test_suspended_process_does_not_count_as_hung_actors(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.world.run_for(4.4)
    for name in ("dispatcher", "elector", "informer:v1/pods", "controller:one", "controller:two"):
        rig.world.hang(rig.system, name, seconds=60.0)
    rig.world.run_for(1.0)  # the manager observes that the actors make no progress
    rig.world.hang(rig.system, MANAGER, seconds=59.0)
    rig.world.run_for(65.0)
    assert {child["incarnation"] for child in rig.children().values()} == {1}


# Drain and halt.


def test_repeated_drained_releases_the_lease_once(
    log: FilteringBoundLogger,
) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(LeaseHeld(100.0))
    rig.tell(Drain())
    rig.tell(Drained("controller:one"), Drained("controller:one"))
    assert rig.received("elector", Drain) == []
    rig.tell(Drained("controller:two"), Drained("controller:two"), Drained("controller:one"))
    assert len(rig.received("elector", Drain)) == 1
    assert rig.ended == []
    rig.tell(Drained("elector"))
    assert rig.ended == ["drained"]


def test_drain_does_not_wait_for_stopped_or_failing_controllers(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, drain_within=float("inf"))
    rig.system.fence("controller:one")
    rig.tell(Drain(), then=5.0)
    assert rig.ended == []
    rig.system.fence("controller:two")
    rig.tell(ActorFailed("controller:two", 1, "broken"), then=60.0)
    assert rig.ended == ["drained"]
    assert rig.system.incarnation("controller:two") == 1, "it begins nothing new"


def test_controller_not_drained_in_time_is_logged_and_the_lease_kept(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True, drain_within=10.0)
    rig.tell(LeaseHeld(100.0))
    rig.tell(Drain())
    rig.tell(Drained("controller:one"), then=9.0)
    assert rig.ended == []
    rig.tell(then=1.0)
    assert rig.ended == ["not drained in time: controller:two"]
    assert rig.received("elector", Drain) == [], "it may still write"


def test_draining_manager_starts_nothing(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Drain())
    rig.tell(Enable("off"), Restart("one"), StartChild("one", "queue", "b"), then=30.0)
    assert not rig.alive("controller:off")
    assert not rig.alive("queue:b")
    assert rig.system.incarnation("controller:one") == 1


def test_drain_ends_without_a_running_elector(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True, enabled=(), drain_within=float("inf"))
    rig.tell(LeaseHeld(100.0))
    rig.system.fence("elector")
    rig.tell(Drain(), then=5.0)
    assert rig.ended == ["drained"]


def test_expired_lease_without_lease_lost_ends_the_manager(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(LeaseHeld(20.0), then=15.0)
    rig.tell(LeaseHeld(40.0), then=15.0)
    assert rig.ended == []
    rig.world.run_for(30.0)
    assert len(rig.ended) == 1
    assert "leaderelection lost" in rig.ended[0]


def test_a_lost_lease_is_final(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log, leader_elect=True)
    rig.tell(LeaseLost("test"))
    rig.tell(LeaseHeld(100.0))
    assert rig.ended == ["leaderelection lost: test"]
    assert not rig.alive("controller:one")


def test_all_but_informers_and_the_dispatcher_hear_that_a_peer_is_new(log: FilteringBoundLogger) -> None:
    rig = ManagerRig(log)
    rig.tell(Restart("dispatcher"))
    heard = {name for name, _, message in rig.kept if message == Restarted("dispatcher", 2)}
    assert heard == {"elector", "controller:one", "controller:two"}


def test_failed_manager_is_not_restarted_after_halt(cluster: SimulatedCluster) -> None:
    manager = cluster.manager()
    cluster.run_for(1.0)
    cluster.world.kill(manager.actors, MANAGER)
    manager.halt()
    cluster.run_for(60.0)
    assert not manager.actors.is_alive(MANAGER)
