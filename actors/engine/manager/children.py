"""The manager's children: when each is started, which have failed or hang, and who is notified."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from actors.engine.manager.plan import ManagerPlan, Steering
from actors.engine.vitals import ChildVitals
from actors.reconciliation.actor_names import DISPATCHER, controller_of, is_controller, is_informer
from protocols.codec import encode
from protocols.messages.lifecycle import ActorFailed, Pause, Ping, Restarted
from runtime.system.actor import Actor
from runtime.system.actor_system import ActorSpec
from runtime.system.supervision import restart_delay

TICK = 1.0  # seconds between two looks at everybody
STEADY = 600.0  # seconds a child has to live for its failures to be forgotten
MOST_HUNG = 4  # threads of one name that may hang; then it stays down until one of them is back
STOOD_STILL = 3.0  # seconds between two looks at everybody from which on we were late ourselves


@dataclass(slots=True)
class Child:
    """owner: the controller that asked for it; "" if the manager started it by itself."""

    spec: ActorSpec
    owner: str = ""
    started_at: float | None = None  # None: not yet
    failures: list[float] = field(default_factory=list)
    last_error: str = ""
    start_at: float | None = None  # due to be started (again)
    gave_up: bool = False
    pinged_at: float | None = None  # the oldest ping that was not answered
    starts: int = 0


class Children:
    """By name. One for one: who fails is started again alone, after a backoff, or left stopped if it fails too often.

    When one is started again, all others are sent Restarted, except the dispatcher and the informers.
    """

    def __init__(
        self,
        manager: Actor,
        *,
        plan: ManagerPlan,
        steering: Steering,
        chance: random.Random,
        needed_no_more: Callable[[str, str], bool],
    ) -> None:
        """needed_no_more: asked with the name of a child that failed, and its error; it is left alone if so."""
        self._manager, self._plan, self._steering = manager, plan, steering
        self._random, self._needed_no_more = chance, needed_no_more
        self._system, self._clock, self._log = manager.context.system, manager.clock, manager.log
        self._children: dict[str, Child] = {}
        self._known_vitals: Mapping[str, ChildVitals] | None = None  # until something changes
        self._nonce = 0
        self._next_ping = 0.0
        self._looked_at = self._clock.monotonic()

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[str]:
        return iter(self._children)

    def get(self, name: str) -> Child | None:
        return self._children.get(name)

    def owned_by(self, controller: str) -> list[str]:
        return [name for name, child in self._children.items() if child.owner == controller]

    def start(self, spec: ActorSpec, now: float, *, owner: str = "") -> None:
        """Bring a child to life, unless it lives (then this manager is the one that was restarted)."""
        self._known_vitals = None
        child = self._children.setdefault(spec.name, Child(spec, owner))
        child.start_at, child.gave_up, child.pinged_at = None, False, None
        child.started_at = now
        child.starts += 1
        if self._system.is_alive(spec.name) and child.starts == 1:
            return
        try:
            incarnation = self._system.spawn(spec)
        except Exception as err:
            self.failed(ActorFailed(spec.name, self._system.incarnation(spec.name), f"{type(err).__name__}: {err}"))
            return
        controller = controller_of(spec.name)
        if controller in self._steering.paused:
            self._manager.tell(spec.name, Pause(controller))
        if incarnation > 1:
            for name in self._children:
                if name != spec.name and not is_informer(name) and name != DISPATCHER:
                    self._manager.tell(name, Restarted(spec.name, incarnation))

    def start_later(self, spec: ActorSpec, at: float) -> None:
        """at: monotonic seconds."""
        self._known_vitals = None
        self._children[spec.name] = Child(spec, start_at=at)

    def keep(self, spec: ActorSpec, now: float) -> None:
        """It was found alive."""
        self._known_vitals = None
        self._children[spec.name] = Child(spec, started_at=now)

    def restart(self, child: Child, now: float) -> None:
        """At the next look, whatever it has done before."""
        self._known_vitals = None
        child.failures.clear()
        self._system.fence(child.spec.name)
        child.start_at, child.gave_up = now, False

    def forget(self, name: str) -> None:
        self._known_vitals = None
        if self._children.pop(name, None) is not None:
            self._system.fence(name)

    def answered(self, name: str) -> None:
        """A ping."""
        child = self._children.get(name)
        if child is not None:
            child.pinged_at = None

    def failed(self, failure: ActorFailed) -> None:
        child = self._children.get(failure.name)
        if child is None or child.start_at is not None or child.gave_up:
            return
        if failure.incarnation < self._system.incarnation(failure.name):
            return  # late news: it has been replaced
        if failure.traceback:
            self._log.error("actor failed", child=failure.name, error=failure.error, traceback=failure.traceback)
        self._count_failure(child, failure.error)
        self.ask_for_wake()

    def look_around(self, now: float) -> None:
        """Start who is due, find who is dead or hangs, and ping."""
        self._allow_for_standstill(now - self._looked_at)
        self._looked_at = now
        ended = self._system.ended(self._children)
        for name, child in list(self._children.items()):
            if child.start_at is not None:
                if now >= child.start_at and not self._waits_for_threads(child, now):
                    if is_controller(name):
                        self._log.info("Controller starting...", controller=controller_of(name))
                    self.start(child.spec, now)
            elif name in ended and not child.gave_up:
                self._count_failure(child, "it died without a word")
            elif child.pinged_at is not None and now - child.pinged_at > self._plan.hung_after:
                self._replace_hung(child, now - child.pinged_at)
            elif child.failures and _is_steady(child, now):
                self._known_vitals = None
                child.failures.clear()
        if now >= self._next_ping:
            self._next_ping = now + self._plan.ping_every
            self._ping(now)

    def ask_for_wake(self) -> None:
        """For the next look."""
        dues = [self._clock.monotonic() + TICK]
        dues += [child.start_at for child in self._children.values() if child.start_at is not None]
        self._manager.wake_at(min(dues))

    def vitals(self) -> Mapping[str, ChildVitals]:
        """By name."""
        return {
            name: ChildVitals(
                alive=self._system.is_alive(name),
                incarnation=self._system.incarnation(name),
                failures=len(child.failures),
                last_error=child.last_error,
                gave_up=child.gave_up,
                started_at=child.started_at,
            )
            for name, child in self._children.items()
        }

    def known_vitals(self) -> Mapping[str, ChildVitals]:
        """vitals() as of the last look: a child that has died since is found at the next."""
        if self._known_vitals is None:
            self._known_vitals = self.vitals()
        return self._known_vitals

    def _count_failure(self, child: Child, error: str) -> None:
        self._known_vitals = None
        now = self._clock.monotonic()
        if _is_steady(child, now):
            child.failures.clear()
        child.failures.append(now)
        child.last_error = error
        delay = restart_delay(child.failures, now=now, policy=self._plan.policy, chance=self._random.random())
        self._system.fence(child.spec.name)
        if self._needed_no_more(child.spec.name, error):
            return
        if delay is None:
            child.gave_up = True
            self._log.error("actor failed too often, left stopped", child=child.spec.name, error=error)
        else:
            child.start_at = now + delay
            self._log.error("actor is restarted", child=child.spec.name, error=error, seconds=round(delay, 3))

    def _replace_hung(self, child: Child, seconds: float) -> None:
        name, system = child.spec.name, self._system
        doing = system.doing(name)
        at = f", at {doing}" if doing else ""
        self._log.error("actor hangs", child=name, seconds=round(seconds), doing=doing, stack=system.stack(name))
        self._count_failure(child, f"hung: it did not answer for {seconds:.0f} s{at}")

    def _waits_for_threads(self, child: Child, now: float) -> bool:
        """Whether so many of its threads hang that another would only be one more."""
        hung = len(self._system.stragglers(child.spec.name))
        if hung < MOST_HUNG:
            return False
        child.start_at = now + TICK
        waits = f"{hung} of its threads hang"
        if waits not in child.last_error:
            self._known_vitals = None
            child.last_error = f"{waits}; {child.last_error}"
            self._log.error("actor is not restarted before a thread of it is back", child=child.spec.name, hung=hung)
        if child.spec in self._plan.infrastructure:  # which nothing works without: the watchdog decides
            child.gave_up, child.start_at = True, None
        return True

    def _allow_for_standstill(self, late: float) -> None:
        """A child that did not run because none of us did (a stopped process, a starved machine) is not hung."""
        if late > STOOD_STILL:
            for child in self._children.values():
                if child.pinged_at is not None:
                    child.pinged_at += late

    def _ping(self, now: float) -> None:
        self._nonce += 1
        ping = encode(Ping(self._nonce))
        for name, child in self._children.items():
            if child.start_at is None and not child.gave_up:
                if child.pinged_at is None:
                    child.pinged_at = now
                self._manager.tell_frame(name, ping)


def _is_steady(child: Child, now: float) -> bool:
    return child.started_at is not None and now - child.started_at > STEADY
