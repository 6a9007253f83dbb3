"""Long pieces of work on the event loop, so that nobody else waits for the end of one: a slice of one in each turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

SLICE = 0.005  # seconds


class Gradually:
    """For one thread. The pieces take turns."""

    def __init__(self, *, now: Callable[[], float], soon: Callable[[Callable[[], None]], object]) -> None:
        """now: seconds of any clock. soon: has something called in the next turn, after what has come was read."""
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
