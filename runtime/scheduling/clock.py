"""Clocks. No other module reads the system's clock.

A clock has two readings: `monotonic()` for durations and deadlines, `now()` for timestamps in objects. Neither is
compared with a timestamp of another machine, except for display. Both include the time in which the machine is
suspended, because leases expire in that time.
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

# Seconds. Waiting on a lock does not count the time in which the machine is suspended: an alarm that became due in that
# time is called at most this long after the machine resumes.
LONGEST_WAIT = 1.0
OUTDATED = 128  # replaced or cancelled alarms in the heap before it is rebuilt


def _clock_that_counts_suspension() -> int | None:
    """Return the clock for clock_gettime, or None to use time.monotonic().

    Linux stops CLOCK_MONOTONIC during suspension, and has CLOCK_BOOTTIME. On macOS CLOCK_MONOTONIC includes suspension,
    but time.monotonic() does not read it. On Windows time.monotonic() includes suspension.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.CLOCK_BOOTTIME
    return time.CLOCK_MONOTONIC if sys.platform == "darwin" else None


_COUNTING = _clock_that_counts_suspension()


class WallClock(Protocol):
    """Source of the time of day."""

    def now(self) -> float:
        """Return Unix seconds."""


class Clock(Protocol):
    """Source of time for actors."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start. Never decreases, and counts the time of suspension."""

    def now(self) -> float:
        """Return Unix seconds."""

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        """Call `what` once monotonic() has reached `when`, on a thread of the clock; it must not block.

        who: name of the alarm; a later call with the same name replaces it.
        """

    def cancel(self, who: Hashable) -> None:
        """Cancel the alarm of this name, if there is one."""


class SystemClock:
    """The machine's clock; one daemon thread calls the alarms."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: dict[Hashable, tuple[float, int, Callable[[], None]]] = {}
        self._due: list[tuple[float, int, Hashable]] = []
        self._count = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def monotonic(self) -> float:
        return time.monotonic() if _COUNTING is None else time.clock_gettime(_COUNTING)

    def now(self) -> float:
        return time.time()

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        with self._changed:
            if self._closed:
                return
            self._count += 1
            self._alarms[who] = (when, self._count, what)
            first = not self._due or when < self._due[0][0]
            heapq.heappush(self._due, (when, self._count, who))
            if len(self._due) > 2 * len(self._alarms) + OUTDATED:
                self._due = [(at, count, name) for name, (at, count, _) in self._alarms.items()]
                heapq.heapify(self._due)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
                self._thread.start()
            elif first:
                self._changed.notify()

    def cancel(self, who: Hashable) -> None:
        with self._changed:
            self._alarms.pop(who, None)

    @property
    def pending(self) -> int:
        """Return the number of alarms in the heap, including replaced ones."""
        return len(self._due)

    def close(self) -> None:
        """Cancel all alarms and end the thread. Waits for the thread, unless an alarm calls this."""
        with self._changed:
            self._closed = True
            self._alarms.clear()
            self._due.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                if not self._due:
                    self._changed.wait()
                    continue
                when, count, who = self._due[0]
                alarm = self._alarms.get(who)
                if alarm is None or alarm[1] != count:  # replaced or cancelled
                    heapq.heappop(self._due)
                    continue
                remaining = when - self.monotonic()
                if remaining > 0:
                    self._changed.wait(min(remaining, LONGEST_WAIT))
                    continue
                heapq.heappop(self._due)
                del self._alarms[who]
            try:
                alarm[2]()
            except BaseException:  # the thread must survive: all actors depend on its alarms
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
