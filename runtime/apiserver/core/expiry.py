"""Deletion of objects a certain time after their last write. Only events expire."""

from __future__ import annotations

from bisect import insort
from collections import deque

from kcm.protocols.objects import Key, Object, decode_object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange


class Expiry:
    """Remover of objects that have expired, for resources with a `ttl` in their Strategy.

    An object is removed by the first call of `tick` after its time to live. Each write restarts that time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._due: dict[str, deque[tuple[float, Key, int]]] = {}  # storage → (when, key, revision), soonest first
        now = cluster.clock.now()
        for definition in cluster.registry:
            ttl = definition.strategy.ttl
            if ttl is not None and definition.is_stored:
                records = cluster.state.collection(definition.storage).records
                known = [
                    (min(_last_written(decode_object(record.raw), now) + ttl, now + ttl), key, record.revision)
                    for key, record in records.items()
                ]
                self._due[definition.storage] = deque(sorted(known))

    def react(self, change: StoreChange) -> None:
        due = self._due.get(change.storage)
        definition = self._cluster.registry.of_storage(change.storage)
        if due is None or definition is None or definition.strategy.ttl is None or change.type == DELETED:
            return
        due.append((self._cluster.clock.now() + definition.strategy.ttl, change.key, change.revision))

    def undo(self, change: StoreChange) -> None:
        due = self._due.get(change.storage)
        if due is None:
            return
        if due and due[-1][1:] == (change.key, change.revision):
            due.pop()
        if change.type == DELETED:  # perhaps by `tick`, which has removed the entry
            self._reschedule(change.storage, change.key, decode_object(change.previous))

    def _reschedule(self, storage: str, key: Key, event: Object) -> None:
        """Schedule the removal of an event whose deletion was rolled back. A duplicate entry has no effect."""
        definition, now = self._cluster.registry.of_storage(storage), self._cluster.clock.now()
        ttl = definition.strategy.ttl if definition is not None else None
        if ttl is not None:
            when = min(_last_written(event, now) + ttl, now + ttl)
            insort(self._due[storage], (when, key, int(metadata(event)["resourceVersion"])))

    def is_due(self, now: float) -> bool:
        """Report whether an object has expired, so that `tick` would remove it. now: Unix time in seconds."""
        return any(due and due[0][0] <= now for due in self._due.values())

    def tick(self, now: float) -> None:
        for storage, due in self._due.items():
            while due and due[0][0] <= now:
                _, key, revision = due.popleft()
                record = self._cluster.state.get(storage, key)
                if record is not None and record.revision == revision:  # A written object has a newer entry.
                    self._cluster.state.remove(storage, key, decode_object(record.raw))


def _last_written(event: Object, now: float) -> float:
    """Return the time of an event's last write, from the first valid timestamp in it; `now` if there is none."""
    for text in (event.get("lastTimestamp"), event.get("eventTime"), metadata(event).get("creationTimestamp")):
        if text:
            try:
                return parse_time(text)
            except ValueError:
                continue
    return now
