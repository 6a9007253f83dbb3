"""Clocks of a simulation, which show virtual time: it advances only when the simulator changes it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class _Alarm:
    """Pending alarm: a callback to run at a time."""

    __slots__ = ("what", "who")

    def __init__(self, who: Hashable | None, what: Callable[[], None]) -> None:
        self.who = who  # owner, whose next alarm replaces this one; None if it cannot be replaced
        self.what: Callable[[], None] | None = what  # callback; None after the alarm was replaced, cancelled or run


class VirtualClock:
    """Virtual clock of a simulation. Implements kcm.runtime.scheduling.clock.Clock, for one thread.

    An alarm runs when `run_due` is called after the time was advanced to it.

    skew: seconds by which now() is ahead, to simulate a clock that was set forward or back
    """

    def __init__(self, *, start: float = START) -> None:
        self._start = start
        self.elapsed = 0.0  # virtual seconds since the start: the value of monotonic(). Only advance_to changes it.
        self.skew = 0.0
        self._alarms: dict[Hashable, _Alarm] = {}  # alarms that can be replaced
        self._due: list[tuple[float, int, _Alarm]] = []  # heap of all alarms; may contain replaced and cancelled ones
        self._count = 0

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> float:
        return self._start + self.elapsed + self.skew

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        self.cancel(who)
        alarm = self._alarms[who] = _Alarm(who, what)
        self._count += 1
        heapq.heappush(self._due, (when, self._count, alarm))

    def cancel(self, who: Hashable) -> None:
        alarm = self._alarms.pop(who, None)
        if alarm is not None:
            alarm.what = None

    def call_after(self, delay: float, what: Callable[[], None]) -> None:
        """Set an alarm after a number of virtual seconds. It replaces no other alarm, and cannot be cancelled."""
        self.call_once(self.elapsed + delay, what)

    def call_once(self, when: float, what: Callable[[], None]) -> None:
        """Set an alarm at a virtual time. It replaces no other alarm, and cannot be cancelled.

        Alarms at the same time run in the order in which they were set.
        """
        self._count += 1
        heapq.heappush(self._due, (when, self._count, _Alarm(None, what)))

    def next_alarm(self) -> float | None:
        """Return the time of the next alarm, in virtual seconds since the start; None without alarms."""
        due = self._due
        while due:
            if due[0][2].what is not None:
                return due[0][0]
            heapq.heappop(due)
        return None

    def advance_to(self, when: float) -> None:
        """Advance the time. Does nothing if `when` is in the past."""
        self.elapsed = max(self.elapsed, when)

    def run_due(self) -> bool:
        """Run the next alarm if it is due. Return whether one was due."""
        due = self._due
        while due and due[0][0] <= self.elapsed:
            _, _, alarm = heapq.heappop(due)
            what = alarm.what
            if what is None:
                continue
            alarm.what = None
            if alarm.who is not None:
                del self._alarms[alarm.who]
            what()
            return True
        return False


class ProcessClock:
    """Clock of one simulated process: the common virtual time, with a wall clock of its own.

    Implements kcm.runtime.scheduling.clock.Clock.

    skew: seconds by which now() is ahead, to simulate a machine whose clock was set
    """

    def __init__(self, base: VirtualClock) -> None:
        self._base = base
        self.skew = 0.0
        self.paused_until = 0.0  # virtual time until which alarms are delayed, while the clock advances
        self._stopped = False

    def monotonic(self) -> float:
        return self._base.elapsed

    def now(self) -> float:
        return self._base.now() + self.skew

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        if not self._stopped:
            self._base.call_at(who, when, lambda: self._run(who, what))

    def cancel(self, who: Hashable) -> None:
        self._base.cancel(who)

    def stop(self) -> None:
        """Drop all alarms, because the process has ended."""
        self._stopped = True

    def _run(self, who: Hashable, what: Callable[[], None]) -> None:
        if self._base.elapsed < self.paused_until:
            self.call_at(who, self.paused_until, what)
        elif not self._stopped:
            what()
