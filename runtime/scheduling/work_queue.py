"""Work queue of a controller, with one entry per key.

Not thread-safe: it belongs to one actor, which passes the time. It behaves like client-go's util/workqueue: a key is
processed once at a time; if it is added during processing, it is queued once afterwards; of several delayed adds the
earliest counts.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.key_orders import PriorityQueue, RoundRobinQueue
from kcm.runtime.scheduling.limiters import TokenBucket

PER_KEY = Backoff(first=0.005, factor=2.0, most=1000.0)

K = TypeVar("K", bound=Hashable)


class Busy(Protocol):
    """Source of processing times. Both methods are called from any thread, with the monotonic time."""

    def longest_running(self, now: float) -> float: ...

    def unfinished(self, now: float) -> float: ...


class QueueMeter:
    """Metrics of a queue; the default discards them. Times are in seconds."""

    def follow(self, queue: Busy, clock: Clock) -> None:
        """Read processing times from this queue, with the time of this clock."""

    def ended(self) -> None:
        """Record that the queue is no longer served: it contains nothing, and nothing is in processing."""

    def added(self, depth: int) -> None:
        """Record a key that was added and was not queued. depth: queued keys."""

    def taken(self, depth: int, waited: float) -> None:
        """Record a key that was taken after `waited` seconds."""

    def finished(self, worked: float) -> None:
        """Record a key that was processed in `worked` seconds."""

    def retried(self) -> None:
        """Record a key that was added with a delay."""

    def given_up(self) -> None:
        """Record a failed key that is not retried before its next event."""


class Pending(NamedTuple):
    """State of one key in a queue, as times passed to the queue; None if the key is not in that state.

    queued: start of waiting.
    due: end of the delay.
    taken: start of processing.
    """

    queued: float | None
    due: float | None
    taken: float | None


NOT_PENDING = Pending(None, None, None)


class WorkQueue(Generic[K]):
    """Counterpart of client-go's TypedRateLimitingInterface, without threads.

    per_key: backoff of a key that fails repeatedly.
    qps, burst: rate limit of the retries of all keys.
    turn_of: group of a key, for round robin between groups.
    priority_of: priority of a key, at the time when it is added; keys of higher priority are handed out first.

    Without either, keys are handed out in the order of their addition.
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
        priority_of: Callable[[K], float] | None = None,
    ) -> None:
        self._meter = meter if meter is not None else QueueMeter()
        self._per_key, self._chance = per_key, chance
        self._bucket = TokenBucket(qps=qps, burst=burst, now=now)
        # Keys to hand out; each is in _dirty, and not in _processing.
        self._ready: deque[K] | RoundRobinQueue[K] | PriorityQueue[K] = deque()
        if turn_of is not None:
            self._ready = RoundRobinQueue(turn_of)
        elif priority_of is not None:
            self._ready = PriorityQueue(priority_of)
        self._dirty: dict[K, float] = {}  # keys to process, since when
        self._processing: dict[K, float] = {}  # since when; a key that is also dirty is queued after done
        self._delayed: dict[K, float] = {}  # delayed keys, until when; the heap may contain outdated times
        self._heap: list[tuple[float, int, K]] = []  # the number orders equal times
        self._pushed = 0
        self._failures: dict[K, int] = {}
        self._backoffs: dict[K, float] = {}  # failed keys, until when

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
        """Add a key of a list or resync, without an event; see EventsFirst."""
        self.add(key, now)

    def add_after(self, key: K, delay: float, now: float) -> None:
        """Add the key after `delay` seconds, or at once if that is 0 or less. An earlier pending time is kept."""
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
        """Add the key after its backoff, count the failure, and return the delay in seconds.

        Difference from upstream: if the key failed within its backoff, because an event had added it, the backoff is
        kept and the failure is not counted. Otherwise a burst of events during an outage causes a delay of minutes.
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
        """Reset the failures and the backoff of a key that succeeded."""
        self._failures.pop(key, None)
        self._backoffs.pop(key, None)

    def give_up(self, key: K) -> None:
        """Do not retry the key before its next event, and reset its failures."""
        self.forget(key)
        self._meter.given_up()

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def take(self, now: float) -> K | None:
        """Return the next key, to be passed to done() later, or None if no key is due."""
        if self._heap and self._heap[0][0] <= now:
            self._release(now)
        if not self._ready:
            return None
        key = self._ready.popleft()
        since = self._dirty.pop(key)
        self._processing[key] = now
        self._meter.taken(len(self._ready), max(0.0, now - since))  # `now` may be a moment before the addition
        return key

    def done(self, key: K, now: float) -> None:
        self._meter.finished(now - self._processing.pop(key))
        if key in self._dirty:
            self._ready.append(key)
            self._meter.added(len(self._ready))

    def next_due(self) -> float | None:
        """Return the time at which the next delayed key is due, or None."""
        while self._heap and self._delayed.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pending(self) -> dict[K, Pending]:
        """Return the state of every key that is queued, delayed or in work."""
        keys = dict.fromkeys([*self._dirty, *self._delayed, *self._processing])
        return {key: Pending(self._dirty.get(key), self._delayed.get(key), self._processing.get(key)) for key in keys}

    def state_of(self, key: K) -> Pending | None:
        """Return the state of a key, None if it is in none. Any thread."""
        state = Pending(self._dirty.get(key), self._delayed.get(key), self._processing.get(key))
        return None if state == NOT_PENDING else state

    # These are also read from other threads, for the metrics, the health checks and the pages of controllers.

    def oldest(self) -> tuple[K, float] | None:
        """Return the key that has been in processing for longest, and since when. Any thread."""
        try:
            return next(iter(self._processing.items()), None) if self._processing else None
        except RuntimeError:  # the owner changed the dict at this moment
            return None

    def oldest_waiting(self) -> tuple[K, float] | None:
        """Return the key that has waited for longest to be taken, and since when. Any thread.

        A key that waits for the end of its own processing does not count.
        """
        processing = self._processing
        while True:
            try:  # _dirty is in the order of addition
                return next(((key, since) for key, since in self._dirty.items() if key not in processing), None)
            except RuntimeError:  # the owner changed the dict at this moment
                continue

    def longest_running(self, now: float) -> float:
        """Return the seconds since the oldest key in processing was taken. Any thread."""
        return max((now - since for since in list(self._processing.values())), default=0.0)

    def unfinished(self, now: float) -> float:
        """Return the sum of the seconds since the keys in processing were taken. Any thread."""
        return sum(now - since for since in list(self._processing.values()))

    def _release(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            *_, key = heapq.heappop(self._heap)
            del self._delayed[key]
            self._due(key, now)

    def _due(self, key: K, now: float) -> None:
        self.add(key, now)
