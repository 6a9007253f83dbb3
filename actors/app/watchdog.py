"""The watchdog: looks from outside the actors whether a system can still do its work.

The supervisor replaces an actor that hangs, but nobody replaces the supervisor; what all writes rest on may have failed
too often, or the way to the API server be broken for good. Then the process is of no use, and would go on to hold
the lease: it has to end, so that a standby, or the process that is started in its place, takes over.
"""

from __future__ import annotations

from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER
from kcm.runtime.client.api import Breakable, Transport
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.vitals import Vitals

# One informer that stays down stalls its table, one controller its own work; the rest is better than nothing. Without
# the recorder there are no events. Without these there is nothing.
ESSENTIAL = (DISPATCHER, ELECTOR)


class Watchdog:
    """every: seconds between two looks."""

    def __init__(self, *, vitals: Vitals, transport: Transport, clock: Clock, patience: float) -> None:
        """patience: seconds that the manager may say nothing; it speaks at each of its looks, every 5 s at least."""
        self.every = min(5.0, patience / 6)
        self._vitals, self._clock = vitals, clock
        self._transport = transport if isinstance(transport, Breakable) else None
        self._patience = patience
        self._looked_at = clock.monotonic()
        self._silence = 0.0
        self._heard_at: float | None = None  # when the manager said what it said last

    def look(self) -> str | None:
        """Why the process has to end; None if it need not. To be called every `every` seconds."""
        said = self._vitals.of(MANAGER, ManagerVitals)
        self._listen(None if said is None else said.at)
        if self._transport is not None and (trouble := self._transport.trouble) is not None:
            return trouble
        if self._silence > self._patience:
            return f"{MANAGER} hangs: it has said nothing for {self._silence:.0f} s"
        for name in ESSENTIAL:
            child = said.children.get(name) if said is not None else None
            if child is not None and child.gave_up:
                return f"{name} failed too often: {child.last_error}"
        return None

    def _listen(self, heard_at: float | None) -> None:
        """Sum up the silence. Time without a look does not count: then nobody ran, as in a stopped process."""
        now = self._clock.monotonic()
        passed = min(now - self._looked_at, 2 * self.every)
        self._looked_at = now
        self._silence = self._silence + passed if heard_at == self._heard_at else 0.0
        self._heard_at = heard_at
