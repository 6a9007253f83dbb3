"""The manager's children: when each is started, which have failed or hang, and who is notified."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from kcm.actors.engine.manager.plan import ManagerPlan, Steering
from kcm.actors.engine.vitals import ChildVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, controller_of, is_controller, is_informer
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.lifecycle import ActorFailed, Pause, Restarted
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.supervision import restart_delay

AGAIN = 1.0  # seconds until a child that waits for threads is looked at again
STEADY = 600.0  # seconds a child has to live for its failures to be forgotten
MOST_HUNG = 4  # threads of one name that may hang; then it stays down until one of them is back
STOOD_STILL = 2.0  # seconds that a look at everybody is late from which on nobody has run


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
    turn: int = 0  # at the last look, if it was busy; see ActorSystem.busy
    busy_since: float | None = None  # when it was first seen at that turn; None: it was idle
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
        child.start_at, child.gave_up, child.busy_since = None, False, None
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

    def failed(self, failure: ActorFailed) -> None:
        child = self._children.get(failure.name)
        if child is None or child.start_at is not None or child.gave_up:
            return
        if failure.incarnation < self._system.incarnation(failure.name):
            return  # late news: it has been replaced
        if failure.traceback:
            self._log.error("actor failed", child=failure.name, error=failure.error, traceback=failure.traceback)
        self._count_failure(child, failure.error)

    def look_around(self, now: float, *, late: float) -> None:
        """Start who is due, and find who is dead or hangs. late: seconds since this look was due."""
        self._allow_for_standstill(late)
        ended, busy = self._system.ended(self._children), self._system.busy(self._children)
        for name, child in list(self._children.items()):
            if child.start_at is not None:
                if now >= child.start_at and not self._waits_for_threads(child, now):
                    if is_controller(name):
                        self._log.info("Controller starting...", v=1, controller=controller_of(name))
                    self.start(child.spec, now)
            elif name in ended and not child.gave_up:
                self._count_failure(child, "it died without a word")
            elif self._hangs(child, busy.get(name), now):
                self._replace_hung(child, now)
            elif child.failures and _is_steady(child, now):
                self._known_vitals = None
                child.failures.clear()

    def next_due(self) -> float:
        """When the next child is to be started, or hangs if it has not got on by then; infinity if none."""
        due = math.inf
        for child in self._children.values():
            if child.start_at is not None:
                due = min(due, child.start_at)
            elif child.busy_since is not None and not child.gave_up:
                due = min(due, child.busy_since + self._plan.hung_after)
        return due

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

    @property
    def have_changed(self) -> bool:
        """Report whether the vitals of the children have changed since known_vitals() was last called."""
        return self._known_vitals is None

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

    def _hangs(self, child: Child, turn: int | None, now: float) -> bool:
        """turn: of a busy child."""
        if turn is None or child.gave_up:
            child.busy_since = None
        elif child.busy_since is None or turn != child.turn:
            child.turn, child.busy_since = turn, now
        else:
            return now >= child.busy_since + self._plan.hung_after  # as next_due() has it
        return False

    def _replace_hung(self, child: Child, now: float) -> None:
        name, system = child.spec.name, self._system
        seconds = now - child.busy_since if child.busy_since is not None else 0.0
        doing = system.doing(name)
        at = f", at {doing}" if doing else ""
        self._log.error("actor hangs", child=name, seconds=round(seconds), doing=doing, stack=system.stack(name))
        self._count_failure(child, f"hung: it did not get on for {seconds:.0f} s{at}")

    def _waits_for_threads(self, child: Child, now: float) -> bool:
        """Report whether this child has reached the limit of hung threads."""
        hung = len(self._system.stragglers(child.spec.name))
        if hung < MOST_HUNG:
            return False
        child.start_at = now + AGAIN
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
                if child.busy_since is not None:
                    child.busy_since += late


def _is_steady(child: Child, now: float) -> bool:
    return child.started_at is not None and now - child.started_at > STEADY
