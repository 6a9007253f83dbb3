"""Specs whose code can be replaced while their controllers run, and a record of what their reconciliations do."""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.reconciliation.specs import AnyQueue, ControllerSpec
from kcm.actors.reconciliation.watches import Watch
from kcm.protocols.messages.commands import in_words
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done
from kcm.runtime.scheduling.clock import Clock

OWN = ("kcm.", "actors.", "runtime.", "protocols.")
MOST_KEYS = 1000


class KeyRow(Struct):
    """Key of a controller. at: monotonic time of its last reconciliation."""

    controller: str
    key: str
    state: str = "working"
    times: int = 0
    failures: int = 0
    last: str = ""
    at: float = 0.0


class Reconciliations:
    """Record of the reconciliations of all controllers. Called by the threads of the controllers.

    write: called with each line.
    """

    def __init__(self, clock: Clock, write: Callable[[str], None]) -> None:
        self._clock, self._write = clock, write
        self.rows: OrderedDict[tuple[str, str], KeyRow] = OrderedDict()

    def begin(self, controller: str, key: str) -> KeyRow:
        row = self.rows.get((controller, key))
        if row is None:
            row = self.rows[controller, key] = KeyRow(controller, key)
            if len(self.rows) > MOST_KEYS:
                self.rows.popitem(last=False)
        row.state, row.times, row.at = "working", row.times + 1, self._clock.monotonic()
        return row

    def decided(self, row: KeyRow, command: Any) -> None:
        for each in command if isinstance(command, tuple | list) else (command,):
            words = f"event {each.reason}: {each.message}" if isinstance(each, Record) else in_words(each)
            row.last = words
            self._write(f"{row.controller} {row.key}: {words}")

    def received(self, row: KeyRow, outcome: Any) -> None:
        for each in outcome if isinstance(outcome, tuple | list) else (outcome,):
            if each is not None and not isinstance(each, Done):
                message = getattr(each, "message", "")
                self._write(f"{row.controller} {row.key}: -> {type(each).__name__}{f': {message}' if message else ''}")

    def succeeded(self, row: KeyRow, result: Any) -> None:
        row.state = "done" if result is None else "waits"
        row.failures = 0

    def failed(self, row: KeyRow, err: Exception) -> None:
        row.state, row.failures, row.last = "failed", row.failures + 1, f"{type(err).__name__}: {err}"
        frames = [frame for frame in traceback.extract_tb(err.__traceback__) if frame.filename != __file__]
        lines = [*traceback.format_list(frames), *traceback.format_exception_only(err)]
        self._write(f"{row.controller} {row.key}: failed\n{''.join(lines).rstrip()}")


class LiveSpecs:
    """The specs of the code that is loaded now, and specs that call it.

    specs: for the system; they stay the same when the code is replaced.
    """

    def __init__(self, specs: Iterable[ControllerSpec], seen: Reconciliations) -> None:
        self._now = {spec.name: spec for spec in specs}
        self._seen = seen
        self.specs = tuple(self._live(spec) for spec in self._now.values())

    def fits(self, specs: Iterable[ControllerSpec]) -> bool:
        """Report whether these specs can replace those that run: they differ in their code only."""
        return {name: shape(spec) for name, spec in self._now.items()} == {spec.name: shape(spec) for spec in specs}

    def has_webhooks(self, controller: str) -> bool:
        """Report whether the controller has webhooks. Their functions are not replaced while the system runs."""
        return controller in self._now and has_webhooks(self._now[controller])

    def replace(self, specs: Iterable[ControllerSpec]) -> None:
        """Replace the code. Each controller calls it after a restart of its actor, and its watches at once."""
        self._now = {spec.name: spec for spec in specs}

    def _live(self, spec: ControllerSpec) -> ControllerSpec:
        name = spec.name
        queues = tuple(
            replace(
                queue,
                reconcile=partial(self._reconcile, name, number),
                watches=tuple(
                    self._live_watch(name, number, place, watch) for place, watch in enumerate(queue.watches)
                ),
            )
            for number, queue in enumerate(spec.queues)
        )
        passes = tuple(
            replace(periodic, run=partial(self._run, name, number)) for number, periodic in enumerate(spec.passes)
        )
        return replace(spec, build=lambda context: self._now[name].build(context), queues=queues, passes=passes)

    def _live_watch(self, name: str, queue: int, place: int, watch: Watch[Any]) -> Watch[Any]:
        if _is_own(watch.to):  # such as itself, and its_controller(…), which informers treat specially
            return watch
        return replace(watch, to=lambda change, tables: self._now[name].queues[queue].watches[place].to(change, tables))

    def _reconcile(self, name: str, number: int, reconciler: Any, key: Any) -> Any:
        running = self._now[name].queues[number].reconcile(reconciler, key)
        return self._observed(name, str(key), running) if hasattr(running, "send") else running

    def _run(self, name: str, number: int, reconciler: Any) -> Any:
        periodic = self._now[name].passes[number]
        running = periodic.run(reconciler)
        return self._observed(name, f"({periodic.name})", running) if hasattr(running, "send") else running

    def _observed(self, controller: str, key: str, running: Any) -> Generator[Any, Any, Any]:
        """Drive a reconciliation, and record its commands, outcomes, result and exception."""
        seen, row = self._seen, self._seen.begin(controller, key)
        outcome: Any = None
        try:
            command = running.send(None)
            while True:
                seen.decided(row, command)
                try:
                    outcome = yield command
                except GeneratorExit:
                    running.close()
                    raise
                except BaseException as err:
                    command = running.throw(err)
                    continue
                seen.received(row, outcome)
                command = running.send(outcome)
        except StopIteration as end:
            seen.succeeded(row, end.value)
            return end.value
        except Exception as err:
            seen.failed(row, err)
            raise


def has_webhooks(spec: ControllerSpec) -> bool:
    return bool(spec.admission or spec.conversion)


def shape(spec: ControllerSpec) -> Any:
    """Return what of a spec cannot be replaced while it runs: all but the code that reconciles and maps changes."""
    return (
        [
            *(_shape_of_queue(queue) for queue in spec.queues),
            [(periodic.name, _code(periodic.every), periodic.queue) for periodic in spec.passes],
            [repr(read) for read in spec.reads],
            [(index.resource, index.name, _code(index.values_of)) for index in spec.indexes],
            [(facts.resource, _code(facts.derive)) for facts in spec.facts],
            [(source.name, source.queue, _code(source.listen)) for source in spec.sources],
        ],
        [_code(getattr(spec, name)) for name in ("adapted", "enabled_if", "resync", "qps", "burst", "discovers")],
        [getattr(spec, name) for name in ("aliases", "client", "component", "calls", "never_blocks")],
        [
            (each.name, each.path, each.operations, each.labels, _code(each.function), dict(each.match_conditions))
            for each in spec.admission
        ],
        [(each.source, each.target, _code(each.function)) for each in spec.conversion],
        None if spec.options is None else (spec.options.__qualname__, repr(spec.options())),
        sorted(spec.children),
    )


def _shape_of_queue(queue: AnyQueue) -> Any:
    watches = [
        (
            watch.resource,
            watch.labels,
            watch.fields,
            _code(watch.namespaces),
            watch.metadata_only,
            watch.interest,
            _code(watch.to) if _is_own(watch.to) else "",
        )
        for watch in queue.watches
    ]
    settings = (queue.name, _code(queue.concurrency), queue.max_retries, queue.terminal, queue.backoff)
    order = (queue.events_first, _code(queue.turn_of), _code(queue.priority_of))
    return (*settings, queue.retry_qps, queue.retry_burst, order, watches)


def _is_own(function: Any) -> bool:
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.".startswith(OWN)


def _code(given: Any) -> Any:
    """Return a comparable form of a value, or of the code of a function."""
    if not callable(given):
        return given
    code = getattr(given, "__code__", None)
    if code is None:
        return type(given).__qualname__, repr(vars(given)) if hasattr(given, "__dict__") else ""
    return given.__qualname__, code.co_code, repr(code.co_consts), code.co_names


Rows = Mapping[tuple[str, str], KeyRow]
