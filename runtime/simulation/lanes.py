"""Threads for handlers that wait while they handle a message, in a simulation that runs one thread at a time.

A handler that may wait runs on a thread of its own, a lane, while the world's thread is stopped. So only one thing
runs at a time, and the same seed gives the same run. While the handler waits, the world's thread continues until
virtual time has reached the end of the wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abandoned(BaseException):
    """Control flow: raised in a waiting handler whose actor was stopped, to unwind its stack. It is not reported."""


class Lane:
    """Thread that runs one handler after the other. A handler may wait."""

    def __init__(self) -> None:
        self._what: Callable[[], None] | None = None
        self._turn, self._back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._back.acquire()
        self._waits = self._abandoned = False
        threading.Thread(target=self._work, name="lane", daemon=True).start()

    def run(self, what: Callable[[], None]) -> bool:
        """Run a function that must not raise. Returns whether it has finished; if not, `resume` continues it."""
        self._what = what
        return self.resume()

    def resume(self) -> bool:
        """Continue the waiting function. Returns whether it has finished, as `run`."""
        self._turn.release()
        self._back.acquire()
        return not self._waits

    def abandon(self) -> None:
        """End the waiting handler and the thread."""
        self._abandoned, self._what = True, None
        self.resume()

    def wait(self) -> None:
        """Wait for `resume`. Must be called on the lane's thread. Raises Abandoned if the lane is abandoned."""
        self._waits = True
        self._back.release()
        self._turn.acquire()
        self._waits = False
        if self._abandoned:
            raise Abandoned

    def _work(self) -> None:
        while True:
            self._turn.acquire()
            what, self._what = self._what, None
            if what is not None:
                what()
            self._back.release()
            if self._abandoned:
                return


class Lanes:
    """Lanes of one world."""

    def __init__(self) -> None:
        self._free: list[Lane] = []
        self.current: Lane | None = None  # lane of the handler that runs now

    def run(self, what: Callable[[], None]) -> None:
        lane = self._free.pop() if self._free else Lane()
        self._go(lane, lambda: lane.run(what))

    def resume(self, lane: Lane) -> None:
        self._go(lane, lane.resume)

    def close(self) -> None:
        """End the free threads."""
        while self._free:
            self._free.pop().abandon()

    def _go(self, lane: Lane, on: Callable[[], bool]) -> None:
        before, self.current = self.current, lane  # another actor's handler may wait for this one to end
        through = on()
        self.current = before
        if through:
            self._free.append(lane)
