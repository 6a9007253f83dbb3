"""Watches of a controller: which objects it sees, and which keys their changes enqueue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.options import Options
from kcm.protocols.arguments import check_each, check_number, check_text, check_type, one_of
from kcm.protocols.messages.watches import EVERYTHING, EventType, Interest, WatchEvent
from kcm.protocols.objects import Key, Object, OwnerRef, decode_object, make_key, split_key, uid_of
from kcm.protocols.resources import Resource
from kcm.runtime.tables.selection import WHOLE, Selection, read_selection
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

Namespaces = tuple[str, ...] | Callable[[Options], Iterable[str] | None] | None
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate")
K_co = TypeVar("K_co", covariant=True)


class Change:
    """Changed object as a `to` function sees it. Its states are decoded on first access.

    type: ADDED, MODIFIED or DELETED (EventType).
    raw: JSON after the change, or the entry that has it, which is decompressed only to be decoded.
    previous: JSON before the change, b"" for ADDED.
    controller, previous_controller: the controller owner reference after and before the change.
    is_replacement: the object was deleted, and created again, between two events; None if that is unknown.
    """

    __slots__ = (
        "_is_replacement",
        "_new",
        "_old",
        "_previous",
        "_raw",
        "controller",
        "key",
        "previous_controller",
        "type",
    )

    def __init__(
        self,
        *,
        type: str,
        key: Key,
        raw: bytes | Entry,
        controller: OwnerRef | None,
        previous: bytes = b"",
        previous_controller: OwnerRef | None = None,
        is_replacement: bool | None = None,
    ) -> None:
        self.type, self.key, self._is_replacement = type, key, is_replacement
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
            is_replacement=event.previous_uid not in ("", event.uid),
        )

    @classmethod
    def of_entry(cls, entry: Entry) -> Change:
        """Return the change of an object that exists when the controller starts: ADDED."""
        return cls(type=EventType.ADDED, key=entry.key, raw=entry, controller=entry.controller)

    def of_metadata(self) -> Change:
        """Return the change as a metadata-only watch sees it."""
        return _MetadataChange(
            type=self.type,
            key=self.key,
            raw=self._raw,
            controller=self.controller,
            previous=self._previous,
            previous_controller=self.previous_controller,
            is_replacement=self._is_replacement,
        )

    @property
    def namespace(self) -> str:
        return split_key(self.key)[0]

    @property
    def new(self) -> Object:
        """Return the object after the change; for DELETED its last known state."""
        if self._new is None:
            raw = self._raw
            self._new = self._decoded(raw if isinstance(raw, bytes) else raw.raw)
        return self._new

    @property
    def old(self) -> Object | None:
        """Return the object before the change; None for ADDED."""
        if self._old is None and self._previous:
            self._old = self._decoded(self._previous)
        return self._old

    @property
    def replaced(self) -> Object | None:
        """Return the object before the change if it was another one with the same name; otherwise None.

        The objects of an event are not decoded for this.
        """
        if self._is_replacement is None:
            old = self.old
            self._is_replacement = old is not None and uid_of(old) != uid_of(self.new)
        return self.old if self._is_replacement else None

    @property
    def deleted(self) -> bool:
        return self.type == EventType.DELETED

    def _decoded(self, raw: bytes) -> Object:
        return decode_object(raw)


class _MetadataChange(Change):
    __slots__ = ()

    def _decoded(self, raw: bytes) -> Object:
        return {"metadata": decode_object(raw)["metadata"]}


class _OfResource(Struct, frozen=True):
    resource: Resource


class Selecting(_OfResource, frozen=True, kw_only=True):
    """Selection of the objects of a resource that a controller and its lister see.

    An object that begins to match is ADDED, an object that no longer matches is DELETED. Only selected objects are
    requested from the server, unless another controller needs more: then both share a table, and each sees its own
    selection.

    labels, fields: selectors, as in `kubectl get -l app=web --field-selector=metadata.name=x`.
    namespaces: a tuple, or a function of the options that returns an iterable; None is all namespaces.
    metadata_only: see only the metadata of each object, without facts.
    """

    labels: str = ""
    fields: str = ""
    namespaces: Namespaces = None
    metadata_only: bool = False

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for an invalid resource, selector or namespace."""
        if not isinstance(self.resource, Resource):
            raise TypeError(f"a {type(self).__name__.lower()} is of a Resource, not of {self.resource!r}")
        if not callable(self.namespaces):
            _ = self.selection
        elif not self.resource.namespaced:
            raise ValueError(f"{self.resource} are in no namespace, and namespaces of a watch are given")

    @property
    def is_restricted(self) -> bool:
        """Report whether this selects less than every object in full."""
        return bool(self.labels or self.fields or self.metadata_only or self.namespaces is not None)

    @property
    def selection(self) -> Selection:
        """Return the selection. Raises TypeError while its namespaces are a function."""
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
        """Return a copy with the namespaces for these options. Raises TypeError or ValueError if they are invalid."""
        if not callable(self.namespaces):
            return self
        found = self.namespaces(options)
        if isinstance(found, str):
            raise TypeError(f"namespaces of a watch of {self.resource}: expected some or None, got the text {found!r}")
        return replace(self, namespaces=None if found is None else tuple(found))


class Read(Selecting, frozen=True):
    """Resource that a controller reads, but whose changes do not enqueue keys."""


class Permission(_OfResource, frozen=True):
    """Permission that a controller needs beside `list` and `watch` of its watches and reads.

    resource: the resource that the controller writes, or reads with get_live and list_live.
    verbs: of VERBS; "ensure" stands for get, create and patch, which the step `ensure` needs.
    subresource: "status" for patch_status; "" for the object itself.
    namespaces: None for those of the controller's watches and reads of the resource, or all without such watches.
    names: of the objects; empty for all. The API server cannot require a name of `create`.
    """

    verbs: tuple[str, ...]
    subresource: str = ""
    namespaces: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_type("a Permission", self.resource, Resource, "a Resource")
        what = f"verbs of the Permission of {self.resource}"
        check_each(what, self.verbs, _check_verb)
        if not self.verbs:
            raise ValueError(f"{what} are some of ensure, {', '.join(VERBS)}")
        check_text(f"subresource of the Permission of {self.resource}", self.subresource, may_be_empty=True)
        check_each(f"names of the Permission of {self.resource}", self.names, check_text)
        if self.names and {"create", "ensure"} & {*self.verbs}:
            raise ValueError(f"{what}: a creation cannot be permitted by name; declare two Permissions")
        if self.namespaces is not None:
            check_each(f"namespaces of the Permission of {self.resource}", self.namespaces, check_text)
            if not self.resource.namespaced:
                raise ValueError(f"{self.resource} are in no namespace, and namespaces of a Permission are given")


def _check_verb(what: str, given: object) -> None:
    one_of(what, given, ("ensure", *VERBS))


class DefinedResource(_OfResource, frozen=True):
    """Base of Definition (definitions.py), so that specs need not import that module."""


class Watch(Selecting, Generic[K_co], frozen=True):
    """Watch of a resource, whose changes enqueue keys of type K_co. The objects are selected as in Selecting.

    to: returns the keys of a change. It is called for every change that meets the interest, so it must be cheap. It
        should not raise for a malformed object; if it does, the change is logged and skipped.
    delay: seconds from a change until its keys are enqueued, so that one reconciliation follows many changes.
    interest: filter that the informer applies for all watches at once, so that other changes cost this controller
        nothing. It may pass more changes than `to` needs, never fewer.
    """

    to: Callable[[Change, Tables], Iterable[K_co]]
    interest: Interest = EVERYTHING
    delay: float | Callable[[Options], float] = 0.0

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type, and the errors of Selecting."""
        Selecting.__post_init__(self)
        if not callable(self.to):
            raise TypeError(f"watch of {self.resource}: to is a function, not {self.to!r}")
        check_type(f"interest of the watch of {self.resource}", self.interest, Interest, "an Interest")
        if not callable(self.delay):
            check_number(f"delay of the watch of {self.resource}", self.delay)

    def resolved(self, options: Options) -> Self:
        """Return a copy with the namespaces and the delay for these options, as Selecting.resolved."""
        watch = Selecting.resolved(self, options)
        return replace(watch, delay=self.delay(options)) if callable(self.delay) else watch

    @property
    def is_of_owners(self) -> bool:
        """Report whether `to` depends only on the object's owner, so that one object of each owner suffices."""
        return isinstance(self.to, ItsController)


def itself(change: Change, _tables: Tables) -> Iterable[Key]:
    """Return the key of the changed object itself."""
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
    """Return a `to` function that enqueues the controller that owns the changed object, now or before the change.

    The owner must have the kind of `owners` and, as in upstream's resolveControllerRef, the uid of the object in the
    table, so that an object with the same name is not enqueued for the dependents of another.

    or_successor: do not compare the uid. An owner that was deleted and created again is then also enqueued for the
        dependents of its predecessor. It needs that if it waits without a retry for a name that one of them still has
        (TerminalError, Queue.terminal).

    Raises TypeError if `owners` is not a Resource.
    """
    check_type("its_controller", owners, Resource, "the Resource of the owners")
    return ItsController(owners, or_successor=or_successor)
