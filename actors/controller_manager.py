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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from actors.actor_names import (
    DISPATCHER,
    ELECTOR,
    controller_name,
    controller_of,
    informer_name,
    is_controller,
    is_informer,
)
from actors.manager_plan import ManagerPlan, Steering, start_delay
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
from runtime.supervision import restart_delay
from runtime.system import ActorSpec
from runtime.vitals import Vitals

TICK = 1.0  # seconds between two looks at everybody
STEADY = 600.0  # seconds a child has to live for its failures to be forgotten
STOOD_STILL = 3.0  # seconds between two looks at everybody from which on we were late ourselves
LEASE_GRACE = 5.0  # seconds that the elector has to say itself that the lease is lost


@dataclass(slots=True)
class _Child:
    spec: ActorSpec
    started_at: float | None = None  # None: not yet
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
        steering: Steering,
        vitals: Vitals,
        ended: Callable[[str], None],
        seed: int | None = None,
    ) -> None:
        """ended: told once, why this manager works no more: "drained", or how it lost the lease. Must not block."""
        super().__init__(context)
        self._plan, self._steering, self._vitals, self._ended = plan, steering, vitals, ended
        self._random = random.Random(seed)
        self._children: dict[str, _Child] = {}
        self._leading = not plan.leader_elect
        self._held_until: float | None = None  # the lease, as the elector said last
        self._over = False  # it works no more, and whoever started it knows
        self._leader = ""
        self._nonce = 0
        self._next_ping = 0.0
        self._looked_at = 0.0
        self._drain_until: float | None = None
        self._draining: set[str] = set()
        self._owners: dict[str, str] = {}  # children of controllers: their name → the controller's

    def started(self) -> None:
        now = self._looked_at = self.clock.monotonic()
        for spec in self._plan.infrastructure:
            self._start(spec, now)
        for name in self._steering.wanted(self._plan):
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
            case LeaseHeld(until=until):
                self._held(until)
            case LeaseLost(reason=reason):
                self._lose(reason)
            case LeaderObserved(holder=holder):
                self._leader = holder
            case Enable(controller=name):
                self._enable(name)
            case Disable(controller=name):
                self._disable(name)
            case Restart(child=name):
                self._restart(name)
            case Pause(controller=name):
                if self._knows(name):
                    self._steering.paused.add(name)
                    self.tell(controller_name(name), message)
            case Resume(controller=name):
                if self._knows(name):
                    self._steering.paused.discard(name)
                    self.tell(controller_name(name), message)
            case StartChild(owner=owner, kind=kind, name=name):
                self._start_child(owner, kind, name)
            case StopChild(owner=owner, kind=kind, name=name):
                if self._owners.get(f"{kind}:{name}") == owner:
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
        controller = controller_of(spec.name)
        if controller in self._steering.paused:
            self.tell(spec.name, Pause(controller))
        if incarnation > 1:
            for name in self._children:
                if name != spec.name and not is_informer(name) and name != DISPATCHER:
                    self.tell(name, Restarted(spec.name, incarnation))

    def _start_informers(self, controller: str, now: float) -> None:
        for resource_id in self._plan.controllers[controller].resources:
            spec = self._plan.informers[resource_id]
            if spec.name not in self._children:
                self._start(spec, now)

    def _schedule_controllers(self, now: float) -> None:
        """One after the other, each after its jittered interval."""
        due = now
        for name in self._steering.wanted(self._plan):
            spec = self._plan.controllers[name].spec
            if spec.name in self._children:
                continue
            due += start_delay(self._plan.start_interval, self._random.random())
            self._children[spec.name] = _Child(spec, start_at=due)

    def _start_child(self, owner: str, kind: str, name: str) -> None:
        if controller_name(owner) not in self._children or f"{kind}:{name}" in self._children:
            return
        if self._drain_until is not None:
            return
        try:
            spec = self._plan.controllers[owner].child(kind, name)
        except Exception as err:
            error = f"{type(err).__name__}: {err}"
            self.log.error(
                "a controller asked for a child that it cannot have", controller=owner, kind=kind, error=error
            )
            return
        self._owners[spec.name] = owner
        self._start(spec, self.clock.monotonic())

    # Watching over them.

    def _failed(self, failure: ActorFailed) -> None:
        child = self._children.get(failure.name)
        if child is None or child.start_at is not None or child.gave_up:
            return
        if failure.incarnation < self.context.system.incarnation(failure.name):
            return  # late news: it has been replaced
        if failure.traceback:
            self.log.error("actor failed", child=failure.name, error=failure.error, traceback=failure.traceback)
        self._count_failure(child, failure.error)
        self._ask_for_wake()

    def _count_failure(self, child: _Child, error: str) -> None:
        now = self.clock.monotonic()
        if child.started_at is not None and now - child.started_at > STEADY:
            child.failures.clear()
        child.failures.append(now)
        child.last_error = error
        delay = restart_delay(child.failures, now=now, policy=self._plan.policy, chance=self._random.random())
        self.context.system.fence(child.spec.name)
        if self._drain_until is not None and self._needed_no_more(child.spec.name, error):
            return
        if delay is None:
            child.gave_up = True
            self.log.error("actor failed too often, left stopped", child=child.spec.name, error=error)
        else:
            child.start_at = now + delay
            self.log.error("actor is restarted", child=child.spec.name, error=error, seconds=round(delay, 3))

    def _look_around(self) -> None:
        now = self.clock.monotonic()
        self._excuse(now - self._looked_at)
        self._looked_at = now
        for child in list(self._children.values()):
            if child.start_at is not None:
                if now >= child.start_at:
                    if is_controller(child.spec.name):
                        self.log.info("Controller starting...", controller=controller_of(child.spec.name))
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
        if self._leading and self._held_until is not None and now >= self._held_until + LEASE_GRACE:
            self._lose("nobody renewed it")
        self._say_vitals()
        self._ask_for_wake()

    def _excuse(self, late: float) -> None:
        """Who had no time because we all had none (a stopped process, a starved machine) is not hung."""
        if late > STOOD_STILL:
            for child in self._children.values():
                if child.pinged_at is not None:
                    child.pinged_at += late

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

    def _knows(self, name: str) -> bool:
        if name not in self._plan.controllers:
            self.log.warning("no such controller", controller=name)
        return name in self._plan.controllers

    def _enable(self, name: str) -> None:
        if not self._knows(name) or self._drain_until is not None:
            return
        self._steering.switched[name] = True
        now = self.clock.monotonic()
        self._start_informers(name, now)
        if not self._leading:
            return  # it starts with the others, once the lease is held
        spec = self._plan.controllers[name].spec
        child = self._children.get(spec.name)
        if child is None or child.gave_up:
            self._children[spec.name] = _Child(spec, start_at=now)
            self.log.info("controller enabled", controller=name)
            self._look_around()

    def _disable(self, name: str) -> None:
        if not self._knows(name):
            return
        self._steering.switched[name] = False
        self._steering.paused.discard(name)
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
        if self._drain_until is not None and is_controller(child.spec.name):
            return
        child.failures.clear()
        self.context.system.fence(child.spec.name)
        child.start_at, child.gave_up = self.clock.monotonic(), False
        self._look_around()

    # The lease, and the end.

    def _held(self, until: float) -> None:
        self._held_until = until
        if not self._leading and self._drain_until is None and not self._over:
            self._leading = True
            self._schedule_controllers(self.clock.monotonic())
            self._look_around()

    def _lose(self, reason: str) -> None:
        self._leading = False
        self._end(f"leaderelection lost: {reason}")

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._ended(why)

    def _drain(self) -> None:
        """Controllers first, then the lease. Who is down, or has not started yet, begins nothing any more."""
        if self._drain_until is not None:
            return
        self._drain_until = self.clock.monotonic() + self._plan.drain_within
        for name in [name for name in self._children if is_controller(name)]:
            if self.context.system.is_alive(name):
                self._draining.add(name)
                self.tell(name, Drain())
            else:
                self._forget(name)
        self.log.info("shutting down", draining=len(self._draining))
        if not self._draining:
            self._drain_elector()

    def _drained(self, name: str) -> None:
        if self._drain_until is None:
            return
        if name == ELECTOR:
            self._finish_drain()
        elif name in self._draining:
            self._draining.discard(name)
            if not self._draining:
                self._drain_elector()

    def _needed_no_more(self, name: str, error: str) -> bool:
        """Whether a child that failed while we drain is left alone."""
        if name == ELECTOR and not self._draining:
            self._finish_drain()
            return False
        if not is_controller(name):
            return False
        self.log.warning("actor failed while it was drained", child=name, error=error)
        self._forget(name)
        self._drained(name)
        return True

    def _drain_elector(self) -> None:
        if self._plan.leader_elect and self.context.system.is_alive(ELECTOR):
            self.tell(ELECTOR, Drain())
        else:
            self._finish_drain()

    def _finish_drain(self) -> None:
        self._drain_until = float("inf")
        self._end("drained")

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
                    "started_at": child.started_at,
                }
                for name, child in self._children.items()
            },
        }

    def _say_vitals(self) -> None:
        self._vitals.say(self.name, {**self._facts(), "at": self.clock.monotonic()})
