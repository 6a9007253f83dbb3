"""The newest version of every object, and the order in which watches receive writes.

A write is staged, so that the next request already sees it; then it is handed to the store together with all other
writes of its request; and it is published to watches once it is durable. If a request fails in between, everything that
it staged is rolled back.

Every response, also to a read, is sent through `when_durable`. Otherwise a client could receive a resourceVersion that
is lost in a crash and then used for another write.
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
    """Newest version of an object. Labels are kept decoded because most lists select by them."""

    raw: bytes
    revision: int
    labels: Mapping[str, str]


IDENTITY = ("name", "generateName", "namespace", "uid")  # fields of an object's metadata that identify the object


@bounded_cache(256, longest=16 * 1024)
def to_read(raw: bytes) -> Object:
    """Decode a stored object for reading only: the result is cached and shared, so callers must not modify it.

    Most requests read the same few objects (service accounts, classes), which are decoded once.
    """
    return decode_object(raw)


class Collection:
    """All objects of one resource, ordered by key."""

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
        """Return the keys of a namespace ("" for all namespaces) in order, beginning with `start`."""
        prefix = f"{namespace}/" if namespace else ""
        first = bisect_left(self._keys, max(prefix, start))
        # "0" follows "/" in ASCII, so this is the position after the last key that begins with the prefix.
        last = bisect_left(self._keys, f"{namespace}0") if namespace else len(self._keys)
        return self._keys[first:last]

    def raw_objects(self) -> list[bytes]:
        return [self.records[key].raw for key in self._keys]

    def __len__(self) -> int:
        return len(self.records)


class State:
    """Collections of objects by storage name. Only this class increments the revision."""

    def __init__(self, store: Store, publish: Publish) -> None:
        self._store, self._publish = store, publish
        self._collections: defaultdict[str, Collection] = defaultdict(Collection)
        self.revision = self.durable = store.revision()
        self.staged: list[StoreChange] = []  # by the request that is currently handled
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
        """Decode all objects of a collection, ordered by key."""
        return map(decode_object, self.collection(storage).raw_objects())

    def put(self, storage: str, key: Key, obj: Object) -> bytes:
        """Stage a create or an update.

        Set obj's resourceVersion, and return the object's JSON, which all clients receive.

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
        """Stage a deletion, and return the JSON of the object's last state.

        obj: the object's last state; its resourceVersion is set to the revision of the deletion
        """
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
            self.revision -= 1  # this revision was not used
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
        """Undo all changes that were staged since the last commit, and return them, newest first."""
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

    def discard_pending(self) -> list[StoreChange]:
        """Undo all changes that the store refused, and return them, newest first.

        Callbacks of `when_durable` that wait for these changes are never called. Must not be called within a request.
        """
        self.staged = list(self._unpublished)
        self._unpublished.clear()
        return self.roll_back()

    def commit(self) -> None:
        """Hand all changes that were staged since the last call to the store as one commit."""
        changes, self.staged = self.staged, []
        if changes:
            self._unpublished.extend(changes)
            self._store.commit(changes, lambda: self._became_durable(changes[-1].revision))

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back once all changes staged until now are durable and published.

        Call back at once if they are already.
        """
        if self.revision <= self.durable:
            callback()
        else:
            self._waiting.append((self.revision, callback))

    def unpublished(self, storage: str) -> list[StoreChange]:
        """Return the changes of a collection that are not published yet, oldest first."""
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
    """Set the resourceVersion, and order name, generateName, namespace, uid and resourceVersion first in the metadata.

    Clients that look for the resourceVersion then need not parse the whole object (protocols/versions.py).
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
    """Return a dictionary that objects with equal labels share, as all pods of a template do."""
    return dict(items)


def _labels_of(stored: Stored) -> Mapping[str, str]:
    """Return the labels of a stored object. Raises StoreUnusableError if it is malformed."""
    try:
        return _shared_labels(decode_object(stored.raw))
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise StoreUnusableError(f"the stored object {stored.storage} {stored.key} cannot be read: {err}") from err
