"""The threads of a simulated process that are no actor's: that of HTTP, and those of the cloud."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.simulation.clock import VirtualClock


class SideThread:
    """Does what it is given, in order: at once, unless it is held up.

    clock: its process's. stopped: whether that is gone.
    """

    def __init__(self, world: VirtualClock, clock: Clock | None = None) -> None:
        self.clock: Clock = world if clock is None else clock
        self._world = world
        self._held_until = 0.0
        self._kept: deque[Callable[[], None]] = deque()
        self.stopped = False

    def do(self, what: Callable[[], None]) -> None:
        if self._kept or self._world.elapsed < self._held_until or self.stopped:
            self._keep(what)
        else:
            what()

    def hold(self, until: float) -> None:
        """It does nothing before then."""
        self._held_until = max(self._held_until, until)

    def stop(self) -> None:
        """The process is gone: what is kept is never done."""
        self.stopped = True
        self._kept.clear()

    def _keep(self, what: Callable[[], None]) -> None:
        if self.stopped:
            return
        self._kept.append(what)
        if len(self._kept) == 1:
            self._world.call_once(self._held_until, self._go_on)

    def _go_on(self) -> None:
        if self._kept and self._world.elapsed < self._held_until:  # held up again meanwhile
            self._world.call_once(self._held_until, self._go_on)
            return
        while self._kept:
            self._kept[0]()  # what it gives us to do comes after all that was kept before
            if self._kept:  # it may have ended the process
                self._kept.popleft()
