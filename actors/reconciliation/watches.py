"""Which keys a change concerns: how a controller says what it watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from protocols.messages.watching import EVERYTHING, EventType, Interest, WatchEvent
from protocols.objects import Key, Object, OwnerRef, decode_object, make_key, split_key
from protocols.resources import Resource
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

K_co = TypeVar("K_co", covariant=True)


class Change:
    """A changed object as a `to` function sees it: what is asked for is decoded, and nothing else.

    type: ADDED, MODIFIED or DELETED (EventType). controller, previous_controller: the controller owner reference after
    and before the change.
    """

    __slots__ = ("_new", "_old", "_previous", "_raw", "controller", "key", "previous_controller", "type")

    def __init__(
        self,
        *,
        type: str,
        key: Key,
        raw: bytes,
        controller: OwnerRef | None,
        previous: bytes = b"",
        previous_controller: OwnerRef | None = None,
    ) -> None:
        self.type, self.key = type, key
        self.controller, self.previous_controller = controller, previous_controller
        self._raw, self._previous = raw, previous
        self._new: Object | None = None
        self._old: Object | None = None

    @classmethod
    def of_event(cls, event: WatchEvent) -> Change:
        return cls(
            type=event.type,
            key=event.key,
            raw=event.object,
            controller=event.controller,
            previous=event.previous,
            previous_controller=event.previous_controller,
        )

    @classmethod
    def of_entry(cls, entry: Entry) -> Change:
        """An object that is there when the controller starts counts as ADDED."""
        return cls(type=EventType.ADDED, key=entry.key, raw=entry.raw, controller=entry.controller)

    @property
    def namespace(self) -> str:
        return split_key(self.key)[0]

    @property
    def new(self) -> Object:
        """After the change; for DELETED the last that was known."""
        if self._new is None:
            self._new = decode_object(self._raw)
        return self._new

    @property
    def old(self) -> Object | None:
        """Before the change; None for ADDED."""
        if self._old is None and self._previous:
            self._old = decode_object(self._previous)
        return self._old

    @property
    def deleted(self) -> bool:
        return self.type == EventType.DELETED


@dataclass(frozen=True, slots=True)
class Watch(Generic[K_co]):
    """Which keys, of type K_co, a change of this resource concerns.

    `to` runs for every change that meets the interest: it must be cheap and must not raise on a malformed object (if it
    does, that change is reported and skipped). interest: decided by the informer, for all watches at once; a change
    that does not meet it costs this controller nothing. It may let through more than `to` needs, never less.
    """

    resource: Resource
    to: Callable[[Change, Tables], Iterable[K_co]]
    interest: Interest = EVERYTHING

    def __post_init__(self) -> None:
        """Raises TypeError on a resource that is none, and a `to` that cannot be called."""
        if not isinstance(self.resource, Resource):
            raise TypeError(f"a watch is of a Resource, not of {self.resource!r}")
        if not callable(self.to):
            raise TypeError(f"watch of {self.resource}: to is a function, not {self.to!r}")


def itself(change: Change, _tables: Tables) -> Iterable[Key]:
    """The changed object's own key."""
    return (change.key,)


def its_controller(owners: Resource) -> Callable[[Change, Tables], Iterable[Key]]:
    """The key of the controller that owns the changed object, now or (if that changed) before.

    By kind, as upstream's resolveControllerRef; the uid is compared with the owner that the table shows, so that a
    namesake is not woken for a stranger's dependents.
    """

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        namespace = change.namespace if owners.namespaced else ""
        lister = tables[owners]
        before, after = change.previous_controller, change.controller
        for owner in (after,) if before == after else (before, after):
            if owner is not None and owner.kind == owners.kind:
                key = make_key(namespace, owner.name)
                entry = lister.entry(key)
                if entry is None or entry.uid == owner.uid:
                    yield key

    return keys
