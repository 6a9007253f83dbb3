"""Run a reconciler step by step without actors, threads or a server.

    bench = Bench({REPLICASETS: [replica_set(...)], PODS: [pod(...)]})
    reconciler = ReplicaSetReconciler(tables=bench.tables, clock=bench.clock, ...)
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables)
    assert deleted_keys(driven) == ["default/web-1"]

`drive` does what the controller actor does: it sends commands, and makes their outcomes visible to the reconciler
before it continues. The informer caches (`bench.tables`) stay unchanged until the test calls `bench.show(...)` or
`bench.catch_up()`, as if the watches were late until then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from kcm.actors.engine.controller.own_writes import remember
from kcm.actors.engine.controller.work import add_hint, nonsense
from kcm.actors.reconciliation import Because, Enqueue, Reconciler, RequeueAfter, Running, Tell
from kcm.actors.reconciliation.commands import check_resource
from kcm.actors.reconciliation.derived import frozen_table
from kcm.actors.reconciliation.forgotten_steps import warn_of_forgotten_steps
from kcm.actors.reconciliation.outside import Outside
from kcm.actors.reconciliation.specs import Facts, Index
from kcm.protocols.arguments import check_each, check_mapping, check_type
from kcm.protocols.codec import pack
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, PatchType, Update
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome
from kcm.protocols.models import as_object
from kcm.protocols.objects import Key, Object, decode_object, encode_object, make_key, name_of, split_key
from kcm.protocols.resources import M, Resource
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.schema.merge_schemas import merge_schema_of
from kcm.runtime.apiserver.schema.patches import apply_json_patch, apply_merge_patch
from kcm.runtime.apiserver.schema.strategic_merge import apply_strategic_merge
from kcm.runtime.simulation.coroutines import run_to_completion
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.table import Entry, Table, TableWriter
from kcm.runtime.tables.tables import Tables

Answer = Callable[[Command], Outcome]
NOW = 1_800_000_000.0


class StillClock(Struct):
    """Clock for tests that stands still until `advance` is called.

    wall: wall-clock time, in Unix seconds.
    uptime: monotonic time, in seconds.
    """

    wall: float = NOW
    uptime: float = 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.uptime

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.uptime += seconds

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:
        raise AssertionError(f"a reconciler must not set alarms: {who} at {when} for {what}")

    def cancel(self, who: Hashable) -> None:
        raise AssertionError(f"a reconciler must not cancel alarms: {who}")


class Bench:
    """Test bench for a reconciler: tables with the given objects, and a fake API server that accepts every write.

    A table is the informer cache of one resource.

    An object that is read from the tables cannot be modified: an attempt raises a TypeError.

    objects: every resource that the reconciler watches or reads, with its objects as dicts or models. An object without
        a uid or a resourceVersion gets one.
    indexes, facts: as declared in the controller's spec.
    """

    def __init__(
        self, objects: Mapping[Resource, Iterable[Any]], *, indexes: Iterable[Index] = (), facts: Iterable[Facts] = ()
    ) -> None:
        check_mapping("a Bench", objects)
        for resource in objects:
            check_resource(resource)
        indexes, facts = tuple(indexes), tuple(facts)
        check_each("indexes of a Bench", indexes, lambda what, index: check_type(what, index, Index, "an Index"))
        check_each("facts of a Bench", facts, lambda what, view: check_type(what, view, Facts, "a Facts"))
        self.clock = StillClock()
        self._version = 100
        derived = {fact.resource.id: fact.derive for fact in facts}
        self._by_id = {resource.id: frozen_table(resource, derive=derived.get(resource.id)) for resource in objects}
        for index in indexes:
            self._by_id[index.resource.id].add_indexes({index.name: index.values_of})
        self._writers: dict[str, TableWriter] = {}
        for resource, some in objects.items():
            table = self._by_id[resource.id]
            self._writers[resource.id] = table.claim()
            self._writers[resource.id].replace([self._entry(table, obj) for obj in some], self._version)
        for writer in self._writers.values():
            writer.advance(self._version)
        self.tables = Tables(self._by_id)

    def forget_writes(self) -> None:
        """Drop the reconciler's writes that the informer caches do not contain yet, as a crash would."""
        self.tables = Tables(self._by_id)

    def show(self, resource: Resource[M], obj: Object | M) -> None:
        """Put an object into its informer cache, as a watch event would.

        The object gets a new resourceVersion unless it has one.
        """
        entry = self._entry(self._by_id[resource.id], obj)
        self._writers[resource.id].put(entry)

    def hide(self, resource: Resource, key: Key) -> None:
        """Delete an object from its informer cache, as a watch event would."""
        self._version += 1
        self._writers[resource.id].remove(key, self._version)

    def spoil(self, resource: Resource, key: Key) -> None:
        """Mark an object in its informer cache as unreadable, as a watch event with a malformed object would."""
        self._version += 1
        self._writers[resource.id].mark(Unreadable(key, "", self._version, "marked as unreadable by the test", None))

    def hear(self) -> None:
        """Mark all informer caches as up to date at the present time, as a bookmark on each watch would."""
        for writer in self._writers.values():
            writer.touch(self.clock.monotonic())

    def catch_up(self) -> None:
        """Put everything that the reconciler has written into the informer caches, as watch events would."""
        for resource_id, overlay in self.tables.overlays().items():
            self._version += 1
            self._writers[resource_id].replace(overlay.entries(), self._version)
            overlay.prune()

    def accept(self, command: Command) -> Outcome:
        """Return the outcome of a command on a server that accepts every write. Most tests pass this method to `drive`.

        A call of an external function is made at once. If the function is async, its waits take no time.
        """
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
            case Patch(resource, key, body, patch_type):
                known = self._known(resource, key)
                if known is None and patch_type == PatchType.APPLY:
                    return self.accept(Create(resource, split_key(key)[0], body))
                if known is None:
                    return NotFound(f'"{key}" not found')
                return Done(encode_object(self._newer(_patched(known, command, self._by_id[resource].resource))))
            case Delete(resource, key):
                return NotFound(f'"{key}" not found') if self._known(resource, key) is None else Done(_SUCCESS)
            case Get(resource, key):
                known = self._known(resource, key)
                return NotFound(f'"{key}" not found') if known is None else Done(encode_object(known))
            case Outside():
                return _call_outside(command)
            case _:
                raise AssertionError(f"no outcome for {command!r}")

    def _known(self, resource_id: str, key: Key) -> Object | None:
        overlay = self.tables.overlay(resource_id)
        assert overlay is not None, f"{resource_id} is not among the tables"
        entry = overlay.get(key)
        return None if entry is None else decode_object(entry.raw)

    def _newer(self, obj: Object) -> Object:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _entry(self, table: Table, given: Any) -> Entry:
        self._version += 1
        obj = as_object(given)
        meta = {"uid": f"uid-of-{name_of(obj)}", "resourceVersion": str(self._version), **obj["metadata"]}
        whole = {**obj, "metadata": meta}
        return table.make_entry(whole, encode_object(whole))


def _patched(obj: Object, command: Patch, of: Resource) -> Object:
    body = orjson.loads(command.body)
    match command.patch_type:
        case PatchType.MERGE:
            return apply_merge_patch(obj, body)
        case PatchType.APPLY:  # simplified: no field has another manager, and omitted fields stay
            return apply_strategic_merge(obj, body, schema=merge_schema_of(of.group, of.version, of.kind))
        case PatchType.JSON:
            return apply_json_patch(obj, body)
        case PatchType.STRATEGIC:
            return apply_strategic_merge(obj, body, schema=merge_schema_of(of.group, of.version, of.kind))
        case other:
            raise AssertionError(f"no outcome for a patch of type {other}")


_SUCCESS = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'


class Driven(Struct):
    """Everything that a reconciliation yielded, and how it ended.

    batches: commands as they were yielded; a single command is a batch with one command.
    records: events for the event recorder.
    messages: messages to other actors.
    enqueued: keys to add to the controller's queues.
    reasons: texts of its Because.
    result: return value of the reconciliation.
    error: exception that it raised, if the caller expected one; otherwise None.
    """

    batches: list[list[Command]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    messages: list[Tell] = field(default_factory=list)
    enqueued: list[Enqueue] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    result: RequeueAfter | None = None
    error: Exception | None = None

    @property
    def commands(self) -> list[Command]:
        return [command for batch in self.batches for command in batch]

    def of(self, *types: type[Command]) -> list[Any]:
        """Return the commands of these types, in order."""
        return [command for command in self.commands if isinstance(command, types)]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Return (type, reason, message) of each recorded event."""
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
    """Run `reconciler.reconcile(key)` to its end. See `drive_steps` for the parameters.

    Warns if the reconciler's source creates a generator of commands but never runs it, for example because a
    `yield from` is missing.
    """
    warn_of_forgotten_steps(reconciler)
    return drive_steps(reconciler.reconcile(key), answer, tables=tables, raises=raises, stop_after=stop_after)


def drive_steps(
    running: Running,
    answer: Answer,
    *,
    tables: Tables,
    raises: type[Exception] | None = None,
    stop_after: int | None = None,
) -> Driven:
    """Run the generator or coroutine of a reconciliation to its end.

    Call it directly for a periodic pass, or for the reconcile function of a second queue.

    The function `answer` is called with each command in place of the server, and returns the outcome.

    running: generator or coroutine that yields commands.
    tables: informer caches that the reconciler reads. The outcomes of its writes are laid over them.
    raises: type of the exception that the generator must raise; None if it must not raise.
    stop_after: stop after this number of batches, before the outcomes of the last batch are received, as in a crash.
    """
    driven = Driven()
    reply: Any = None
    try:
        while True:
            yielded = running.send(reply)
            if isinstance(yielded, Record):
                driven.records.append(yielded)
                reply = None
                continue
            if isinstance(yielded, Tell):
                driven.messages.append(yielded)
                reply = None
                continue
            if isinstance(yielded, Because):
                driven.reasons.append(yielded.text)
                reply = None
                continue
            if isinstance(yielded, Enqueue):
                driven.enqueued.append(yielded)
                reply = None
                continue
            if (wrong := nonsense(yielded, running)) is not None:
                running.throw(wrong)  # raised at the yield, so that the traceback shows it
                raise wrong
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
        add_hint(err, running)
        if raises is None or not isinstance(err, raises):
            raise
        driven.error = err
    assert raises is None or driven.error is not None, f"expected {raises}, but nothing was raised"
    return driven


def _call_outside(command: Outside) -> Outcome:
    made = command.prepare(sender="", incarnation=0, most=None).run()
    outcome: Outcome = run_to_completion(made) if command.is_async else made
    return outcome


def returned(value: Any) -> Done:
    """Return the outcome of a successful external call with this result. Raises TypeError unless it is plain data."""
    return Done(pack(value))


def failing(*, after: int, outcome: Outcome, to: type[Command], otherwise: Answer) -> Answer:
    """Return a substitute for the server, for `drive`, on which commands of one type fail.

    after: number of commands of this type that do not fail, before all later ones do.
    outcome: outcome of the commands that fail.
    to: type of the commands.
    otherwise: function that returns the outcomes of all other commands.
    """
    seen = 0

    def answer(command: Command) -> Outcome:
        nonlocal seen
        if isinstance(command, to):
            seen += 1
            if seen > after:
                return outcome
        return otherwise(command)

    return answer


def created_names(driven: Driven) -> list[str]:
    """Return the names of the objects in Create commands, in order."""
    return [name_of(decode_object(command.body)) for command in driven.of(Create)]


def deleted_keys(driven: Driven) -> list[Key]:
    """Return the keys of Delete commands, in order."""
    return [command.key for command in driven.of(Delete)]


def created_keys(driven: Driven) -> list[Key]:
    """Return the keys of the objects in Create commands, in order."""
    return [make_key(command.namespace, name_of(decode_object(command.body))) for command in driven.of(Create)]


def bodies(driven: Driven, *types: type[Command]) -> list[Object]:
    """Return the decoded bodies of commands of these types."""
    return [decode_object(command.body) for command in driven.of(*types)]
