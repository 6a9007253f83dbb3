"""Keys enqueued from outside: by system.enqueue, and by the sources of a spec."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.journal.replay import replay
from kcm.actors.engine.elector import Election
from kcm.actors.options import Options
from kcm.actors.reconciliation import Reconciliation, create
from kcm.actors.reconciliation.specs import ControllerSpec, Queue, Source
from kcm.actors.simulation import SimulatedCluster
from kcm.runtime.calls.listeners import Waker
from kcm.runtime.simulation.guard import BlockingCallError
from kcm.runtime.system.journal import JournalWriter, RecordedRun, read_journal
from tests.support.census import CONFIGMAPS

NAME = "woken-controller"


class Woken:
    """Reconciler that records its keys."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    def reconcile(self, key: Any) -> Reconciliation:
        self._seen.append(key)
        yield from ()

    def reconcile_other(self, key: Any) -> Reconciliation:
        self._seen.append(("other", key))
        yield from ()


def spec(seen: list[Any], *sources: Source) -> ControllerSpec:
    return ControllerSpec(
        name=NAME,
        aliases=("woken",),
        queues=(Queue(), Queue("other", reconcile=Woken.reconcile_other)),
        build=lambda _context: Woken(seen),
        sources=sources,
    )


def standing(identity: str) -> Election:
    return Election(identity=identity, namespace="kube-system", name="test")


def test_a_key_is_reconciled_that_a_program_names(cluster: SimulatedCluster) -> None:
    seen: list[Any] = []
    system = cluster.manager(controllers=(spec(seen),))
    cluster.run_for(1.0)
    assert system.enqueue(NAME, "a")
    assert system.enqueue("woken", "b", "woken")
    assert system.enqueue(NAME, ("c", 1), "other")
    cluster.run_for(1.0)
    assert sorted(seen, key=repr) == sorted(["a", "b", ("other", ("c", 1))], key=repr)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (("wooken", "a"), ValueError, "no controller is called 'wooken'; there are woken-controller"),
        ((NAME, "a", "others"), ValueError, "woken-controller has no queue 'others', but woken, other"),
        ((NAME, object()), TypeError, "a key from outside is text, a number or a tuple of them: a object is no plain"),
    ],
)
def test_unknown_queue_or_invalid_key_is_refused(
    cluster: SimulatedCluster, arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    system = cluster.manager(controllers=(spec([]),))
    cluster.run_for(1.0)
    with pytest.raises(error, match=text):
        system.enqueue(*arguments)


def test_standby_or_disabled_controller_is_not_woken(cluster: SimulatedCluster) -> None:
    seen: list[Any] = []
    leader = cluster.manager(controllers=(spec([]),), election=standing("one"))
    cluster.run_for(3.0)
    standby = cluster.manager(controllers=(spec(seen),), election=standing("two"))
    cluster.run_for(3.0)
    assert leader.enqueue(NAME, "a")
    assert not standby.enqueue(NAME, "a")
    leader.disable(NAME)
    cluster.run_for(1.0)
    assert not leader.enqueue(NAME, "a")
    leader.enable(NAME)
    cluster.run_for(1.0)
    leader.pause(NAME)
    assert leader.enqueue(NAME, "b"), "it is kept while it pauses"
    assert seen == []


def test_keys_from_outside_are_in_the_journal_and_replayed(tmp_path: Path, cluster: SimulatedCluster, log: Any) -> None:
    path, seen = tmp_path / "journal", list[Any]()
    made = replace(spec(seen), build=lambda _context: Writing())
    writers: list[JournalWriter] = []

    def record(_name: str, system: ControllerSystem) -> None:
        run = RecordedRun(version="test", seed=0, arguments=[], controllers=[NAME])
        writers.append(JournalWriter(path, run=run, clock=system.clock, largest=10_000_000, files=3))
        system.actors.journal = writers[-1]

    cluster.started.append(record)
    system = cluster.manager(controllers=(made,))
    cluster.run_for(1.0)
    system.enqueue(NAME, "default/a")
    system.enqueue(NAME, "default/b")
    cluster.run_for(1.0)
    writers[0].close()
    records = list(read_journal(path))
    done = replay(records, NAME, specs=(made,), read_options=lambda _arguments: Options(), log=log)
    assert (done.difference, done.batches) == (None, 2)


class Writing:
    def reconcile(self, key: str) -> Reconciliation:
        yield create(CONFIGMAPS, {"metadata": {"name": key.partition("/")[2]}}, namespace="default")


# Sources.


class Outside:
    """External source of changes. started, ended: number of listeners that began and ended."""

    def __init__(self) -> None:
        self.started = self.ended = 0
        self.queue: asyncio.Queue[str] | None = None

    async def changes(self, _waker: Waker) -> AsyncIterator[str]:
        self.started += 1
        self.queue = asyncio.Queue()
        try:
            while True:
                name = await self.queue.get()
                if name == "bad":
                    raise ConnectionError("cut")
                yield name
        finally:
            self.ended += 1

    async def call_back(self, waker: Waker) -> None:
        self.started += 1
        for name in ("x", "y"):
            await asyncio.sleep(10.0)
            waker.enqueue(name)

    def say(self, name: str) -> None:
        assert self.queue is not None
        self.queue.put_nowait(name)


def test_keys_of_a_source_are_reconciled(cluster: SimulatedCluster) -> None:
    seen, outside = list[Any](), Outside()
    cluster.manager(controllers=(spec(seen, Source("changes", outside.changes, queue="other")),))
    cluster.run_for(1.0)
    outside.say("a")
    outside.say("b")
    cluster.run_for(0.1)
    assert seen == [("other", "a"), ("other", "b")]


def test_source_may_use_a_callback_and_is_restarted_when_it_ends(cluster: SimulatedCluster) -> None:
    seen, outside = list[Any](), Outside()
    cluster.manager(controllers=(spec(seen, Source("back", outside.call_back)),))
    cluster.run_for(20.9)
    assert (seen, outside.started) == (["x", "y"], 1)
    cluster.run_for(12.0)
    assert (seen, outside.started) == (["x", "y", "x"], 2)


def test_failed_source_is_logged_and_restarted_with_backoff(cluster: SimulatedCluster, logs: Any) -> None:
    seen, outside = list[Any](), Outside()
    system = cluster.manager(controllers=(spec(seen, Source("changes", outside.changes)),))
    cluster.run_for(1.0)
    assert system.checks()["sources"]() is None
    for wait, started in ((0.9, 1), (0.2, 2), (1.9, 2), (0.2, 3)):
        if wait in (0.9, 1.9):
            outside.say("bad")
        cluster.run_for(wait)
        assert outside.started == started
    assert system.checks()["sources"]() == "sources fail: woken-controller/changes: ConnectionError: cut"
    warned = [entry for entry in logs.entries if entry["event"] == "source failed, restarting"]
    assert [(entry["error"], entry["delay"]) for entry in warned] == [
        ("ConnectionError: cut", 1.0),
        ("ConnectionError: cut", 2.0),
    ]
    outside.say("a")
    cluster.run_for(0.1)
    assert seen == ["a"]


@pytest.mark.parametrize("end", ["disabled", "halted", "killed", "restarted"])
def test_source_is_stopped_with_its_controller(cluster: SimulatedCluster, end: str) -> None:
    seen, outside = list[Any](), Outside()
    system = cluster.manager(controllers=(spec(seen, Source("changes", outside.changes)),))
    cluster.run_for(1.0)
    old = outside.queue
    match end:
        case "disabled":
            system.disable(NAME)
        case "halted":
            system.halt()
        case "killed":
            cluster.world.kill(system.actors, f"controller:{NAME}")
        case _:
            system.restart(NAME)
    cluster.run_for(5.0)
    again = end in ("killed", "restarted")
    assert (outside.started, outside.ended) == ((2, 1) if again else (1, 1))
    assert old is not None
    old.put_nowait("late")
    cluster.run_for(1.0)
    assert seen == []


def test_source_starts_once_the_lease_is_held(cluster: SimulatedCluster) -> None:
    first, second = Outside(), Outside()
    specs = [spec([], Source("changes", feed.changes)) for feed in (first, second)]
    cluster.manager(controllers=specs[:1], election=standing("one"))
    cluster.run_for(3.0)
    cluster.manager(controllers=specs[1:], election=standing("two"))
    cluster.run_for(3.0)
    assert (first.started, second.started) == (1, 0)
    cluster.crash("manager")
    cluster.run_for(60.0)
    assert second.started == 1


def threaded(waker: Waker) -> Iterator[str]:
    yield from ()


async def real(_waker: Waker) -> None:
    await asyncio.open_connection("localhost", 1)


def test_source_in_a_simulation_must_be_async_and_must_not_block(cluster: SimulatedCluster, logs: Any) -> None:
    cluster.manager(controllers=(spec([], Source("changes", threaded)),))
    cluster.run_for(3.0)
    errors = [str(entry.get("error")) for entry in logs.entries]
    assert any("source woken-controller/changes requires a thread" in error for error in errors)
    other = SimulatedCluster()
    other.manager(controllers=(spec([], Source("changes", real)),))
    with pytest.raises(BlockingCallError, match="the event loop's"):
        other.run_for(3.0)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: Source("a", None), TypeError, "source 'a': listen is a function"),  # type: ignore[arg-type]
        (
            lambda: spec([], Source("a", threaded, queue="no")),
            ValueError,
            "source 'a': woken-controller has no queue",
        ),
        (lambda: spec([], Source("a", threaded), Source("a", threaded)), ValueError, "have one name"),
    ],
)
def test_sources_that_cannot_be_are_refused(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
