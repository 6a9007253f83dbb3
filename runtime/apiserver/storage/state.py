"""The newest version of every object, and the order in which writes become visible to watchers.

A write is staged (the next request already builds on it), handed to the store together with all other writes of its
request, and published once it is durable. A request that fails in between is rolled back, with all that it staged.
A response, also of a read, is sent after `when_durable`: else a client could learn a resourceVersion that a crash takes
back and that another write then gets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.objects import Key, Object, decode_object, encode_to_keep, labels_of
from kcm.runtime.apiserver.storage.callbacks import call_all
from kcm.runtime.apiserver.storage.sizes import MOST_STORED, TooLargeError, check_size
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, Store, StoreChange, Stored, StoreUnusableError

Publish = Callable[[Sequence[StoreChange]], None]


class StoredObject(NamedTuple):
    """An object as it is stored now. labels: kept decoded, since most lists select by them."""

    raw: bytes
    revision: int
    labels: Mapping[str, str]


IDENTITY = ("name", "generateName", "namespace", "uid")  # of an object's metadata


@bounded_cache(256, longest=16 * 1024)
def to_read(raw: bytes) -> Object:
    """A stored object, decoded, for who does not change it: what most requests look at (accounts, classes) is decoded
    once for all of them."""
    return decode_object(raw)


class Collection:
    """All objects of one resource, in the order of their keys."""

    def __init__(self) -> None:
        self.records: dict[Key, StoredObject] = {}
        self._keys: list[Key] = []

    def get(self, key: Key) -> StoredObject | None:
        return self.records.get(key)

    def put(self, key: Key, record: StoredObject) -> None:
        if key not in self.records:
            insort(self._keys, key)
        self.records[key] = record

    def remove(self, key: Key) -> None:
        del self.records[key]
        del self._keys[bisect_left(self._keys, key)]

    def keys(self, namespace: str = "", *, start: Key = "") -> Sequence[Key]:
        """Keys of a namespace ("" for all), from start on, in order."""
        prefix = f"{namespace}/" if namespace else ""
        first = bisect_left(self._keys, max(prefix, start))
        # "0" follows "/", so this is the first key behind all that begin with the prefix.
        last = bisect_left(self._keys, f"{namespace}0") if namespace else len(self._keys)
        return self._keys[first:last]

    def raw_objects(self) -> list[bytes]:
        return [self.records[key].raw for key in self._keys]

    def __len__(self) -> int:
        return len(self.records)


class State:
    """Collections by storage name; the only place that increments the revision."""

    def __init__(self, store: Store, publish: Publish) -> None:
        self._store, self._publish = store, publish
        self._collections: defaultdict[str, Collection] = defaultdict(Collection)
        self.revision = self.durable = store.revision()
        self.staged: list[StoreChange] = []  # by the request that is being handled
        self._unpublished: deque[StoreChange] = deque()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        for stored in store.load():
            labels = _labels_of(stored)
            self.collection(stored.storage).put(stored.key, StoredObject(stored.raw, stored.revision, labels))

    def collection(self, storage: str) -> Collection:
        return self._collections[storage]

    def collections(self) -> Iterator[tuple[str, Collection]]:
        return iter(list(self._collections.items()))

    def get(self, storage: str, key: Key) -> StoredObject | None:
        return self._collections[storage].records.get(key)

    def objects(self, storage: str) -> Iterator[Object]:
        """All objects of a collection, decoded, in the order of their keys."""
        return map(decode_object, self.collection(storage).raw_objects())

    def put(self, storage: str, key: Key, obj: Object) -> bytes:
        """Stage a create or update. Sets obj's resourceVersion; returns its encoding, which all clients get.

        Raises TooLargeError.
        """
        collection = self.collection(storage)
        before = collection.records.get(key)
        raw = self._encode(obj)
        if len(raw) > MOST_STORED:
            self._check_size(obj, raw)
        collection.put(key, StoredObject(raw, self.revision, _shared_labels(obj)))
        type_, previous = (ADDED, b"") if before is None else (MODIFIED, before.raw)
        self.staged.append(StoreChange(type_, storage, key, self.revision, raw, previous))
        return raw

    def remove(self, storage: str, key: Key, obj: Object) -> bytes:
        """Stage a deletion. obj: the object's last state; its resourceVersion becomes the deletion's."""
        collection = self.collection(storage)
        previous = collection.records[key].raw
        raw = self._encode(obj)
        collection.remove(key)
        self.staged.append(StoreChange(DELETED, storage, key, self.revision, raw, previous))
        return raw

    def _check_size(self, obj: Object, raw: bytes) -> None:
        try:
            check_size(obj, raw)
        except TooLargeError:
            self.revision -= 1  # it was not used
            raise

    def _encode(self, obj: Object) -> bytes:
        meta = obj["metadata"]
        if "resourceVersion" in meta:
            meta["resourceVersion"] = str(self.revision + 1)
        else:
            _identify(meta, self.revision + 1)
        raw = encode_to_keep(obj)
        self.revision += 1
        return raw

    def roll_back(self) -> list[StoreChange]:
        """Undo all changes that were staged since the last commit; returns them, newest first."""
        changes, self.staged = self.staged[::-1], []
        for change in changes:
            collection = self.collection(change.storage)
            if change.type == ADDED:
                collection.remove(change.key)
            else:
                before = decode_object(change.previous)
                revision = int(before["metadata"]["resourceVersion"])
                collection.put(change.key, StoredObject(change.previous, revision, _shared_labels(before)))
        if changes:
            self.revision = changes[-1].revision - 1
        while self._waiting and self._waiting[-1][0] > self.revision:
            self._waiting.pop()
        return changes

    def take_back(self) -> list[StoreChange]:
        """Undo all changes that are not durable and never will be; returns them, newest first. Who waits for them to be
        durable is not called back. Not within a request."""
        self.staged = list(self._unpublished)
        self._unpublished.clear()
        return self.roll_back()

    def commit(self) -> None:
        """Hand all changes that were staged since the last call to the store, as one commit."""
        changes, self.staged = self.staged, []
        if changes:
            self._unpublished.extend(changes)
            self._store.commit(changes, lambda: self._became_durable(changes[-1].revision))

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back once all changes staged until now are durable and published: at once if they are."""
        if self.revision <= self.durable:
            callback()
        else:
            self._waiting.append((self.revision, callback))

    def unpublished(self, storage: str) -> list[StoreChange]:
        """Changes of a collection that are not published yet, oldest first."""
        return [change for change in (*self._unpublished, *self.staged) if change.storage == storage]

    def _became_durable(self, revision: int) -> None:
        changes = []
        while self._unpublished and self._unpublished[0].revision <= revision:
            changes.append(self._unpublished.popleft())
        self.durable = revision
        due: list[Callable[[], None]] = [partial(self._publish, changes)]
        while self._waiting and self._waiting[0][0] <= revision:
            due.append(self._waiting.popleft()[1])
        call_all(due)


def _identify(meta: Object, revision: int) -> None:
    """Set the resourceVersion, and have what identifies the object first, as kube-apiserver writes it.

    Clients that look for the resourceVersion need not read the object then (protocols/versions.py).
    """
    rest = meta.copy()
    meta.clear()
    for field in IDENTITY:
        if field in rest:
            meta[field] = rest.pop(field)
    meta["resourceVersion"] = str(revision)
    meta.update(rest)


def _shared_labels(obj: Object) -> Mapping[str, str]:
    return _labels(tuple(labels_of(obj).items()))


@bounded_cache(1024, longest=64)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return labels that objects share: all pods of a template have the same labels."""
    return dict(items)


def _labels_of(stored: Stored) -> Mapping[str, str]:
    """Return the labels of a stored object. Raises StoreUnusableError if it is malformed."""
    try:
        return _shared_labels(decode_object(stored.raw))
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise StoreUnusableError(f"the stored object {stored.storage} {stored.key} cannot be read: {err}") from err
