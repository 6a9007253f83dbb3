"""The work queue of a controller: which keys to look at, once each, and when.

Not for threads: it belongs to one actor, which passes the time in. Behaviour as client-go's util/workqueue: a key is
handled by one at a time; adds while it is handled are remembered once; of several delayed adds the earliest counts.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.scheduling.turns import Turns

PER_KEY = Backoff(first=0.005, factor=2.0, most=1000.0)

K = TypeVar("K", bound=Hashable)


class Busy(Protocol):
    """What reports how long it has been at work. Both are called from any thread, with the monotonic time."""

    def longest_running(self, now: float) -> float: ...

    def unfinished(self, now: float) -> float: ...


class QueueMeter:
    """What a queue reports; the default says nothing. Times are seconds."""

    def follow(self, queue: Busy, clock: Clock) -> None:
        """This is the queue that reports from now on, by this clock."""

    def added(self, depth: int) -> None:
        """A key was added that was not waiting; depth: how many wait now."""

    def taken(self, depth: int, waited: float) -> None:
        """A key was taken, after so long."""

    def finished(self, worked: float) -> None:
        """A key was handled, in so long."""

    def retried(self) -> None:
        """A key was added with a delay."""

    def given_up(self) -> None:
        """A key that failed is not tried again before its next event."""


class Pending(NamedTuple):
    """State of one key in a queue, in seconds as passed to the queue; None: the key is not in that state.

    queued: since when it waits to be taken. due: when it is added after a delay. taken: since when it is in work.
    """

    queued: float | None
    due: float | None
    taken: float | None


class WorkQueue(Generic[K]):
    """client-go's typed rate limiting queue, as a plain value.

    per_key: the backoff of a key that fails again and again. qps, burst: of the retries of all keys together. turn_of:
    the group of a key; groups are handed out in turns. None: all keys in their order.
    """

    def __init__(
        self,
        *,
        now: float,
        meter: QueueMeter | None = None,
        per_key: Backoff = PER_KEY,
        qps: float = 10.0,
        burst: int = 100,
        chance: Callable[[], float] = lambda: 0.0,
        turn_of: Callable[[K], Hashable] | None = None,
    ) -> None:
        self._meter = meter if meter is not None else QueueMeter()
        self._per_key, self._chance = per_key, chance
        self._bucket = TokenBucket(qps=qps, burst=burst, now=now)
        # Keys to hand out, each in _dirty and in no other place.
        self._ready: deque[K] | Turns[K] = deque() if turn_of is None else Turns(turn_of)
        self._dirty: dict[K, float] = {}  # keys that have to be looked at, since when
        self._processing: dict[K, float] = {}  # keys handed out, since when; if dirty too, they come again after done
        self._delayed: dict[K, float] = {}  # keys due later, when; the heap may hold outdated times of theirs
        self._heap: list[tuple[float, int, K]] = []  # the number decides between equal times
        self._pushed = 0
        self._failures: dict[K, int] = {}
        self._backoffs: dict[K, float] = {}  # of keys that failed, until when

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def processing(self) -> int:
        return len(self._processing)

    @property
    def delayed(self) -> int:
        return len(self._delayed)

    def add(self, key: K, now: float) -> None:
        if key in self._dirty:
            return
        self._dirty[key] = now
        if key not in self._processing:
            self._ready.append(key)
            self._meter.added(len(self._ready))

    def add_listed(self, key: K, now: float) -> None:
        """Add a key that is there, though no event named it; see EventsFirst."""
        self.add(key, now)

    def add_after(self, key: K, delay: float, now: float) -> None:
        """delay <= 0 is now. An earlier time already set for this key stands."""
        if delay <= 0:
            self.add(key, now)
            return
        self._meter.retried()
        due = now + delay
        known = self._delayed.get(key)
        if known is None or due < known:
            self._delayed[key] = due
            self._pushed += 1
            heapq.heappush(self._heap, (due, self._pushed, key))

    def add_rate_limited(self, key: K, now: float) -> float:
        """Add it after its backoff, and count the failure. Returns the delay in seconds.

        Differs: one that failed before its backoff was over, as something changed meanwhile, keeps that backoff, and is
        not counted. A burst of changes while the server returns only errors is no reason to wait for minutes.
        """
        rest = self._backoffs.get(key, now) - now
        if rest > 0:
            self.add_after(key, rest, now)
            return rest
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._per_key.delay(failures, self._chance())
        if not self._bucket.try_take(now):
            delay = max(delay, self._bucket.next_token(now) - now)
        self._backoffs[key] = now + delay
        self.add_after(key, delay, now)
        return delay

    def forget(self, key: K) -> None:
        """It went well: its next failure is its first."""
        self._failures.pop(key, None)
        self._backoffs.pop(key, None)

    def give_up(self, key: K) -> None:
        """Not to be tried again before its next event, which starts over."""
        self.forget(key)
        self._meter.given_up()

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def take(self, now: float) -> K | None:
        """The next key, to be given back by done(); None when there is nothing to do now."""
        if self._heap and self._heap[0][0] <= now:
            self._release(now)
        if not self._ready:
            return None
        key = self._ready.popleft()
        since = self._dirty.pop(key)
        self._processing[key] = now
        self._meter.taken(len(self._ready), now - since)
        return key

    def done(self, key: K, now: float) -> None:
        self._meter.finished(now - self._processing.pop(key))
        if key in self._dirty:
            self._ready.append(key)
            self._meter.added(len(self._ready))

    def next_due(self) -> float | None:
        """When the next delayed key is due; None if none is."""
        while self._heap and self._delayed.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pending(self) -> dict[K, Pending]:
        """Return the state of every key that is queued, delayed or in work."""
        keys = dict.fromkeys([*self._dirty, *self._delayed, *self._processing])
        return {key: Pending(self._dirty.get(key), self._delayed.get(key), self._processing.get(key)) for key in keys}

    def oldest(self) -> tuple[K, float] | None:
        """The key that has been in work for longest, and since when."""
        return next(iter(self._processing.items())) if self._processing else None

    # These two are also read from other threads, for the metrics.

    def longest_running(self, now: float) -> float:
        """Seconds that the oldest key in work has been in work. May be asked from any thread, as unfinished() may."""
        return max((now - since for since in list(self._processing.values())), default=0.0)

    def unfinished(self, now: float) -> float:
        """Seconds of work in keys that are in work."""
        return sum(now - since for since in list(self._processing.values()))

    def _release(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            *_, key = heapq.heappop(self._heap)
            del self._delayed[key]
            self._due(key, now)

    def _due(self, key: K, now: float) -> None:
        self.add(key, now)
