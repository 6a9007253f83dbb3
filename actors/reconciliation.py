"""What a reconciler is, and the words it is written in.

    class Greeter:
        def __init__(self, *, tables: Tables) -> None:
            self._configmaps = tables[CONFIGMAPS]

        def reconcile(self, key: Key) -> Reconciliation:
            configmap = self._configmaps.get(key)
            if configmap is None:
                return None
            yield from must(patch(CONFIGMAPS, key, {"data": {"greeting": "hello"}}))
            return RequeueAfter(60.0)

`reconcile` is a generator. It yields a Command and is sent its Outcome; or a list of commands, which go together, and
is sent the list of their outcomes in the same order; or a Record (an event for people) or a Tell (a message to another
actor), which nobody waits for. It may be closed between any two yields and run again later: it looks at what is, never
at what happened. What it raises is logged, counted, and the key retried with backoff.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from protocols.messages.commands import Command, Create, Delete, Get, List, Patch, PatchType, Update
from protocols.messages.outcomes import CommandFailed, Done, Outcome
from protocols.messages.recording import Record
from protocols.messages.watching import EventType, WatchEvent
from protocols.objects import (
    Key,
    Object,
    OwnerRef,
    decode_object,
    encode_object,
    make_key,
    metadata,
    name_of,
    namespace_of,
    split_key,
)
from protocols.resources import Resource
from runtime.overlay import Tables
from runtime.table import Entry


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Returned by reconcile: done, and look again after so many seconds (an earlier event looks earlier)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Yielded: put a message into another actor's mailbox (a child's, or the manager's); nobody waits for it."""

    to: str
    message: Any


Yielded = Command | Record | Tell | Sequence[Command]
Reconciliation = Generator[Yielded, Any, RequeueAfter | None]
T = TypeVar("T")
Step = Generator[Yielded, Any, T]  # a part of a reconciliation that answers a T


class Reconciler(Protocol):
    """Drives one kind of key to its wished state."""

    def reconcile(self, key: Key) -> Reconciliation: ...


@runtime_checkable
class Listening(Protocol):
    """A reconciler that other actors talk to: its children, or the manager."""

    def hear(self, message: Any) -> Iterable[Key]:
        """A message for this controller that is not the driver's own business (also Restarted, for any peer).

        Answers the keys that it concerns. Raises TypeError on one that it has no business with.
        """


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
class Watch:
    """Which keys a change of this resource concerns. `to` runs for every event: it must be cheap and must not raise
    on a malformed object (if it does, that event is reported and skipped).
    """

    resource: Resource
    to: Callable[[Change, Tables], Iterable[Key]]


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


# Commands, as reconcilers write them.


def create(
    resource: Resource, obj: Mapping[str, Any], *, namespace: str | None = None, subresource: str = ""
) -> Create:
    """namespace: where the object does not say it itself. Raises ValueError where nobody says it and one is needed."""
    where = namespace_of(obj) if namespace is None else namespace
    if resource.namespaced and not where:
        raise ValueError(f"a {resource.kind} is made in a namespace, and none is given for {name_of(obj)!r}")
    return Create(resource.id, where, encode_object(obj), subresource=subresource)


def update(resource: Resource, obj: Mapping[str, Any], *, subresource: str = "") -> Update:
    meta = metadata(obj)
    return Update(
        resource.id, make_key(meta.get("namespace") or "", meta["name"]), encode_object(obj), subresource=subresource
    )


def patch(
    resource: Resource,
    key: Key,
    body: Mapping[str, Any] | Sequence[Any],
    *,
    patch_type: PatchType = PatchType.STRATEGIC,
    subresource: str = "",
) -> Patch:
    return Patch(resource.id, key, encode_object(body), patch_type, subresource)  # type: ignore[arg-type]


def delete(
    resource: Resource,
    key: Key,
    *,
    uid: str | None = None,
    grace_seconds: int | None = None,
    propagation: str | None = None,
) -> Delete:
    return Delete(resource.id, key, uid=uid, grace_seconds=grace_seconds, propagation=propagation)


def get_live(resource: Resource, key: Key) -> Get:
    return Get(resource.id, key)


def list_live(resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> List:
    return List(resource.id, namespace, label_selector, field_selector)


def record(
    resource: Resource, about: Mapping[str, Any], type: str, reason: str, message: str, *, field_path: str = ""
) -> Record:
    """An event about an object. type: "Normal" or "Warning"."""
    meta = metadata(about)
    return Record(
        resource.api_version,
        resource.kind,
        meta.get("namespace") or "",
        meta.get("name") or "",
        meta.get("uid") or "",
        meta.get("resourceVersion") or "",
        type,
        reason,
        message,
        field_path,
    )


# Steps of a reconciliation.


def perform(command: Command) -> Step[Outcome]:
    """One command, whatever its outcome."""
    outcome: Outcome = yield command
    return outcome


def together(commands: Sequence[Command]) -> Step[list[Outcome]]:
    """Many commands at once; their outcomes in the same order."""
    if not commands:
        return []
    outcomes: list[Outcome] = yield list(commands)
    return outcomes


def is_done(outcome: Outcome) -> bool:
    return isinstance(outcome, Done)


def must(command: Command, *, but: tuple[type[Outcome], ...] = ()) -> Step[Outcome]:
    """One command that has to succeed, `but` these outcomes are answered too. Raises CommandFailed on any other."""
    outcome: Outcome = yield command
    if isinstance(outcome, Done) or isinstance(outcome, but):  # noqa: SIM101 (mypy follows two, not one)
        return outcome
    raise CommandFailed(command, outcome)


def must_object(command: Command) -> Step[Object]:
    """The object that a command which has to succeed was answered with."""
    outcome = yield from must(command)
    assert isinstance(outcome, Done)
    return decode_object(outcome.body)


def slow_start(
    commands: Sequence[Command],
    *,
    initial: int = 1,
    succeeded: Callable[[Outcome], bool] = is_done,
    report: Callable[[Command, Outcome], Iterable[Record]] = lambda _command, _outcome: (),
) -> Step[list[Outcome]]:
    """Commands in batches of 1, 2, 4, …; a batch in which one did not succeed is the last.

    Answers the outcomes of those that were tried, in order: fewer than the commands if it stopped.
    report: called for each outcome in order, as soon as its batch is through; the events that it wants recorded.
    Source: kubernetes v1.36 pkg/controller/replicaset/replica_set.go, slowStartBatch.
    """
    outcomes: list[Outcome] = []
    size = initial
    while len(outcomes) < len(commands):
        tried = commands[len(outcomes) : len(outcomes) + size]
        batch = yield from together(tried)
        for command, outcome in zip(tried, batch, strict=True):
            yield from report(command, outcome)
        outcomes += batch
        if not all(succeeded(outcome) for outcome in batch):
            break
        size *= 2
    return outcomes
