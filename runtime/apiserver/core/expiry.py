"""Deletion of objects a certain time after their last write. Only events expire."""

from __future__ import annotations

from operator import itemgetter

from kcm.protocols.objects import Key, Object, decode_object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange


class Expiry:
    """Remover of objects that have expired, for resources with a `ttl` in their Strategy.

    An object is removed by the first call of `tick` after its time to live. Each write restarts that time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # storage → Unix time at which each stored object expires, soonest first
        self._due: dict[str, dict[Key, float]] = {}
        self._unsorted: set[str] = set()  # storages with a time that was restored after an undone write
        now = cluster.clock.now()
        for definition in cluster.registry:
            ttl = definition.strategy.ttl
            if ttl is not None and definition.is_stored:
                records = cluster.state.collection(definition.storage).records
                self._due[definition.storage] = {
                    key: _expiration(decode_object(record.raw), ttl, now) for key, record in records.items()
                }
                self._unsorted.add(definition.storage)

    def react(self, change: StoreChange) -> None:
        due, ttl = self._due.get(change.storage), self._ttl(change.storage)
        if due is None or ttl is None:
            return
        due.pop(change.key, None)  # the new time is the last one
        if change.type != DELETED:
            due[change.key] = self._cluster.clock.now() + ttl

    def undo(self, change: StoreChange) -> None:
        """Restore the time of an object: that of its last write according to the object, as after a restart."""
        due, ttl = self._due.get(change.storage), self._ttl(change.storage)
        if due is None or ttl is None:
            return
        if change.type == ADDED:
            due.pop(change.key, None)
        else:
            due[change.key] = _expiration(decode_object(change.previous), ttl, self._cluster.clock.now())
            self._unsorted.add(change.storage)

    def is_due(self, now: float) -> bool:
        """Report whether an object has expired, so that `tick` would remove it. now: Unix time in seconds."""
        return any(due and next(iter(due.values())) <= now for due in self._sorted().values())

    def tick(self, now: float) -> None:
        for storage, due in self._sorted().items():
            expired = []
            for key, when in due.items():
                if when > now:
                    break
                expired.append(key)
            for key in expired:
                del due[key]
                record = self._cluster.state.get(storage, key)
                if record is not None:
                    self._cluster.state.remove(storage, key, decode_object(record.raw))

    def _ttl(self, storage: str) -> float | None:
        definition = self._cluster.registry.of_storage(storage)
        return None if definition is None else definition.strategy.ttl

    def _sorted(self) -> dict[str, dict[Key, float]]:
        for storage in self._unsorted:
            self._due[storage] = dict(sorted(self._due[storage].items(), key=itemgetter(1)))
        self._unsorted.clear()
        return self._due


def _expiration(event: Object, ttl: float, now: float) -> float:
    """Return the time at which an event expires that was written by an earlier process, or whose write was undone."""
    return min(_last_written(event, now) + ttl, now + ttl)


def _last_written(event: Object, now: float) -> float:
    """Return the time of an event's last write, from the first valid timestamp in it; `now` if there is none."""
    for text in (event.get("lastTimestamp"), event.get("eventTime"), metadata(event).get("creationTimestamp")):
        if text:
            try:
                return parse_time(text)
            except ValueError:
                continue
    return now
