"""Supervision of the controller manager, which supervises all other actors: its start, its restarts, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.actors.app.watchdog import Watchdog
from kcm.actors.reconciliation.actor_names import DISPATCHER, MANAGER, is_elector
from kcm.protocols.messages.lifecycle import ActorFailed
from kcm.runtime.process.termination import Ending
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.supervision import RestartPolicy, restart_delay

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class ManagerSupervision:
    """Supervisor of the manager.

    end: reason for the end of the system; None while it runs.
    finished: set at the end of the system.
    """

    def __init__(
        self,
        *,
        actors: ActorSystem,
        policy: RestartPolicy,
        watchdog: Watchdog,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        """Create the supervisor. policy: delays and limit of restarts."""
        self.end: str | None = None
        self.finished = Ending()
        self._actors, self._policy, self._watchdog = actors, policy, watchdog
        self._clock, self._log = clock, log
        self._spec: ActorSpec
        self._failures: list[float] = []
        self._is_down = False  # its failure was reported, and it will be restarted
        self._was_dead = False  # at the last check
        self._end_watch: Callable[[], None] = lambda: None
        actors.orphaned = self._manager_failed

    def start(self, spec: ActorSpec) -> None:
        """Start the manager, and check from now on whether it works."""
        self._spec = spec
        self._start_manager()
        self._end_watch = self._actors.repeat(self._watchdog.every, self._look)

    def stop(self) -> None:
        """End the checks, and cancel the restart of a failed manager."""
        self._end_watch()
        self._clock.cancel(self)

    def end_system(self, why: str) -> None:
        """Record the reason for the end; the first one stays. Called by the manager as well."""
        if self.end is None:
            self.end = why
        self.finished.set()

    def _start_manager(self) -> None:
        self._is_down = False
        self._actors.spawn(self._spec)

    def _manager_failed(self, failure: ActorFailed) -> None:
        """Restart the failed manager after a delay. Its children continue, and the next incarnation finds them."""
        now = self._clock.monotonic()
        self._is_down = True
        self._failures.append(now)
        self._log.error("controller manager failed", error=failure.error, traceback=failure.traceback)
        delay = restart_delay(self._failures, now=now, policy=self._policy, chance=0.0)
        if delay is None:
            self._give_up(f"the controller manager failed too often: {failure.error}")
        else:
            self._clock.call_at(self, now + delay, self._start_manager)

    def _look(self) -> None:
        if self.end is not None:
            return
        try:
            trouble = self._watchdog.look()
            if trouble is not None:
                self._give_up(trouble)
            self._look_after_manager()
        except Exception:
            self._log.exception("watchdog failed")

    def _look_after_manager(self) -> None:
        """Restart a manager that is dead at two successive checks and did not report its failure."""
        dead = not self._actors.is_alive(MANAGER) and not self._is_down and self.end is None
        if dead and self._was_dead:
            incarnation = self._actors.incarnation(MANAGER)
            self._manager_failed(ActorFailed(MANAGER, incarnation, "it died without an error"))
        self._was_dead = dead

    def _give_up(self, why: str) -> None:
        """Fence everything that writes, and end the system for this reason.

        The lease is not released but expires: it is unknown which writes are still in flight, and none of them is sent
        after the lease has expired.
        """
        if self.end is not None:
            return
        self._actors.seal()
        self._clock.cancel(self)
        stack = self._actors.stack(MANAGER)
        for name in (MANAGER, *filter(is_elector, self._actors.names()), DISPATCHER):
            self._actors.fence(name)
        self._log.error("controller manager gives up", error=why, stack=stack)
        self.end_system(why)
