"""Reconcilers with `async def reconcile`: driven, recorded, replayed and simulated like generators."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import LogCapture

import kcm.steps
from kcm.actors import reconciliation
from kcm.actors.command.journal.replay import replay
from kcm.actors.options import Options
from kcm.actors.reconciliation import (
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    itself,
    must,
    must_object,
    patch,
    record,
    slow_start,
    step,
    together,
)
from kcm.actors.reconciliation.forgotten_steps import forgotten_steps
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, created_names, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import Resource
from kcm.runtime.system.journal import JournalWriter, RecordedRun, read_journal
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")


def copies(configmap: Object) -> list[Any]:
    name = configmap["metadata"]["name"]
    return [create(SECRETS, {"metadata": {"name": f"{name}-{n}"}}, namespace="default") for n in range(3)]


class Copier:
    """Reconciler that creates three Secrets for each ConfigMap, and records this in it."""

    def __init__(self, *, tables: Tables) -> None:
        self._configmaps, self._secrets = tables[CONFIGMAPS], tables[SECRETS]

    def _wanting(self, key: Key) -> Object | None:
        configmap = self._configmaps.get(key)
        return None if configmap is None or "copied" in configmap.get("data", {}) else configmap


class WithYield(Copier):
    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._wanting(key)
        if configmap is None:
            return None
        yield from slow_start(copies(configmap))
        yield record(CONFIGMAPS, configmap, "Normal", "Copied", "Made three Secrets")
        yield from self._note(key)
        yield Enqueue("copies", key, after=5.0)
        return RequeueAfter(60.0)

    def _note(self, key: Key) -> Step[None]:
        outcome = yield patch(CONFIGMAPS, key, {"data": {"copied": "yes"}})
        assert isinstance(outcome, Done)

    def sweep(self) -> Reconciliation:
        yield from together([patch(CONFIGMAPS, key, {"data": {"swept": "yes"}}) for key in self._keys()])
        return None

    def _keys(self) -> list[Key]:
        return sorted(entry.key for entry in self._configmaps.entries("default"))


class WithAwait(WithYield):
    async def reconcile(self, key: Key) -> RequeueAfter | None:  # type: ignore[override]
        configmap = self._wanting(key)
        if configmap is None:
            return None
        await slow_start(copies(configmap))
        await record(CONFIGMAPS, configmap, "Normal", "Copied", "Made three Secrets")
        await self._note(key)
        await Enqueue("copies", key, after=5.0)
        return RequeueAfter(60.0)

    async def _note(self, key: Key) -> None:  # type: ignore[override]
        outcome = await patch(CONFIGMAPS, key, {"data": {"copied": "yes"}})
        assert isinstance(outcome, Done)

    async def sweep(self) -> None:  # type: ignore[override]
        await together([patch(CONFIGMAPS, key, {"data": {"swept": "yes"}}) for key in self._keys()])


def spec(reconciler: Any) -> ControllerSpec:
    return ControllerSpec(
        name="copier",
        queues=(Queue("copies", watches=(Watch(CONFIGMAPS, to=itself),)),),
        passes=(Pass("sweep", every=lambda _options: 30.0, run=lambda copier: copier.sweep()),),
        reads=(SECRETS,),
        build=lambda context: reconciler(tables=context.tables),
    )


def recorded(reconciler: Any, path: Path, make_cluster: Callable[..., SimulatedCluster]) -> Path:
    """Record a run in which the controller crashes between its writes."""
    cluster = make_cluster(seed=5)
    writers: list[JournalWriter] = []

    def keep(_name: str, system: Any) -> None:
        run = RecordedRun(version="test", seed=5, arguments=[], controllers=["copier"])
        system.actors.journal = JournalWriter(path, run=run, clock=system.clock, largest=10_000_000, files=3)
        writers.append(system.actors.journal)

    cluster.started.append(keep)
    system = cluster.manager(controllers=[spec(reconciler)])
    cluster.run_for(1.0)
    for name in "abc":
        cluster.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": "default"}})
    cluster.run_for(0.03)
    cluster.world.kill(system.actors, "controller:copier")
    cluster.run_for(90.0)
    assert len(cluster.list(SECRETS, "default")) == 9
    assert all(config_map["data"]["copied"] == "yes" for config_map in cluster.list(CONFIGMAPS, "default"))
    writers[0].close()
    return path


def test_both_forms_leave_the_same_journal_and_each_is_replayed_by_the_other(
    tmp_path: Path, make_cluster: Callable[..., SimulatedCluster], log: Any
) -> None:
    journals = [recorded(form, tmp_path / form.__name__, make_cluster) for form in (WithYield, WithAwait)]
    first, other = ([repr(each) for each in list(read_journal(path))[1:]] for path in journals)
    assert len(first) > 100
    assert first == other
    for path in journals:
        for form in (WithYield, WithAwait):
            done = replay(
                list(read_journal(path)),
                "copier",
                specs=[spec(form)],
                read_options=lambda _arguments: Options(),
                log=log,
                incarnation=1,
            )
            assert done.difference is None
            assert done.batches >= 1


def by_hand(reconciler: Any, **more: Any) -> Driven:
    bench = Bench({CONFIGMAPS: [{"metadata": {"name": "a", "namespace": "default"}}], SECRETS: []})
    return drive(reconciler(tables=bench.tables), "default/a", more.pop("answer", bench.accept), tables=bench.tables)


def test_by_hand_both_forms_do_the_same() -> None:
    first, other = by_hand(WithYield), by_hand(WithAwait)
    assert created_names(first) == ["a-0", "a-1", "a-2"]
    assert (first.batches, first.records, first.enqueued, first.result) == (
        other.batches,
        other.records,
        other.enqueued,
        other.result,
    )


# Steps in both forms.


@step
def both_ways(key: Key) -> Step[str]:
    made = yield from must_object(create(SECRETS, {"metadata": {"name": key}}, namespace="d"))
    yield from awaiting(key)  # type: ignore[misc]  # mypy does not recognize it as a step
    return str(made["metadata"]["name"])


async def awaiting(key: Key) -> None:
    await must(patch(SECRETS, f"d/{key}", {}))


def test_custom_step_works_in_generators_and_coroutines() -> None:
    class Yields:
        def reconcile(self, key: Key) -> Reconciliation:
            assert (yield from both_ways(key)) == key
            return None

    class Awaits:
        async def reconcile(self, key: Key) -> None:
            assert await both_ways(key) == key

    for reconciler in (Yields(), Awaits()):
        bench = Bench({SECRETS: []})
        driven = drive(reconciler, "a", bench.accept, tables=bench.tables)
        assert [type(command).__name__ for command in driven.commands] == ["Create", "Patch"]


def public_words() -> list[Any]:
    named = [getattr(module, name) for module in (kcm.steps, reconciliation) for name in module.__all__]
    return [
        function
        for function in named
        if inspect.isgeneratorfunction(function) and function is not reconciliation.batches
    ]


@pytest.mark.parametrize("word", public_words(), ids=lambda word: str(word.__name__))
def test_every_public_step_can_be_awaited(word: Any) -> None:
    assert word.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE, f"{word.__name__} lacks its @step"


def test_a_step_is_a_generator_function() -> None:
    with pytest.raises(TypeError, match="a step is a generator function, not <"):
        step(lambda: together([]))  # type: ignore[arg-type]


# Outcomes, and mistakes of authors.


def test_failure_is_raised_at_the_await() -> None:
    class Careful(WithAwait):
        async def _note(self, key: Key) -> None:  # type: ignore[override]
            with pytest.raises(CommandError, match="Conflict: newer"):
                await must(patch(CONFIGMAPS, key, {}))
            await super()._note(key)

    bench = Bench({})
    outcomes = iter([Conflict("newer", b"")])

    def answer(command: Any) -> Any:
        return next(outcomes, Done(b"{}")) if type(command).__name__ == "Patch" else bench.accept(command)

    tables = Bench({CONFIGMAPS: [{"metadata": {"name": "a", "namespace": "default"}}], SECRETS: []}).tables
    reconciler = Careful(tables=tables)
    driven = drive(reconciler, "default/a", answer, tables=Bench({}).tables)
    assert driven.result == RequeueAfter(60.0)


class Future:
    def __await__(self) -> Generator[Any, Any, None]:
        yield self

    def __repr__(self) -> str:
        return "<Future pending>"


class Waits(Copier):
    async def reconcile(self, _key: Key) -> None:
        await Future()


class YieldsInAsync(Copier):
    async def reconcile(self, key: Key) -> Any:
        yield patch(CONFIGMAPS, key, {})


@pytest.mark.parametrize(
    ("reconciler", "message"),
    [
        (Waits, "not <Future pending>; no event loop runs in a controller: write `await kcm.call(function, …)`"),
        (YieldsInAsync, "reconcile() of YieldsInAsync is `async def`: it awaits its commands and steps, and yields"),
    ],
)
def test_awaiting_an_unsupported_value_fails_the_key(
    reconciler: Any, message: str, make_cluster: Callable[..., SimulatedCluster], logs: LogCapture
) -> None:
    cluster = make_cluster(seed=1)
    queue = Queue("copies", watches=(Watch(CONFIGMAPS, to=itself),))
    build = ControllerSpec(
        name="copier", queues=(queue,), reads=(SECRETS,), build=lambda context: reconciler(tables=context.tables)
    )
    cluster.manager(controllers=[build])
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a", "namespace": "default"}})
    cluster.run_for(2.0)
    errors = {entry["error"] for entry in logs.entries if entry.get("key") == "default/a"}
    (error,) = errors
    assert message in error


async def asleep() -> None:
    await asyncio.sleep(1.0)


async def in_a_session() -> None:
    async with aiohttp.ClientSession() as session:
        await session.get("http://127.0.0.1:1/")


class AsyncLibraryNotFoundError(RuntimeError):
    """Error with the name of the one that sniffio raises for httpx and anyio."""


async def by_httpx() -> None:
    raise AsyncLibraryNotFoundError("unknown async library, or not in async context")


@pytest.mark.parametrize("waits", [asleep, in_a_session, by_httpx])
def test_wait_for_an_event_loop_is_answered_with_what_to_write(
    waits: Callable[[], Any], make_cluster: Callable[..., SimulatedCluster], logs: LogCapture
) -> None:
    class Waiting(Copier):
        async def reconcile(self, _key: Key) -> None:
            await waits()

    cluster = make_cluster(seed=1)
    cluster.manager(controllers=[spec(Waiting)])
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}})
    cluster.run_for(2.0)
    error = next(entry["error"] for entry in logs.entries if entry.get("exc_info"))
    assert error.endswith("; no event loop runs in a controller: write `await kcm.call(function, …)`")
    bench = Bench({CONFIGMAPS: [], SECRETS: []})
    with pytest.raises(RuntimeError) as raised:
        drive(Waiting(tables=bench.tables), "default/a", bench.accept, tables=bench.tables)
    assert raised.value.__notes__ == ["no event loop runs in a controller: write `await kcm.call(function, …)`"]


def test_error_of_an_author_gets_no_hint() -> None:
    class Fails(Copier):
        async def reconcile(self, _key: Key) -> None:
            raise RuntimeError("the directory is full")

    bench = Bench({CONFIGMAPS: [], SECRETS: []})
    with pytest.raises(RuntimeError) as raised:
        drive(Fails(tables=bench.tables), "default/a", bench.accept, tables=bench.tables)
    assert not hasattr(raised.value, "__notes__")


def test_future_awaited_directly_is_refused_at_the_await() -> None:
    bench = Bench({CONFIGMAPS: [], SECRETS: []})
    with pytest.raises(TypeError, match="not <Future pending>; no event loop runs in a controller"):
        drive(Waits(tables=bench.tables), "default/a", bench.accept, tables=bench.tables)


class Forgetful:
    async def reconcile(self, key: Key) -> None:
        must(patch(CONFIGMAPS, key, {}))
        record(CONFIGMAPS, {}, "Normal", "Gone", "It is gone")
        self._note()
        await together([])

    async def _note(self) -> None:
        await together([])


def test_a_statement_that_awaits_nothing_is_found() -> None:
    found = forgotten_steps(Forgetful())
    assert [(step.code.split("(")[0], step.missing) for step in found] == [
        ("must", "await"),
        ("record", "await"),
        ("self._note", "await"),
    ]
