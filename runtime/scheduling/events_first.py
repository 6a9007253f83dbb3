"""Work queue with priority for the keys of events over the keys of lists and resyncs."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from kcm.runtime.scheduling.work_queue import K, WorkQueue


class EventsFirst(WorkQueue[K]):
    """WorkQueue that hands out listed keys only if no other key is queued.

    A key stays listed through retries and delays, until an event adds it. controller-runtime's priority queue also
    gives the first list and resyncs a low priority.
    """

    def __init__(self, **settings: Any) -> None:
        """Create a queue with the settings of WorkQueue."""
        super().__init__(**settings)
        self._listed: set[K] = set()  # keys without an event since they were last processed
        self._last: OrderedDict[K, None] = OrderedDict()  # queued listed keys; the others are in _ready

    def __len__(self) -> int:
        return len(self._ready) + len(self._last)

    def add(self, key: K, now: float) -> None:
        if key in self._listed:
            self._listed.discard(key)
            if key in self._last:
                del self._last[key]
                self._ready.append(key)
                return
        super().add(key, now)

    def add_listed(self, key: K, now: float) -> None:
        if key in self._dirty:
            return
        if key not in self._listed and (key in self._processing or key in self._delayed):
            self.add(key, now)  # it was added by an event
            return
        self._listed.add(key)
        self._dirty[key] = now
        if key not in self._processing:
            self._wait(key)

    def take(self, now: float) -> K | None:
        if self._heap and self._heap[0][0] <= now:
            self._release(now)
        if self._ready:
            key = self._ready.popleft()
        elif self._last:
            key, _ = self._last.popitem(last=False)
        else:
            return None
        since = self._dirty.pop(key)
        self._processing[key] = now
        self._meter.taken(len(self), max(0.0, now - since))
        return key

    def done(self, key: K, now: float) -> None:
        if key not in self._listed:
            super().done(key, now)
            return
        self._meter.finished(now - self._processing.pop(key))
        if key in self._dirty:
            self._wait(key)
        elif key not in self._delayed:
            self._listed.discard(key)

    def _due(self, key: K, now: float) -> None:
        if key in self._listed:
            self.add_listed(key, now)
        else:
            self.add(key, now)

    def _wait(self, key: K) -> None:
        self._last[key] = None
        self._meter.added(len(self))
