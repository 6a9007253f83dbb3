"""Which keys a change concerns: how a controller says what it watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, replace
from typing import Generic, Self, TypeVar

from kcm.actors.options import Options
from kcm.protocols.arguments import check_type
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.watches import EVERYTHING, EventType, Interest, WatchEvent
from kcm.protocols.objects import Key, Object, OwnerRef, decode_object, make_key, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.selection import WHOLE, Selection, read_selection
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

Namespaces = tuple[str, ...] | Callable[[Options], Iterable[str] | None] | None
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

    def of_metadata(self) -> Change:
        """As a watch of metadata alone sees it."""
        return _MetadataChange(
            type=self.type,
            key=self.key,
            raw=self._raw,
            controller=self.controller,
            previous=self._previous,
            previous_controller=self.previous_controller,
        )

    @property
    def namespace(self) -> str:
        return split_key(self.key)[0]

    @property
    def new(self) -> Object:
        """After the change; for DELETED the last that was known."""
        if self._new is None:
            self._new = self._decoded(self._raw)
        return self._new

    @property
    def old(self) -> Object | None:
        """Before the change; None for ADDED."""
        if self._old is None and self._previous:
            self._old = self._decoded(self._previous)
        return self._old

    @property
    def deleted(self) -> bool:
        return self.type == EventType.DELETED

    def _decoded(self, raw: bytes) -> Object:
        return decode_object(raw)


class _MetadataChange(Change):
    __slots__ = ()

    def _decoded(self, raw: bytes) -> Object:
        return {"metadata": decode_object(raw)["metadata"]}


@dataclass(frozen=True, slots=True)
class Selecting:
    """Which objects of a resource there are for a controller, and for its lister.

    An object that enters is ADDED, one that leaves is DELETED. Nothing else is asked of the server, unless another
    controller needs more: then one table serves both, and each sees what it asked for.
    labels, fields: selectors, as in `kubectl get -l app=web --field-selector=metadata.name=x`.
    namespaces: a tuple, or a function of the options that returns some; None is all.
    metadata_only: of each object its metadata; it has no facts.
    """

    resource: Resource
    _: KW_ONLY
    labels: str = ""
    fields: str = ""
    namespaces: Namespaces = None
    metadata_only: bool = False

    def __post_init__(self) -> None:
        """Raises TypeError on a resource that is none; TypeError or ValueError on selectors and namespaces that are
        none.
        """
        if not isinstance(self.resource, Resource):
            raise TypeError(f"a {type(self).__name__.lower()} is of a Resource, not of {self.resource!r}")
        if not callable(self.namespaces):
            _ = self.selection
        elif not self.resource.namespaced:
            raise ValueError(f"{self.resource} are in no namespace, and namespaces of a watch are given")

    @property
    def is_restricted(self) -> bool:
        """Whether it selects less than all of every object."""
        return bool(self.labels or self.fields or self.metadata_only or self.namespaces is not None)

    @property
    def selection(self) -> Selection:
        """Raises TypeError while its namespaces are a function."""
        if not self.is_restricted:
            return WHOLE
        if callable(self.namespaces):
            raise TypeError(f"namespaces of a watch of {self.resource} depend on options")
        return read_selection(
            self.resource,
            labels=self.labels,
            fields=self.fields,
            namespaces=self.namespaces,
            metadata_only=self.metadata_only,
        )

    def resolved(self, options: Options) -> Self:
        """With its namespaces as these options have them. Raises TypeError or ValueError on what are none."""
        if not callable(self.namespaces):
            return self
        found = self.namespaces(options)
        if isinstance(found, str):
            raise TypeError(f"namespaces of a watch of {self.resource}: expected some or None, got the text {found!r}")
        return replace(self, namespaces=None if found is None else tuple(found))


@dataclass(frozen=True, slots=True)
class Read(Selecting):
    """A resource that a controller reads without being woken by it."""


@dataclass(frozen=True, slots=True)
class Watch(Selecting, Generic[K_co]):
    """Which keys, of type K_co, a change of this resource concerns; the objects are selected as in Selecting.

    `to` runs for every change that meets the interest: it must be cheap and must not raise on a malformed object (if it
    does, that change is reported and skipped). interest: decided by the informer, for all watches at once; a change
    that does not meet it costs this controller nothing. It may let through more than `to` needs, never less.
    """

    to: Callable[[Change, Tables], Iterable[K_co]]
    interest: Interest = EVERYTHING

    def __post_init__(self) -> None:
        """Raises TypeError on a `to` that cannot be called, and as Selecting."""
        Selecting.__post_init__(self)
        if not callable(self.to):
            raise TypeError(f"watch of {self.resource}: to is a function, not {self.to!r}")
        check_type(f"interest of the watch of {self.resource}", self.interest, Interest, "an Interest")

    @property
    def is_of_owners(self) -> bool:
        """Whether its keys depend on the object's owner alone."""
        return isinstance(self.to, ItsController)


def itself(change: Change, _tables: Tables) -> Iterable[Key]:
    """The changed object's own key."""
    return (change.key,)


class ItsController:
    """See its_controller."""

    def __init__(self, owners: Resource, *, or_successor: bool = False) -> None:
        self._owners, self._or_successor = owners, or_successor

    def __call__(self, change: Change, tables: Tables) -> Iterable[Key]:
        namespace = change.namespace if self._owners.namespaced else ""
        lister = tables[self._owners]
        before, after = change.previous_controller, change.controller
        for owner in (after,) if before == after else (before, after):
            if owner is not None and owner.kind == self._owners.kind:
                key = make_key(namespace, owner.name)
                entry = lister.entry(key)
                if entry is None or entry.uid == owner.uid or self._or_successor:
                    yield key


def its_controller(owners: Resource, *, or_successor: bool = False) -> Callable[[Change, Tables], Iterable[Key]]:
    """The key of the controller that owns the changed object, now or (if that changed) before.

    By kind, as upstream's resolveControllerRef; the uid is compared with the owner that the table shows, so that a
    namesake is not woken for a stranger's dependents.

    or_successor: do not compare the uid. An owner that was deleted and created again under its name is then woken by
    the dependents of its predecessor too. It needs that if it waits, without a retry, for a name that one of them
    still has (TerminalError, Queue.terminal).

    Raises TypeError if `owners` is not a Resource.
    """
    check_type("its_controller", owners, Resource, "the Resource of the owners")
    return ItsController(owners, or_successor=or_successor)
