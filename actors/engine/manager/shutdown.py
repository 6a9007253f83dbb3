"""Releases of leases: controllers finish their syncs, then the elector releases the lease.

Shutdown: all controllers, at the end of the system. GroupReleases: the controllers of a group that is given up.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from kcm.actors.engine.manager.children import Children
from kcm.actors.engine.manager.plan import ManagerPlan
from kcm.actors.reconciliation.actor_names import (
    controller_name,
    controller_of,
    group_of_elector,
    is_controller,
    is_elector,
)
from kcm.protocols.messages.lifecycle import Drain
from kcm.runtime.system.actor import Actor
from kcm.runtime.system.vitals import Vitals

DRAINED = "drained"  # reason of a successful shutdown


class Shutdown:
    """Shutdown of the manager's children. It cannot be undone once it has begun."""

    def __init__(
        self,
        manager: Actor,
        *,
        children: Children,
        within: float,
        leader_elect: bool,
        ended: Callable[[str], None],
    ) -> None:
        """Create a shutdown that has not begun.

        within: time limit in seconds.
        leader_elect: there is a lease to release.
        ended: called at the end, possibly twice, with DRAINED or the actors that were not drained in time.
        """
        self._manager, self._children = manager, children
        self._within, self._leader_elect, self._ended = within, leader_elect, ended
        self._system = manager.context.system
        self._until: float | None = None  # monotonic seconds; infinity once it is over
        self._waiting: set[str] = set()  # controllers that have not sent Drained
        self._electors: set[str] = set()  # electors that have not sent Drained, once the controllers have

    @property
    def begun(self) -> bool:
        return self._until is not None

    @property
    def due(self) -> float:
        """Return the deadline of the shutdown; infinity if it has not begun or is over."""
        return self._until if self._until is not None else math.inf

    def begin(self) -> None:
        """Drain the running controllers. Stopped controllers, and those not started yet, are not started any more."""
        if self.begun:
            return
        self._until = self._manager.clock.monotonic() + self._within
        for name in [name for name in self._children if is_controller(name)]:
            if self._system.is_alive(name):
                self._waiting.add(name)
                self._manager.tell(name, Drain())
            else:
                self._children.forget(name)
        self._manager.log.info("shutting down controllers", draining=len(self._waiting))
        if not self._waiting:
            self._drain_electors()

    def drained(self, name: str) -> None:
        """Handle Drained of a controller or the elector."""
        if not self.begun:
            return
        if is_elector(name):
            self._electors.discard(name)
            if not self._electors and not self._waiting:
                self._finish()
        elif name in self._waiting:
            self._waiting.discard(name)
            self._manager.log.info("Controller terminated", v=1, controller=controller_of(name))
            if not self._waiting:
                self._manager.log.info("All controllers terminated")
                self._drain_electors()

    def is_done_with(self, name: str, error: str) -> bool:
        """Report whether a failed child is not restarted, because it was being drained."""
        if not self.begun:
            return False
        if is_elector(name) and not self._waiting:
            self.drained(name)
            return False
        if not is_controller(name):
            return False
        self._manager.log.warning("actor failed while it was drained", child=name, error=error)
        self._children.forget(name)
        self.drained(name)
        return True

    def look_at_the_time(self, now: float) -> None:
        if self._until is not None and now >= self._until:
            waiting = sorted(self._waiting) or sorted(self._electors)
            self._manager.log.warning(
                "Controller shutdown timeout reached", timeout=self._within, runningControllers=waiting
            )
            self._finish(f"not drained in time: {', '.join(waiting)}")

    def _drain_electors(self) -> None:
        electors = filter(is_elector, self._children) if self._leader_elect else ()
        self._electors = {name for name in electors if self._system.is_alive(name)}
        for name in sorted(self._electors):
            self._manager.tell(name, Drain())
        if not self._electors:
            self._finish()

    def _finish(self, how: str = DRAINED) -> None:
        self._until = math.inf
        self._ended(how)


class _Draining(Struct):
    """Release that waits for controllers. until: its deadline in monotonic seconds."""

    waiting: set[str]
    until: float


class GroupReleases:
    """Releases of groups that the coordinator has requested. The electors of the groups are the keys."""

    def __init__(self, manager: Actor, *, plan: ManagerPlan, children: Children, vitals: Vitals) -> None:
        self._manager, self._plan, self._children, self._vitals = manager, plan, children, vitals
        self._draining: dict[str, _Draining] = {}
        self._released: set[str] = set()  # electors that release their lease, and have not confirmed it

    @property
    def due(self) -> float:
        """Return the deadline of the earliest release; infinity without one."""
        return min((release.until for release in self._draining.values()), default=math.inf)

    def is_released(self, elector: str) -> bool:
        """Report whether the controllers under a lease were drained, and its elector has not released it yet."""
        return elector in self._released

    def begin(self, elector: str, now: float) -> str | None:
        """Drain the controllers under a lease, again if they are being drained. Return as drained()."""
        system = self._manager.context.system
        release = self._draining.get(elector)
        if release is None:
            release = self._draining[elector] = _Draining(set(), now + self._plan.drain_within)
        release.waiting = {name for name in self._controllers(elector) if system.is_alive(name)}
        for name in sorted(release.waiting):
            self._manager.tell(name, Drain())
        return self._drained(elector)

    def drained(self, name: str) -> str | None:
        """Handle Drained of a controller or an elector.

        Return the elector that can release its lease now, because the controllers under it have been stopped; None if
        there is none.
        """
        self._released.discard(name)
        for elector, release in self._draining.items():
            if name in release.waiting:
                release.waiting.discard(name)
                return self._drained(elector)
        return None

    def overdue(self, now: float) -> list[str]:
        """Return the electors whose controllers were not drained in time. They must lose their lease."""
        return [elector for elector, release in self._draining.items() if now >= release.until]

    def ended(self, elector: str) -> None:
        """End the release of an elector that was restarted or has lost its lease."""
        self._draining.pop(elector, None)
        self._released.discard(elector)

    def _controllers(self, elector: str) -> list[str]:
        names = (controller_name(name) for name, plan in self._plan.controllers.items() if plan.elector == elector)
        return [name for name in names if name in self._children]

    def _drained(self, elector: str) -> str | None:
        if self._draining[elector].waiting:
            return None
        del self._draining[elector]
        controllers = self._controllers(elector)
        for name in controllers:
            for owned in self._children.owned_by(controller_of(name) or ""):
                self._children.forget(owned)
            self._children.forget(name)
            self._vitals.forget(name)
        self._released.add(elector)
        group = group_of_elector(elector)
        self._manager.log.info("controllers stopped, group is given up", group=group, controllers=len(controllers))
        return elector
