"""Simulated threads of a process that do not belong to an actor: the HTTP thread, and those of outside calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.simulation.clock import VirtualClock


class SideThread:
    """Simulated thread that runs functions in order. A function runs at once, unless the thread is blocked.

    clock: clock of its process
    stopped: whether its process has ended
    """

    def __init__(self, world: VirtualClock, clock: Clock | None = None) -> None:
        self.clock: Clock = world if clock is None else clock
        self._world = world
        self._held_until = 0.0
        self._queue: deque[Callable[[], None]] = deque()
        self.stopped = False

    def do(self, function: Callable[[], None]) -> None:
        if self._queue or self._world.elapsed < self._held_until or self.stopped:
            self._enqueue(function)
        else:
            function()

    def hold(self, until: float) -> None:
        """Block the thread until a virtual time. Functions are queued meanwhile."""
        self._held_until = max(self._held_until, until)

    def stop(self) -> None:
        """Drop all queued and later functions, because the process has ended."""
        self.stopped = True
        self._queue.clear()

    def _enqueue(self, function: Callable[[], None]) -> None:
        if self.stopped:
            return
        self._queue.append(function)
        if len(self._queue) == 1:
            self._world.call_once(self._held_until, self._run_delayed)

    def _run_delayed(self) -> None:
        if self._queue and self._world.elapsed < self._held_until:  # blocked again
            self._world.call_once(self._held_until, self._run_delayed)
            return
        while self._queue:
            self._queue[0]()  # a function that it adds runs after all earlier ones
            if self._queue:  # the function may have ended the process, which clears the queue
                self._queue.popleft()
