"""Round-robin scheduling of generators on the event loop, so that long computations do not delay other requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

TIME_SLICE = 0.005  # seconds


class RoundRobin:
    """Round-robin queue of generators. Not thread-safe."""

    def __init__(self, *, now: Callable[[], float], soon: Callable[[Callable[[], None]], object]) -> None:
        """Create an empty queue.

        now: returns the time of a monotonic clock, in seconds
        soon: schedules a call in the next iteration of the event loop, after it has read from the connections
        """
        self._now, self._soon = now, soon
        self._generators: deque[Iterator[None]] = deque()

    def run(self, steps: Iterator[None]) -> None:
        """Run the first time slice of a generator now, and the others in later iterations of the event loop.

        The generator must not raise.
        """
        if self._run_time_slice(steps):
            self._generators.append(steps)
            if len(self._generators) == 1:
                self._soon(self._run_next)

    def _run_next(self) -> None:
        steps = self._generators[0]
        if self._run_time_slice(steps):
            self._generators.rotate(-1)
        else:
            self._generators.popleft()
        if self._generators:
            self._soon(self._run_next)

    def _run_time_slice(self, steps: Iterator[None]) -> bool:
        """Run a generator for TIME_SLICE seconds. Return whether it has more steps."""
        until = self._now() + TIME_SLICE
        return any(self._now() >= until for _ in steps)  # advances the generator until the time slice is over
