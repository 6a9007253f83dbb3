"""The manager's children: their starts, failures and hangs, and notifications about them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from kcm.actors.engine.manager.plan import ManagerPlan, Steering
from kcm.actors.engine.vitals import ChildVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, controller_of, is_controller, is_informer
from kcm.protocols.messages.lifecycle import ActorFailed, Pause, Restarted
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.supervision import restart_delay

AGAIN = 1.0  # seconds until the next check of a child that waits for threads
STEADY = 600.0  # uptime in seconds after which a child's failures are forgotten
MOST_HUNG = 4  # hung threads of one actor; beyond that it is not restarted until one of them returns
STOOD_STILL = 2.0  # a supervision tick that is later than this, in seconds, means that no actor has run


class Child(Struct):
    """State of one child."""

    spec: ActorSpec
    owner: str = ""  # controller that requested this child; "": the manager started it by itself
    started_at: float | None = None  # None: not yet started
    failures: list[float] = field(default_factory=list)
    last_error: str = ""
    start_at: float | None = None  # due to be started (again)
    gave_up: bool = False
    turn: int = 0  # at the last supervision tick, if it was busy; see ActorSystem.busy
    busy_since: float | None = None  # when it was first seen in that turn; None: it was idle
    is_slow: bool = False  # it was seen in that turn again
    starts: int = 0


class Children:
    """Children by name. A child that fails is restarted alone with backoff, or left stopped if it fails too often.

    A restart is announced to the other children by Restarted, except to the dispatcher and the informers.
    """

    def __init__(
        self,
        manager: Actor,
        *,
        plan: ManagerPlan,
        steering: Steering,
        chance: random.Random,
        is_disposable: Callable[[str, str], bool],
    ) -> None:
        """Create an empty set of children.

        is_disposable: called with the name of a failed child and its error; if true, the child is not restarted.
        """
        self._manager, self._plan, self._steering = manager, plan, steering
        self._random, self._is_disposable = chance, is_disposable
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
        """Start a child. A child that is alive is kept: then the manager itself was restarted."""
        self._known_vitals = None
        child = self._children.setdefault(spec.name, Child(spec, owner))
        child.start_at, child.gave_up, child.busy_since, child.is_slow = None, False, None, False
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
        """Schedule the start of a child. at: monotonic time."""
        self._known_vitals = None
        self._children[spec.name] = Child(spec, start_at=at)

    def keep(self, spec: ActorSpec, now: float) -> None:
        """Add a child that is already alive."""
        self._known_vitals = None
        self._children[spec.name] = Child(spec, started_at=now)

    def restart(self, child: Child, now: float) -> None:
        """Restart a child at the next supervision tick, and clear its failures."""
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
            return  # late message: this incarnation was already replaced
        if failure.traceback:
            self._log.error("actor failed", child=failure.name, error=failure.error, traceback=failure.traceback)
        self._count_failure(child, failure.error)

    def look_around(self, now: float, *, late: float) -> None:
        """Start children that are due, and handle dead and hung ones. late: seconds since this tick was due."""
        self._allow_for_standstill(late)
        ended, busy = self._system.ended(self._children), self._system.busy(self._children)
        for name, child in list(self._children.items()):
            if child.start_at is not None:
                if now >= child.start_at and not self._waits_for_threads(child, now):
                    if is_controller(name):
                        self._log.info("Controller starting...", v=1, controller=controller_of(name))
                    self.start(child.spec, now)
            elif name in ended and not child.gave_up:
                self._count_failure(child, "it died without an error")
            elif self._hangs(child, busy.get(name), now):
                self._replace_hung(child, now)
            elif child.failures and _is_steady(child, now):
                self._known_vitals = None
                child.failures.clear()

    def next_due(self) -> float:
        """Return when the next child is due to start, or counts as hung if it makes no progress; infinity if none."""
        due = math.inf
        for child in self._children.values():
            if child.start_at is not None:
                due = min(due, child.start_at)
            elif child.busy_since is not None and not child.gave_up:
                due = min(due, child.busy_since + self._plan.hung_after)
        return due

    def vitals(self) -> Mapping[str, ChildVitals]:
        """Return the vitals of each child by name."""
        return {
            name: ChildVitals(
                alive=self._system.is_alive(name),
                incarnation=self._system.incarnation(name),
                failures=len(child.failures),
                last_error=child.last_error,
                gave_up=child.gave_up,
                started_at=child.started_at,
                busy_since=child.busy_since if child.is_slow else None,
                owner=child.owner,
            )
            for name, child in self._children.items()
        }

    @property
    def have_changed(self) -> bool:
        """Report whether the vitals of the children have changed since known_vitals() was last called."""
        return self._known_vitals is None

    def known_vitals(self) -> Mapping[str, ChildVitals]:
        """Return vitals() as of the last supervision tick, which may miss a child that has died since."""
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
        if self._is_disposable(child.spec.name, error):
            return
        if delay is None:
            child.gave_up = True
            self._log.error("actor failed too often, left stopped", child=child.spec.name, error=error)
        else:
            child.start_at = now + delay
            self._log.error("actor is restarted", child=child.spec.name, error=error, seconds=round(delay, 3))

    def _hangs(self, child: Child, turn: int | None, now: float) -> bool:
        """Report whether a child has been in the same turn for too long. turn: None if it is idle."""
        if turn is None or child.gave_up:
            child.busy_since = None
        elif child.busy_since is None or turn != child.turn:
            child.turn, child.busy_since = turn, now
        else:
            self._set_slow(child, is_slow=True)
            return now >= child.busy_since + self._plan.hung_after  # the same sum as in next_due()
        if child.is_slow:
            self._set_slow(child, is_slow=False)
        return False

    def _set_slow(self, child: Child, *, is_slow: bool) -> None:
        if child.is_slow != is_slow:
            child.is_slow, self._known_vitals = is_slow, None

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
        if child.spec in self._plan.infrastructure:  # essential: the watchdog decides
            child.gave_up, child.start_at = True, None
        return True

    def _allow_for_standstill(self, late: float) -> None:
        """Extend the limits of busy children by a time in which no actor ran, as in a stopped process."""
        if late > STOOD_STILL:
            for child in self._children.values():
                if child.busy_since is not None:
                    child.busy_since += late


def _is_steady(child: Child, now: float) -> bool:
    return child.started_at is not None and now - child.started_at > STEADY
