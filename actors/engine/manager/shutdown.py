"""How the actors of a system end: the controllers finish what they began, then the elector gives the lease back."""

from __future__ import annotations

import math
from collections.abc import Callable

from kcm.actors.engine.manager.children import Children
from kcm.actors.reconciliation.actor_names import ELECTOR, is_controller
from kcm.protocols.messages.lifecycle import Drain
from kcm.runtime.system.actor import Actor

DRAINED = "drained"  # how it ended, if it ended well


class Shutdown:
    """begun: there is no way back."""

    def __init__(
        self,
        manager: Actor,
        *,
        children: Children,
        within: float,
        leader_elect: bool,
        ended: Callable[[str], None],
    ) -> None:
        """within: seconds for all of it. leader_elect: there is a lease.

        ended: called when it is over, perhaps twice: with DRAINED, or what was not drained in time.
        """
        self._manager, self._children = manager, children
        self._within, self._leader_elect, self._ended = within, leader_elect, ended
        self._system = manager.context.system
        self._until: float | None = None  # monotonic seconds; infinity once it is over
        self._waiting: set[str] = set()  # controllers that have not said Drained

    @property
    def begun(self) -> bool:
        return self._until is not None

    @property
    def due(self) -> float:
        """When it is to be over; infinity if it has not begun, or is."""
        return self._until if self._until is not None else math.inf

    def begin(self) -> None:
        """Controllers first, then the lease. Who is down, or has not started yet, begins nothing any more."""
        if self.begun:
            return
        self._until = self._manager.clock.monotonic() + self._within
        for name in [name for name in self._children if is_controller(name)]:
            if self._system.is_alive(name):
                self._waiting.add(name)
                self._manager.tell(name, Drain())
            else:
                self._children.forget(name)
        self._manager.log.info("shutting down", draining=len(self._waiting))
        if not self._waiting:
            self._drain_elector()

    def drained(self, name: str) -> None:
        """A controller or the elector is."""
        if not self.begun:
            return
        if name == ELECTOR:
            self._finish()
        elif name in self._waiting:
            self._waiting.discard(name)
            if not self._waiting:
                self._drain_elector()

    def is_done_with(self, name: str, error: str) -> bool:
        """Whether a child that failed is left alone, because it was to end anyway."""
        if not self.begun:
            return False
        if name == ELECTOR and not self._waiting:
            self._finish()
            return False
        if not is_controller(name):
            return False
        self._manager.log.warning("actor failed while it was drained", child=name, error=error)
        self._children.forget(name)
        self.drained(name)
        return True

    def look_at_the_time(self, now: float) -> None:
        if self._until is not None and now >= self._until:
            waiting = sorted(self._waiting) or [ELECTOR]
            self._manager.log.warning("controller shutdown timeout reached", waiting=waiting)
            self._finish(f"not drained in time: {', '.join(waiting)}")

    def _drain_elector(self) -> None:
        if self._leader_elect and self._system.is_alive(ELECTOR):
            self._manager.tell(ELECTOR, Drain())
        else:
            self._finish()

    def _finish(self, how: str = DRAINED) -> None:
        self._until = math.inf
        self._ended(how)
