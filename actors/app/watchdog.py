"""Watchdog: checks from outside the actors whether the process can still work.

The manager replaces an actor that hangs, but no actor replaces the manager. The dispatcher or the elector may have
failed too often, or the transport may be broken permanently. Such a process does no work but still holds the lease. It
must exit, so that a standby or a new process takes over.
"""

from __future__ import annotations

from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, MANAGER, is_elector
from kcm.runtime.client.api import Breakable, Transport
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.vitals import Vitals


def is_essential(name: str) -> bool:
    """Report whether nothing works without this actor.

    A stopped informer affects only its table, a stopped controller only its own work, and without the recorder only
    events are missing.
    """
    return name == DISPATCHER or is_elector(name)


class Watchdog:
    """Watchdog of a process. `every` is the interval in seconds at which to call `look`."""

    def __init__(self, *, vitals: Vitals, transport: Transport, clock: Clock, patience: float) -> None:
        """Create a watchdog.

        patience: maximum age in seconds of the manager's vitals, which it updates at least every 5 s.
        """
        self.every = min(5.0, patience / 6)
        self._vitals, self._clock = vitals, clock
        self._transport = transport if isinstance(transport, Breakable) else None
        self._patience = patience
        self._looked_at = clock.monotonic()
        self._silence = 0.0
        self._heard_at: float | None = None  # time of the manager's last vitals

    def look(self) -> str | None:
        """Return why the process must exit, or None. Call it every `every` seconds."""
        manager = self._vitals.of(MANAGER, ManagerVitals)
        self._listen(None if manager is None else manager.at)
        if self._transport is not None and (trouble := self._transport.trouble) is not None:
            return trouble
        if self._silence > self._patience:
            return f"{MANAGER} hangs: it has said nothing for {self._silence:.0f} s"
        for name, child in manager.children.items() if manager is not None else ():
            if child.gave_up and is_essential(name):
                return f"{name} failed too often: {child.last_error}"
        return None

    def _listen(self, heard_at: float | None) -> None:
        """Add up the silence. Time without a call of `look` does not count: the process may have been stopped."""
        now = self._clock.monotonic()
        passed = min(now - self._looked_at, 2 * self.every)
        self._looked_at = now
        self._silence = self._silence + passed if heard_at == self._heard_at else 0.0
        self._heard_at = heard_at
