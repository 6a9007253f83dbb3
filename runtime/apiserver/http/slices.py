"""Long computations on the event loop, one slice per turn, so that other requests do not wait for their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

SLICE = 0.005  # seconds


class Gradually:
    """Round-robin queue of generators, for one thread."""

    def __init__(self, *, now: Callable[[], float], soon: Callable[[Callable[[], None]], object]) -> None:
        """Create an empty queue.

        now: seconds of any clock.
        soon: schedules a call in the next turn of the event loop, after it has read from the connections.
        """
        self._now, self._soon = now, soon
        self._left: deque[Iterator[None]] = deque()

    def do(self, steps: Iterator[None]) -> None:
        """All steps, the first slice of them now. They do not raise."""
        if self._has_more(steps):
            self._left.append(steps)
            if len(self._left) == 1:
                self._soon(self._turn)

    def _turn(self) -> None:
        steps = self._left[0]
        if self._has_more(steps):
            self._left.rotate(-1)
        else:
            self._left.popleft()
        if self._left:
            self._soon(self._turn)

    def _has_more(self, steps: Iterator[None]) -> bool:
        until = self._now() + SLICE
        return any(self._now() >= until for _ in steps)  # which takes steps until it is late
