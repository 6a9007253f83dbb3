"""Drive a reconciler by hand: no actor, no thread, no server.

    bench = Bench({REPLICASETS: [replica_set(...)], PODS: [pod(...)]})
    reconciler = ReplicaSetReconciler(tables=bench.tables, clock=bench.clock, ...)
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables)
    assert deleted_keys(driven) == ["default/web-1"]

`drive` does what the actor around a reconciler does: it answers commands, and puts what was done into the overlay
before the reconciler goes on. The tables themselves stay as they are until the test says `bench.show(...)`: that is a
watch which is late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.engine.controller.own_writes import remember
from actors.reconciliation import Reconciler, RequeueAfter
from actors.reconciliation.derived import NODE, node_of
from protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from protocols.messages.outcomes import Done, Forbidden, NotFound, Outcome
from protocols.messages.recording import Record
from protocols.objects import Key, Object, decode_object, encode_object, make_key, name_of
from protocols.pods import pod_facts
from protocols.resources import PODS, Resource
from protocols.times import format_time
from runtime.apiserver.schema.merge_schemas import merge_schema_of
from runtime.apiserver.schema.strategic_merge import apply_strategic_merge
from runtime.tables.overlay import Tables
from runtime.tables.table import Table, TableWriter

Answer = Callable[[Command], Outcome]
NOW = 1_800_000_000.0


@dataclass
class StillClock:
    """A clock that moves when the test says so: both of its times at once."""

    wall: float = NOW
    uptime: float = 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.uptime

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.uptime += seconds

    def call_at(self, who: str, when: float, what: Callable[[], None]) -> None:
        raise AssertionError("a reconciler sets no alarms")

    def cancel(self, who: str) -> None:
        raise AssertionError("a reconciler sets no alarms")


class Frozen(dict):
    """A decoded object that fails whoever changes it, at any depth."""

    def __init__(self, obj: Mapping[str, Any]) -> None:
        super().__init__({key: frozen(value) for key, value in obj.items()})

    def _refuse(self, *_arguments: Any, **_named: Any) -> Any:
        raise AssertionError("an object of a table was changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenList(list):
    def _refuse(self, *_arguments: Any, **_named: Any) -> Any:
        raise AssertionError("a list in an object of a table was changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return Frozen(value)
    if isinstance(value, list):
        return FrozenList(map(frozen, value))
    return value


class Bench:
    """Tables made of objects, and a server that says yes.

    objects: every resource that the reconciler watches, with what there is of it. What has no resourceVersion or uid
    gets one. Pods get their facts.
    """

    def __init__(self, objects: Mapping[Resource, Iterable[Object]]) -> None:
        self.clock = StillClock()
        self._version = 100
        self._by_id = {
            resource.id: Table(
                resource,
                derive=pod_facts if resource == PODS else None,
                indexes={NODE: node_of} if resource == PODS else None,
                freeze=Frozen,
            )
            for resource in objects
        }
        self._writers: dict[str, TableWriter] = {}
        for resource, some in objects.items():
            table = self._by_id[resource.id]
            self._writers[resource.id] = table.claim()
            self._writers[resource.id].replace([self._entry(table, obj) for obj in some], self._version)
        for writer in self._writers.values():
            writer.advance(self._version)
        self.tables = Tables(self._by_id)

    def forget_writes(self) -> None:
        """As after a crash: nobody remembers what was written and not yet seen. `tables` are new ones."""
        self.tables = Tables(self._by_id)

    def show(self, resource: Resource, obj: Object) -> None:
        """The watch brings this object; it is given a newer version if it has none of its own."""
        entry = self._entry(self._by_id[resource.id], obj)
        self._writers[resource.id].put(entry)
        self._writers[resource.id].advance(entry.resource_version)

    def hide(self, resource: Resource, key: Key) -> None:
        """The watch says that this object is gone."""
        self._writers[resource.id].remove(key)
        self._version += 1
        self._writers[resource.id].advance(self._version)

    def catch_up(self) -> None:
        """The watches bring all that the reconciler has written."""
        for resource_id, overlay in self.tables.overlays().items():
            self._version += 1
            self._writers[resource_id].replace(overlay.entries(), self._version)
            overlay.prune()

    def accept(self, command: Command) -> Outcome:
        """What a server answers that has no objections."""
        match command:
            case Create(subresource="binding"):
                return Done(_SUCCESS)
            case Create(_, namespace, body):
                obj = decode_object(body)
                self._version += 1
                obj["metadata"] = {
                    "uid": f"uid-{self._version}",
                    "resourceVersion": str(self._version),
                    "creationTimestamp": format_time(self.clock.now()),
                    "namespace": namespace,
                    **obj["metadata"],
                }
                return Done(encode_object(obj))
            case Update(_, _, body):
                return Done(encode_object(self._newer(decode_object(body))))
            case Patch(resource, key, body):
                known = self._known(resource, key)
                if known is None:
                    return NotFound(f'"{key}" not found')
                schema = merge_schema_of(self._by_id[resource].resource.kind)
                patched = apply_strategic_merge(known, decode_object(body), schema=schema)
                return Done(encode_object(self._newer(patched)))
            case Delete(resource, key):
                return NotFound(f'"{key}" not found') if self._known(resource, key) is None else Done(_SUCCESS)
            case Get(resource, key):
                known = self._known(resource, key)
                return NotFound(f'"{key}" not found') if known is None else Done(encode_object(known))
            case _:
                raise AssertionError(f"no answer to {command!r}")

    def _known(self, resource_id: str, key: Key) -> Object | None:
        overlay = self.tables.overlay(resource_id)
        assert overlay is not None, f"{resource_id} is not among the tables"
        entry = overlay.get(key)
        return None if entry is None else decode_object(entry.raw)

    def _newer(self, obj: Object) -> Object:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _entry(self, table: Table, obj: Object) -> Any:
        self._version += 1
        meta = {"uid": f"uid-of-{name_of(obj)}", "resourceVersion": str(self._version), **obj["metadata"]}
        whole = {**obj, "metadata": meta}
        return table.make_entry(whole, encode_object(whole))


_SUCCESS = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'


@dataclass
class Driven:
    """What a reconciliation did. batches: as they were yielded, one command by itself is a batch of one."""

    batches: list[list[Command]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    result: RequeueAfter | None = None
    error: Exception | None = None

    @property
    def commands(self) -> list[Command]:
        return [command for batch in self.batches for command in batch]

    def of(self, *types: type[Command]) -> list[Any]:
        """The commands of these types, in order."""
        return [command for command in self.commands if isinstance(command, types)]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """(type, reason, message) of the records."""
        return [(record.type, record.reason, record.message) for record in self.records]


def drive(
    reconciler: Reconciler,
    key: Key,
    answer: Answer,
    *,
    tables: Tables,
    raises: type[Exception] | None = None,
    stop_after: int | None = None,
) -> Driven:
    """Run one reconciliation to its end. raises: the error that it must end with.

    stop_after: kill it after so many batches of commands, their outcomes undelivered, as a crash would.
    """
    driven = Driven()
    running = reconciler.reconcile(key)
    reply: Any = None
    try:
        while True:
            yielded = running.send(reply)
            if isinstance(yielded, Record):
                driven.records.append(yielded)
                reply = None
                continue
            batch = [yielded] if not isinstance(yielded, Sequence) else list(yielded)
            assert batch, "an empty batch was yielded"
            driven.batches.append(batch)
            outcomes = [answer(command) for command in batch]
            if stop_after is not None and len(driven.batches) == stop_after:
                running.close()
                return driven
            for command, outcome in zip(batch, outcomes, strict=True):
                remember(tables, command, outcome)
            reply = outcomes if isinstance(yielded, Sequence) else outcomes[0]
    except StopIteration as stop:
        driven.result = stop.value
    except Exception as err:
        if raises is None or not isinstance(err, raises):
            raise
        driven.error = err
    assert raises is None or driven.error is not None, f"expected {raises}, but it ended well"
    return driven


def failing(*, after: int, outcome: Outcome, to: type[Command], otherwise: Answer) -> Answer:
    """`otherwise`, but from the `after`-th command of this type on (counted from 0) this outcome."""
    seen = 0

    def answer(command: Command) -> Outcome:
        nonlocal seen
        if isinstance(command, to):
            seen += 1
            if seen > after:
                return outcome
        return otherwise(command)

    return answer


QUOTA_EXCEEDED = Forbidden('pods "web-" is forbidden: exceeded quota: small')
NAMESPACE_TERMINATING = Forbidden(
    'pods "web-" is forbidden: unable to create new content in namespace default because it is being terminated',
    encode_object(
        {"kind": "Status", "status": "Failure", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
    ),
)


# Objects, as small as they may be.


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    phase: str = "Running",
    node: str = "n1",
    ready: bool = True,
    ready_since: float | None = NOW - 3600,
    created: float | None = NOW - 7200,
    **meta: Any,
) -> Object:
    """A pod; ready ones have been so for an hour. owner: an ownerReference. meta: further metadata."""
    condition: Object = {"type": "Ready", "status": "True" if ready else "False"}
    if ready_since is not None:
        condition["lastTransitionTime"] = format_time(ready_since)
    metadata: Object = {"name": name, "namespace": namespace, **meta}
    if labels is not None:
        metadata["labels"] = dict(labels)
    if created is not None:
        metadata["creationTimestamp"] = format_time(created)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": [condition]},
    }


def created_names(driven: Driven) -> list[str]:
    return [name_of(decode_object(command.body)) for command in driven.of(Create)]


def deleted_keys(driven: Driven) -> list[Key]:
    return [command.key for command in driven.of(Delete)]


def created_keys(driven: Driven) -> list[Key]:
    return [make_key(command.namespace, name_of(decode_object(command.body))) for command in driven.of(Create)]


def bodies(driven: Driven, *types: type[Command]) -> list[Object]:
    return [decode_object(command.body) for command in driven.of(*types)]
