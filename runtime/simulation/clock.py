"""A clock that stands still until it is told to go on."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class VirtualClock:
    """Implements runtime.clock.Clock in one thread: alarms sound when time is advanced to them.

    skew: how far now() is off from the start plus what passed, to play a clock that is set forward or back.
    """

    def __init__(self, *, start: float = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self.skew = 0.0
        self._alarms: dict[Hashable, tuple[float, int, Callable[[], None]]] = {}
        self._due: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> float:
        return self._start + self._elapsed + self.skew

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        self._alarms[who] = (when, self._count, what)
        heapq.heappush(self._due, (when, self._count, who))

    def cancel(self, who: Hashable) -> None:
        self._alarms.pop(who, None)

    def call_after(self, delay: float, what: Callable[[], None]) -> None:
        """An alarm of its own, which replaces none and cannot be cancelled."""
        self.call_once(self._elapsed + delay, what)

    def call_once(self, when: float, what: Callable[[], None]) -> None:
        """The same at a time: those of one time sound in the order in which they were set."""
        self.call_at(f"once {self._count}", when, what)

    def next_alarm(self) -> float | None:
        """When the next alarm sounds; None if none is set."""
        while self._due:
            when, count, who = self._due[0]
            alarm = self._alarms.get(who)
            if alarm is not None and alarm[1] == count:
                return when
            heapq.heappop(self._due)  # replaced or cancelled since
        return None

    def advance_to(self, when: float) -> None:
        """Time never goes back; earlier than now is now."""
        self._elapsed = max(self._elapsed, when)

    def sound_due(self) -> bool:
        """Sound the next alarm if it is due; answers whether there was one."""
        when = self.next_alarm()
        if when is None or when > self._elapsed:
            return False
        _, _, who = heapq.heappop(self._due)
        _, _, what = self._alarms.pop(who)
        what()
        return True


class ProcessClock:
    """The clock of one process in the simulator: the same time for all, but a wall clock of its own.

    Implements runtime.clock.Clock. skew: seconds that now() is off, as on a machine whose clock was set.
    """

    def __init__(self, base: VirtualClock) -> None:
        self._base = base
        self.skew = 0.0
        self._stopped = False

    def monotonic(self) -> float:
        return self._base.monotonic()

    def now(self) -> float:
        return self._base.now() + self.skew

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        if not self._stopped:
            self._base.call_at(who, when, lambda: None if self._stopped else what())

    def cancel(self, who: Hashable) -> None:
        self._base.cancel(who)

    def stop(self) -> None:
        """No alarm sounds any more: the process is gone."""
        self._stopped = True
