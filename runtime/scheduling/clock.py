"""Clocks, passed to whatever needs the time. Nothing else in the project reads the system's clock.

Two clocks: `monotonic()` for durations and deadlines, `now()` for timestamps that go into objects. Neither is ever
compared with a timestamp that another machine wrote, except to show it to people. Both count the time in which the
machine is suspended: a lease runs out meanwhile.
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Callable, Hashable
from typing import Protocol

# Seconds. A lock's wait does not count the time in which the machine is suspended: an alarm that was due meanwhile
# sounds so late at most after the machine resumes.
LONGEST_WAIT = 1.0
OUTDATED = 128  # alarms that were replaced or cancelled and may lie about before they are cleared away


def _clock_that_counts_suspension() -> int | None:
    """For clock_gettime; None where time.monotonic() has to do.

    Linux stops CLOCK_MONOTONIC while it is suspended, and has CLOCK_BOOTTIME. macOS counts it in CLOCK_MONOTONIC, which
    time.monotonic() does not read there. Windows counts it in what time.monotonic() reads.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.CLOCK_BOOTTIME
    return time.CLOCK_MONOTONIC if sys.platform == "darwin" else None


_COUNTING = _clock_that_counts_suspension()


class Clock(Protocol):
    """What actors know of time."""

    def monotonic(self) -> float:
        """Seconds since some start; never goes back, and counts the time in which the machine is suspended."""

    def now(self) -> float:
        """Unix seconds."""

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        """Call `what` once monotonic() has reached `when`, on a thread of the clock's; it must not block.

        who: one alarm each: a later call with the same name replaces the earlier one.
        """

    def cancel(self, who: Hashable) -> None:
        """Forget who's alarm, if there is one."""


class SystemClock:
    """The machine's clock; one daemon thread sounds the alarms."""

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
        """How many alarms are kept, those among them that were replaced since."""
        return len(self._due)

    def close(self) -> None:
        """Sound no more alarms, and end the thread: it is over when this returns, unless an alarm calls it."""
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
                if alarm is None or alarm[1] != count:  # replaced or cancelled since
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
            except BaseException:  # without this thread nobody is woken any more
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
