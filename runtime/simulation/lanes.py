"""Lanes: threads for message handlers that may wait for virtual time to pass, in a single-threaded simulation.

A handler runs on the thread of a lane while the thread of the world is blocked, so only one of them runs at a time,
and the same seed gives the same run. When the handler waits, the thread of the world continues, until virtual time has
reached the end of the wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abandoned(BaseException):
    """Control flow: raised in a waiting handler whose actor was stopped, to unwind the stack of its thread."""


class Lane:
    """Thread that runs one handler at a time, and that a handler can block without blocking the world."""

    def __init__(self) -> None:
        self._function: Callable[[], None] | None = None
        self._may_run, self._paused = threading.Lock(), threading.Lock()
        self._may_run.acquire()
        self._paused.acquire()
        self._is_waiting = self._abandoned = False
        threading.Thread(target=self._work, name="lane", daemon=True).start()

    def run(self, function: Callable[[], None]) -> bool:
        """Run a function until it ends or waits. Return whether it has ended; otherwise `resume` continues it.

        The function must not raise.
        """
        self._function = function
        return self.resume()

    def resume(self) -> bool:
        """Continue the function that waits, until it ends or waits again. Return whether it has ended."""
        self._may_run.release()
        self._paused.acquire()
        return not self._is_waiting

    def abandon(self) -> None:
        """End the thread of the lane, and the function that waits on it."""
        self._abandoned, self._function = True, None
        self.resume()

    def wait(self) -> None:
        """Block the lane's thread, which must be the current one, until `resume` is called.

        Raises Abandoned if `abandon` is called instead.
        """
        self._is_waiting = True
        self._paused.release()
        self._may_run.acquire()
        self._is_waiting = False
        if self._abandoned:
            raise Abandoned

    def _work(self) -> None:
        while True:
            self._may_run.acquire()
            function, self._function = self._function, None
            if function is not None:
                function()
            self._paused.release()
            if self._abandoned:
                return


class Lanes:
    """Pool of the handler threads (lanes) of one world."""

    def __init__(self) -> None:
        self._free: list[Lane] = []
        self.current: Lane | None = None  # lane of the handler that runs now

    def run(self, function: Callable[[], None]) -> None:
        lane = self._free.pop() if self._free else Lane()
        self._switch_to(lane, lambda: lane.run(function))

    def resume(self, lane: Lane) -> None:
        self._switch_to(lane, lane.resume)

    def close(self) -> None:
        """End the threads that run no handler."""
        while self._free:
            self._free.pop().abandon()

    def _switch_to(self, lane: Lane, advance: Callable[[], bool]) -> None:
        before, self.current = self.current, lane  # another actor's handler may wait for this one to end
        has_ended = advance()
        self.current = before
        if has_ended:
            self._free.append(lane)
