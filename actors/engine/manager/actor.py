"""The controller manager: supervises all other actors.

Takes ActorFailed, Wake, LeaseHeld, LeaseLost, LeaderObserved, YieldGroup, Drained; Enable, Disable, Restart, Pause,
Resume, Drain and Describe from operators and tests. Sends Restarted, Pause, Resume, Drain, Withdraw, Unsubscribe.

It starts the dispatcher, the recorder, the elector and the informers at once, so that a standby has synced tables. Once
the lease is held it starts the controllers, one after another with the jittered start interval. A lost lease ends the
process, or with --leader-elect-on-loss=standby only the controllers. With groups of controllers, the lease of a group
starts and stops the controllers of the group.

The strategy is one-for-one: an actor that fails is restarted alone, with backoff. If it fails too often it stays
stopped, and the other actors continue. An actor that is busy with one message for too long is fenced and replaced; the
manager detects that without sending messages (ActorSystem.busy), so idle actors are not woken.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from kcm.actors.engine.elector import lost_lease
from kcm.actors.engine.manager.children import Children
from kcm.actors.engine.manager.discovered import DiscoveredInformers
from kcm.actors.engine.manager.plan import ManagerPlan, Steering, start_delay
from kcm.actors.engine.manager.shutdown import GroupReleases, Shutdown
from kcm.actors.engine.vitals import ManagerDescription, ManagerVitals, description
from kcm.actors.reconciliation.actor_names import (
    DISPATCHER,
    ELECTOR,
    cluster_of_elector,
    controller_name,
    group_of_elector,
    informer_name,
    is_controller,
    is_informer,
)
from kcm.protocols.messages.discovery import RequestTables, ResourcesDiscovered
from kcm.protocols.messages.lifecycle import (
    ActorFailed,
    Describe,
    Disable,
    Drain,
    Drained,
    Enable,
    LeaderObserved,
    LeaseHeld,
    LeaseLost,
    Pause,
    Pong,
    Restart,
    Restarted,
    Resume,
    StartChild,
    StopChild,
    Wake,
    Withdraw,
    YieldGroup,
)
from kcm.protocols.messages.watches import Unsubscribe
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

LEASE_GRACE = 5.0  # seconds after the end of the lease in which the elector should send LeaseLost itself
SUSPENDED = 4.0  # a tick that is later than this, in seconds, means that the elector did not run either


class ControllerManager(Actor):
    """Actor that supervises all others, named "controller-manager"."""

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
        """Create a manager.

        ended: called once when the manager stops, with the reason: DRAINED, the actors that were not drained in time,
            or why the lease was lost. Must not block.
        """
        super().__init__(context)
        self._plan, self._steering, self._vitals, self._ended = plan, steering, vitals, ended
        self._random = random.Random(seed)
        self._children = Children(
            self,
            plan=plan,
            steering=steering,
            chance=self._random,
            is_disposable=lambda name, error: self._shutdown.is_done_with(name, error),
        )
        self._shutdown = Shutdown(
            self,
            children=self._children,
            within=plan.drain_within,
            leader_elect=plan.leader_elect,
            ended=self._end,
        )
        self._releases = GroupReleases(self, plan=plan, children=self._children, vitals=vitals)
        self._discovered = DiscoveredInformers(self, plan=plan, steering=steering, children=self._children)
        self._leads: set[str] = set()  # electors whose leases are held
        if not plan.leader_elect:
            self._leads.update(plan.electors)
        self._next_round = math.inf
        self._held_until: dict[str, float] = {}  # end of each lease, from the last LeaseHeld, by elector
        self._look_due = math.inf
        self._over = False  # `ended` was called
        self._leader = ""

    def started(self) -> None:
        now = self.clock.monotonic()
        for spec in self._plan.infrastructure:
            self._children.start(spec, now)
        for name in self._steering.wanted(self._plan):
            self._start_informers(name, now)
        for spec in self._plan.servers:
            self._children.start(spec, now)
        for name, controller in self._plan.controllers.items():
            # A restarted manager keeps the controllers that are still alive.
            if self.context.system.is_alive(controller.spec.name):
                self._children.keep(controller.spec, now)
                self._start_informers(name, now)
                self.tell(
                    controller.spec.name, Restarted(self.name, self.context.incarnation)
                )  # the controller may have children
        self._discovered.take_over(now)
        for elector in self._plan.electors:
            if elector in self._leads:
                self._schedule_controllers(now, elector)
        migration = self._plan.migration
        if migration is not None:
            self.log.info("starting leader migration")
            if self.context.system.is_alive(migration.elector.name):
                self._children.keep(migration.elector, now)
        self._look_around()
        self._ask_for_look()

    def receive(self, message: Any) -> Any:
        match message:
            case ActorFailed(name=name):
                self._children.failed(message)
                self._releases.ended(name)
            case Pong():
                pass  # answer to a Ping that an operator or a test sent; the manager itself sends none
            case Wake():
                self._look_around()
            case LeaseHeld(until=until, elector=elector):
                self._held(elector, until)
            case LeaseLost(reason=reason, elector=elector):
                self._lose(elector, reason)
            case LeaderObserved(holder=holder, elector=elector):
                if elector == self._plan.electors[0]:
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
                    self._publish_vitals()
            case Resume(controller=name):
                if self._knows(name):
                    self._steering.paused.discard(name)
                    self.tell(controller_name(name), message)
                    self._publish_vitals()
            case StartChild(owner=owner, kind=kind, name=name):
                self._start_child(owner, kind, name)
            case StopChild(owner=owner, kind=kind, name=name):
                if f"{kind}:{name}" in self._children.owned_by(owner):
                    self._children.forget(f"{kind}:{name}")
            case ResourcesDiscovered():
                self._discovered.found(message, self.clock.monotonic())
            case RequestTables(controller=name):
                if self._knows(name):
                    self._discovered.introduce(name)
            case Drain():
                self._shutdown.begin()
            case YieldGroup(elector=elector):
                if not self._shutdown.begun and not self._over:
                    self._yield_group(elector)
            case Drained(name=name):
                self._shutdown.drained(name)
                self._release_drained(self._releases.drained(name))
            case Describe():
                return description(self.name, self._description())
            case _:
                super().receive(message)
        if self._children.have_changed:
            self._publish_vitals()
        self._ask_for_look()
        return None

    @property
    def _leading(self) -> bool:
        """Report whether the main lease, or one of several clusters, is held, or no lease is required."""
        return any(elector in self._leads for elector in self._plan.electors)

    # Starting.

    def _start_informers(self, controller: str, now: float) -> None:
        for table_id in self._plan.controllers[controller].tables:
            spec = self._plan.informers[table_id]
            if spec.name not in self._children:
                self._children.start(spec, now)

    def _schedule_controllers(self, now: float, elector: str) -> None:
        """Schedule the starts of the controllers under a lease, each a jittered interval after the previous one."""
        if self._plan.migration is not None:
            which = "main" if elector == ELECTOR else "migrated"
            self.log.info(f"leader migration: starting {which} controllers.")
        due = now
        for name in self._steering.wanted(self._plan):
            spec = self._plan.controllers[name].spec
            if spec.name in self._children or self._plan.controllers[name].elector != elector:
                continue
            due += start_delay(self._plan.start_interval, self._random.random())
            self._children.start_later(spec, due)

    def _start_child(self, owner: str, kind: str, name: str) -> None:
        if controller_name(owner) not in self._children or f"{kind}:{name}" in self._children:
            return
        if self._shutdown.begun:
            return
        try:
            spec = self._plan.controllers[owner].child(kind, name)
        except Exception as err:
            error = f"{type(err).__name__}: {err}"
            self.log.error("controller requested an invalid child", controller=owner, kind=kind, error=error)
            return
        self._children.start(spec, self.clock.monotonic(), owner=owner)

    # Supervision.

    def _look_around(self) -> None:
        now = self.clock.monotonic()
        late = max(0.0, now - self._look_due)
        self._next_round = now + self._plan.look_every
        self._children.look_around(now, late=late)
        self._shutdown.look_at_the_time(now)
        if not self._shutdown.begun:
            for elector in self._releases.overdue(now):
                reason = "its controllers were not drained in time"
                self.tell(DISPATCHER, LeaseLost(reason, elector))
                self._lose(elector, reason)
        if late > SUSPENDED:  # for example, the machine was suspended
            self._held_until = {elector: max(until, now) for elector, until in self._held_until.items()}
        for elector, until in list(self._held_until.items()):
            if elector in self._leads and now >= until + LEASE_GRACE:
                reason = "it was not renewed"
                self.tell(DISPATCHER, LeaseLost(reason, elector))  # in place of the elector, which hangs
                self._lose(elector, reason)
        self._compete_for_migration(now)
        self._publish_vitals()

    def _compete_for_migration(self, now: float) -> None:
        """Start the elector of the migration Lease once the main controllers run.

        So no two managers hold one Lease each. As upstream, the token controller must have started; if it is disabled,
        the migrated controllers never start. A program without this controller does not wait for it.
        """
        migration = self._plan.migration
        if migration is None or not self._leading or self._shutdown.begun or migration.elector.name in self._children:
            return
        after = self._children.get(controller_name(migration.after))
        if not migration.after or (after is not None and after.started_at is not None):
            self._children.start(migration.elector, now)

    def _ask_for_look(self) -> None:
        """Schedule the next supervision tick: when a child is due, at most LOOK seconds later."""
        due = min(self._next_round, self._children.next_due(), self._shutdown.due, self._releases.due)
        if not self._over:
            held = [until for elector, until in self._held_until.items() if elector in self._leads]
            due = min([due, *(until + LEASE_GRACE for until in held)])
        self._look_due = due
        self.wake_at(due)

    # Steering.

    def _knows(self, name: str) -> bool:
        if name not in self._plan.controllers:
            self.log.warning("no such controller", controller=name)
        return name in self._plan.controllers

    def _enable(self, name: str) -> None:
        if not self._knows(name) or self._shutdown.begun:
            return
        self._steering.switched[name] = True
        now = self.clock.monotonic()
        self._start_informers(name, now)
        self._discovered.controllers_changed(now)
        if self._plan.controllers[name].elector not in self._leads:
            return  # the controller starts with the others, once the lease is held
        spec = self._plan.controllers[name].spec
        child = self._children.get(spec.name)
        if child is None or child.gave_up:
            self._children.start_later(spec, now)
            self.log.info("controller enabled", controller=name)
            self._look_around()

    def _disable(self, name: str) -> None:
        if not self._knows(name):
            return
        self._steering.switched[name] = False
        self._steering.paused.discard(name)
        if controller_name(name) not in self._children:
            return
        self._children.forget(controller_name(name))
        for child in self._children.owned_by(name):
            self._children.forget(child)
        self._unsubscribe(name)
        self._discovered.controllers_changed(self.clock.monotonic())
        self._vitals.forget(controller_name(name))
        self.log.info("controller disabled", controller=name)

    def _unsubscribe(self, name: str) -> None:
        """End the subscriptions of a stopped controller, so that no informer selects changes for it."""
        for table_id in self._plan.controllers[name].tables:
            self.tell(informer_name(table_id), Unsubscribe(controller_name(name)))
        self._discovered.forget(name)

    def _restart(self, name: str) -> None:
        child = self._children.get(name) or self._children.get(controller_name(name))
        if child is None:
            self.log.warning("no such actor", child=name)
            return
        if self._shutdown.begun and is_controller(child.spec.name):
            return
        self._children.restart(child, self.clock.monotonic())
        self._look_around()

    # The lease, and the end.

    def _held(self, elector: str, until: float) -> None:
        if self._releases.is_released(elector):
            return  # sent before the elector released the lease
        self._held_until[elector] = until
        if elector not in self._leads and not self._shutdown.begun and not self._over:
            self._leads.add(elector)
            self._schedule_controllers(self.clock.monotonic(), elector)
            self._look_around()

    def _lose(self, elector: str, reason: str) -> None:
        self._leads.discard(elector)
        self._held_until.pop(elector, None)
        self._releases.ended(elector)
        may_stand_by = self._plan.stand_by_on_loss or group_of_elector(elector)
        if may_stand_by and not self._shutdown.begun and not self._over:
            self._stand_by(elector, reason)
        else:
            self._end(f"{lost_lease(elector)}: {reason}")

    def _yield_group(self, elector: str) -> None:
        """Drain the controllers under the lease of a group, so that the elector can release it."""
        if elector not in self._leads:
            self.tell(elector, Withdraw(drained=False))
            return
        self._release_drained(self._releases.begin(elector, self.clock.monotonic()))

    def _release_drained(self, elector: str | None) -> None:
        if elector is not None:
            self._leads.discard(elector)
            self._held_until.pop(elector, None)
            for name, controller in self._plan.controllers.items():
                if controller.elector == elector:
                    self._unsubscribe(name)
            self.tell(elector, Withdraw(drained=True))

    def _stand_by(self, elector: str, reason: str) -> None:
        """Stop everything that belongs to the lost term of a lease, and stand by like a new process.

        The controllers are fenced: their queued commands are refused, and messages of their threads are dropped. They
        are started again with the next term, and wait then until no write of this term is in flight. The new elector
        runs for leader again. With the main lease all controllers stop, and the informers are restarted, so that the
        next term begins with fresh lists; the migration Lease expires. With the Lease of one of several clusters, this
        applies to its controllers and their informers; with that of a group, to its controllers.
        """
        now, is_main = self.clock.monotonic(), elector == ELECTOR
        lost = [
            name
            for name, controller in self._plan.controllers.items()
            if (is_main or controller.elector == elector) and controller_name(name) in self._children
        ]
        for name in lost:
            for owned in self._children.owned_by(name):
                self._children.forget(owned)
            self._children.forget(controller_name(name))
            self._vitals.forget(controller_name(name))
            self._unsubscribe(name)
        within: list[str] = []  # electors whose terms end with that of the main lease
        if is_main:
            within += self._plan.group_electors
            if self._plan.migration is not None:
                within.append(self._plan.migration.elector.name)
                self._children.forget(self._plan.migration.elector.name)
        for inner in within:
            self._leads.discard(inner)
            self._held_until.pop(inner, None)
            self._releases.ended(inner)
            self.tell(DISPATCHER, LeaseLost(reason, inner))
        tables = {table_id for name in lost for table_id in self._plan.controllers[name].tables}
        informers = {*map(informer_name, tables)} if cluster_of_elector(elector) else set()
        for name in list(self._children):
            child = self._children.get(name)
            ends = name == elector or name in informers or name in within or (is_main and is_informer(name))
            if child is not None and ends:
                self._children.restart(child, now)
                self._vitals.forget(name)
        self.log.warning(f"{lost_lease(elector)}, standing by again", controllers=len(lost), error=reason)
        self._look_around()

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._ended(why)

    # Description and vitals.

    def _description(self) -> ManagerDescription:
        return ManagerDescription(
            leading=self._leading,
            leader=self._leader,
            draining=self._shutdown.begun,
            children=self._children.vitals(),
        )

    def _publish_vitals(self) -> None:
        vitals = ManagerVitals(
            leading=self._leading,
            leader=self._leader,
            draining=self._shutdown.begun,
            children=self._children.known_vitals(),
            at=self.clock.monotonic(),
            wanted=frozenset(self._steering.wanted(self._plan)),
            paused=frozenset(self._steering.paused),
            leads=frozenset(self._leads),
        )
        self._vitals.say(self.name, vitals)
