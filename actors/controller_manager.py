"""The controller manager: supervises all other actors.

Takes ActorFailed, Pong, Wake, LeaseHeld, LeaseLost, LeaderObserved, Drained; Enable, Disable, Restart, Pause, Resume,
Drain and Describe from operators and tests. Tells Ping, Restarted, Pause, Resume, Drain, Unsubscribe.

It starts the dispatcher, the recorder, the elector and the informers at once, so that a standby's tables are warm; and
the controllers, one after the other with the jittered start interval, once the lease is held. One for one: who fails
is started again alone, after a backoff; who fails too often stays down and the others work on; who does not answer a
ping for too long is fenced and replaced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from actors.controller import controller_name, informer_name
from protocols.codec import encode
from protocols.messages.lifecycle import (
    ActorFailed,
    Describe,
    Description,
    Disable,
    Drain,
    Drained,
    Enable,
    LeaderObserved,
    LeaseHeld,
    LeaseLost,
    Pause,
    Ping,
    Pong,
    Restart,
    Restarted,
    Resume,
    StartChild,
    StopChild,
    Wake,
)
from protocols.messages.watching import Unsubscribe
from runtime.actor import Actor, Context
from runtime.supervision import RestartPolicy, restart_delay
from runtime.system import ActorSpec
from runtime.vitals import Vitals

NAME = "controller-manager"
ELECTOR = "elector"
TICK = 1.0  # seconds between two looks at everybody
STEADY = 600.0  # seconds a child has to live for its failures to be forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlan:
    """One controller: how to build its actor, which resources it reads (by Resource.id), and how to build a child of
    its own by kind and name; raises KeyError on a kind that it does not have.
    """

    spec: ActorSpec
    resources: tuple[str, ...]
    child: Callable[[str, str], ActorSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPlan:
    """All that the manager may start.

    infrastructure: in this order, before all else. informers: by Resource.id. controllers: by canonical name, in the
    order in which they start; enabled: those that start by themselves. start_interval: seconds, see start_delay.
    leader_elect: controllers wait for LeaseHeld. ping_every, hung_after, drain_within: seconds.
    """

    infrastructure: tuple[ActorSpec, ...]
    informers: Mapping[str, ActorSpec]
    controllers: Mapping[str, ControllerPlan]
    enabled: tuple[str, ...]
    leader_elect: bool = True
    start_interval: float = 0.0
    ping_every: float = 5.0
    hung_after: float = 30.0
    drain_within: float = 10.0
    policy: RestartPolicy = field(default_factory=RestartPolicy)


def start_delay(interval: float, chance: float) -> float:
    """Seconds of sleep before a controller starts: the interval, and up to once as much again.

    chance: uniform in [0, 1). Source: wait.Jitter(interval, 1.0), kubernetes v1.36
    cmd/kube-controller-manager/app/controllermanager.go, ControllerStartJitter.
    """
    return interval + chance * 1.0 * interval


@dataclass(slots=True)
class _Child:
    spec: ActorSpec
    started_at: float = 0.0
    failures: list[float] = field(default_factory=list)
    last_error: str = ""
    start_at: float | None = None  # due to be started (again)
    gave_up: bool = False
    pinged_at: float | None = None  # the oldest ping that was not answered
    starts: int = 0


class ControllerManager(Actor):
    """See the module."""

    def __init__(
        self,
        context: Context,
        *,
        plan: ManagerPlan,
        vitals: Vitals,
        ended: Callable[[str], None],
        seed: int | None = None,
    ) -> None:
        """ended: told once, why this manager works no more: "drained", or how it lost the lease. Must not block."""
        super().__init__(context)
        self._plan, self._vitals, self._ended = plan, vitals, ended
        self._random = random.Random(seed)
        self._children: dict[str, _Child] = {}
        self._leading = not plan.leader_elect
        self._leader = ""
        self._nonce = 0
        self._next_ping = 0.0
        self._drain_until: float | None = None
        self._draining: set[str] = set()
        self._paused: set[str] = set()
        self._owners: dict[str, str] = {}  # children of controllers: their name → the controller's

    def started(self) -> None:
        now = self.clock.monotonic()
        for spec in self._plan.infrastructure:
            self._start(spec, now)
        for name in self._plan.enabled:
            self._start_informers(name, now)
        for name, controller in self._plan.controllers.items():
            # A manager that was itself restarted finds its controllers alive, and keeps them.
            if self.context.system.is_alive(controller.spec.name):
                self._children[controller.spec.name] = _Child(controller.spec, started_at=now)
                self._start_informers(name, now)
                self.tell(controller.spec.name, Restarted(self.name, self.context.incarnation))  # it may have children
        if self._leading:
            self._schedule_controllers(now)
        self._look_around()

    def receive(self, message: Any) -> Any:
        match message:
            case ActorFailed():
                self._failed(message)
            case Pong(name=name):
                child = self._children.get(name)
                if child is not None:
                    child.pinged_at = None
            case Wake():
                self._look_around()
            case LeaseHeld():
                if not self._leading and self._drain_until is None:
                    self._leading = True
                    self._schedule_controllers(self.clock.monotonic())
                    self._look_around()
            case LeaseLost(reason=reason):
                self._leading = False
                self._ended(f"leaderelection lost: {reason}")
            case LeaderObserved(holder=holder):
                self._leader = holder
            case Enable(controller=name):
                self._enable(name)
            case Disable(controller=name):
                self._disable(name)
            case Restart(child=name):
                self._restart(name)
            case Pause(controller=name):
                self._paused.add(name)
                self.tell(controller_name(name), message)
            case Resume(controller=name):
                self._paused.discard(name)
                self.tell(controller_name(name), message)
            case StartChild(owner=owner, kind=kind, name=name):
                self._start_child(owner, kind, name)
            case StopChild(kind=kind, name=name):
                self._forget(f"{kind}:{name}")
            case Drain():
                self._drain()
            case Drained(name=name):
                self._drained(name)
            case Describe():
                return encode(Description(self.name, orjson.dumps(self._facts())))
            case _:
                super().receive(message)
        return None

    # Starting.

    def _start(self, spec: ActorSpec, now: float) -> None:
        """Bring a child to life, unless it lives (then this manager is the one that was restarted)."""
        child = self._children.setdefault(spec.name, _Child(spec))
        child.start_at, child.gave_up, child.pinged_at = None, False, None
        child.started_at = now
        child.starts += 1
        if self.context.system.is_alive(spec.name) and child.starts == 1:
            return
        try:
            incarnation = self.context.system.spawn(spec)
        except Exception as err:
            self._failed(
                ActorFailed(spec.name, self.context.system.incarnation(spec.name), f"{type(err).__name__}: {err}")
            )
            return
        if incarnation > 1:
            for name in self._children:
                if name != spec.name and not name.startswith("informer:") and name != "dispatcher":
                    self.tell(name, Restarted(spec.name, incarnation))
            self._pause_again(spec.name.removeprefix("controller:"))

    def _pause_again(self, name: str) -> None:
        if name in self._paused:
            self.tell(controller_name(name), Pause(name))

    def _start_informers(self, controller: str, now: float) -> None:
        for resource_id in self._plan.controllers[controller].resources:
            spec = self._plan.informers[resource_id]
            if spec.name not in self._children:
                self._start(spec, now)

    def _schedule_controllers(self, now: float) -> None:
        """One after the other, each after its jittered interval."""
        due = now
        for name in self._plan.enabled:
            spec = self._plan.controllers[name].spec
            if spec.name in self._children:
                continue
            due += start_delay(self._plan.start_interval, self._random.random())
            self._children[spec.name] = _Child(spec, start_at=due)

    def _start_child(self, owner: str, kind: str, name: str) -> None:
        if controller_name(owner) not in self._children or f"{kind}:{name}" in self._children:
            return
        spec = self._plan.controllers[owner].child(kind, name)
        self._owners[spec.name] = owner
        self._start(spec, self.clock.monotonic())

    # Watching over them.

    def _failed(self, failure: ActorFailed) -> None:
        child = self._children.get(failure.name)
        if child is None or child.start_at is not None or child.gave_up:
            return
        if failure.traceback:
            self.log.error("actor failed", child=failure.name, error=failure.error, traceback=failure.traceback)
        self._count_failure(child, failure.error)
        self._ask_for_wake()

    def _count_failure(self, child: _Child, error: str) -> None:
        now = self.clock.monotonic()
        if now - child.started_at > STEADY:
            child.failures.clear()
        child.failures.append(now)
        child.last_error = error
        delay = restart_delay(child.failures, now=now, policy=self._plan.policy, chance=self._random.random())
        self.context.system.fence(child.spec.name)
        if delay is None:
            child.gave_up = True
            self.log.error("actor failed too often, left stopped", child=child.spec.name, error=error)
        else:
            child.start_at = now + delay
            self.log.error("actor is restarted", child=child.spec.name, error=error, seconds=round(delay, 3))

    def _look_around(self) -> None:
        now = self.clock.monotonic()
        for child in list(self._children.values()):
            if child.start_at is not None:
                if now >= child.start_at:
                    if child.spec.name.startswith("controller:"):
                        self.log.info("Controller starting...", controller=child.spec.name.removeprefix("controller:"))
                    self._start(child.spec, now)
            elif not child.gave_up and not self.context.system.is_alive(child.spec.name):
                self._count_failure(child, "it died without a word")
            elif child.pinged_at is not None and now - child.pinged_at > self._plan.hung_after:
                self._count_failure(child, f"hung: it did not answer for {now - child.pinged_at:.0f} s")
        if now >= self._next_ping:
            self._next_ping = now + self._plan.ping_every
            self._ping(now)
        if self._drain_until is not None and now >= self._drain_until:
            self.log.warning("controller shutdown timeout reached", waiting=sorted(self._draining))
            self._finish_drain()
        self._say_vitals()
        self._ask_for_wake()

    def _ping(self, now: float) -> None:
        self._nonce += 1
        for name, child in self._children.items():
            if child.start_at is None and not child.gave_up:
                if child.pinged_at is None:
                    child.pinged_at = now
                self.tell(name, Ping(self._nonce))

    def _ask_for_wake(self) -> None:
        dues = [self.clock.monotonic() + TICK]
        dues += [child.start_at for child in self._children.values() if child.start_at is not None]
        self.wake_at(min(dues))

    # Steering.

    def _enable(self, name: str) -> None:
        controller = self._plan.controllers.get(name)
        if controller is None:
            self.log.warning("no such controller", controller=name)
            return
        now = self.clock.monotonic()
        self._start_informers(name, now)
        child = self._children.get(controller.spec.name)
        if child is None or child.gave_up:
            self._children[controller.spec.name] = _Child(controller.spec, start_at=now)
            self.log.info("controller enabled", controller=name)
            self._look_around()

    def _disable(self, name: str) -> None:
        if controller_name(name) not in self._children:
            return
        self._forget(controller_name(name))
        for child in [child for child, owner in self._owners.items() if owner == name]:
            self._forget(child)
        for resource_id in self._plan.controllers[name].resources:
            self.tell(informer_name(resource_id), Unsubscribe(controller_name(name)))
        self._vitals.forget(controller_name(name))
        self.log.info("controller disabled", controller=name)

    def _forget(self, name: str) -> None:
        if self._children.pop(name, None) is not None:
            self._owners.pop(name, None)
            self.context.system.fence(name)

    def _restart(self, name: str) -> None:
        child = self._children.get(name) or self._children.get(controller_name(name))
        if child is None:
            self.log.warning("no such actor", child=name)
            return
        child.failures.clear()
        self.context.system.fence(child.spec.name)
        child.start_at, child.gave_up = self.clock.monotonic(), False
        self._look_around()

    # The end.

    def _drain(self) -> None:
        if self._drain_until is not None:
            return
        self._drain_until = self.clock.monotonic() + self._plan.drain_within
        self._draining = {
            name for name, child in self._children.items() if name.startswith("controller:") and child.start_at is None
        }
        for name in self._draining:
            self.tell(name, Drain())
        self.log.info("shutting down", draining=len(self._draining))
        if not self._draining:
            self._drain_elector()

    def _drained(self, name: str) -> None:
        if self._drain_until is None:
            return
        if name == ELECTOR:
            self._finish_drain()
            return
        self._draining.discard(name)
        if not self._draining:
            self._drain_elector()

    def _drain_elector(self) -> None:
        if self._plan.leader_elect:
            self.tell(ELECTOR, Drain())
        else:
            self._finish_drain()

    def _finish_drain(self) -> None:
        self._drain_until = float("inf")
        self._ended("drained")

    # What it says of itself.

    def _facts(self) -> dict[str, Any]:
        system = self.context.system
        return {
            "leading": self._leading,
            "leader": self._leader,
            "draining": self._drain_until is not None,
            "children": {
                name: {
                    "alive": system.is_alive(name),
                    "incarnation": system.incarnation(name),
                    "failures": len(child.failures),
                    "last_error": child.last_error,
                    "gave_up": child.gave_up,
                }
                for name, child in self._children.items()
            },
        }

    def _say_vitals(self) -> None:
        self._vitals.say(self.name, {**self._facts(), "at": self.clock.monotonic()})
