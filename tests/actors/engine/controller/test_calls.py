"""Controllers with external calls: on virtual time, with faults, and in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.journal import command as journal_command
from kcm.actors.command.journal.replay import replay
from kcm.actors.engine.elector import Election
from kcm.actors.options import Options
from kcm.actors.reconciliation import Reconciliation, Watch, answer_of, call, itself, must, outside, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.journal import MessageSent
from kcm.protocols.messages.outcomes import Done, Raised
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.guard import BlockingCallError
from kcm.runtime.system.journal import JournalWriter, RecordedRun, read_journal
from kcm.runtime.system.journal_table import described, message_of
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
MakeCluster = Callable[..., SimulatedCluster]


class Directory:
    """External directory that records the added names.

    under_way, most: current and maximum number of concurrent calls.
    """

    def __init__(self) -> None:
        self.added: list[str] = []
        self.cancelled: list[str] = []
        self.under_way = self.most = 0

    def add(self, name: str) -> int:
        self.added.append(name)
        return len(self.added)

    def fail(self, name: str) -> int:
        raise PermissionError(name)

    async def add_slowly(self, name: str, seconds: float = 5.0) -> int:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.under_way -= 1
        return self.add(name)


class Enrolment:
    """Reconciler that adds each ConfigMap to the directory, and writes the returned number."""

    def __init__(self, tables: Tables, add: Callable[[str], Any], **how: Any) -> None:
        self._configmaps, self._add, self._how = tables[CONFIGMAPS], add, how

    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._configmaps.get(key)
        if configmap is None or "number" in (configmap.get("data") or {}):
            return None
        number = yield from call(self._add, configmap["metadata"]["name"], **self._how)
        yield from must(patch(CONFIGMAPS, key, {"data": {"number": str(number)}}))


def enrolment(add: Callable[[str], Any], *, calls: int | None = None, **how: Any) -> ControllerSpec:
    return ControllerSpec(
        name="enrolment-controller",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),), concurrency=lambda _options: 10),),
        build=lambda context: Enrolment(context.tables, add, **how),
        calls=calls,
    )


def enrol(cluster: SimulatedCluster, *names: str) -> None:
    for name in names:
        cluster.create(CONFIGMAPS, {"metadata": {"name": name}})


def numbers(cluster: SimulatedCluster) -> dict[str, str]:
    data = {config_map["metadata"]["name"]: config_map.get("data") or {} for config_map in cluster.list(CONFIGMAPS)}
    return {name: each["number"] for name, each in data.items() if "number" in each}


def test_call_returns_the_result_of_the_function(cluster: SimulatedCluster) -> None:
    directory = Directory()
    cluster.calls.latency = 2.0
    cluster.manager(controllers=(enrolment(directory.add),))
    enrol(cluster, "a")
    cluster.run_for(1.5)
    assert directory.added == [], "it takes time"
    cluster.run_for(2.0)
    assert directory.added == ["a"]
    assert numbers(cluster) == {"a": "1"}
    assert [call.key for _, call in cluster.calls.made] == ["default/a"], "it is about the key that is reconciled"  # type: ignore[union-attr]


def test_a_coroutine_awaits_a_call(cluster: SimulatedCluster) -> None:
    directory = Directory()

    class Awaiting(Enrolment):
        async def reconcile(self, key: Key) -> None:  # type: ignore[override]
            if "data" not in (self._configmaps.get(key) or {"data": {}}):
                number = await call(self._add, key)
                await must(patch(CONFIGMAPS, key, {"data": {"number": str(number)}}))

    spec = enrolment(directory.add)
    cluster.manager(controllers=(replace(spec, build=lambda context: Awaiting(context.tables, directory.add)),))
    enrol(cluster, "a")
    cluster.run_for(2.0)
    assert (directory.added, numbers(cluster)) == (["default/a"], {"a": "1"})


def test_exception_of_a_called_function_is_retried(cluster: SimulatedCluster, logs: Any) -> None:
    cluster.manager(controllers=(enrolment(Directory().fail),))
    enrol(cluster, "a")
    cluster.run_for(5.0)
    assert len(cluster.calls.made) > 3
    errors = [entry["error"] for entry in logs.entries if "error" in entry]
    assert any("call Directory.fail: Raised: PermissionError: a (test_calls.py:" in error for error in errors)


def test_an_async_function_waits_on_virtual_time(cluster: SimulatedCluster) -> None:
    directory = Directory()
    cluster.manager(controllers=(enrolment(directory.add_slowly),))
    enrol(cluster, "a", "b")
    cluster.run_for(4.9)
    assert (directory.added, directory.under_way) == ([], 2)
    cluster.run_for(0.5)
    assert numbers(cluster) == {"a": "1", "b": "2"}


def test_concurrent_calls_are_limited_by_the_spec(cluster: SimulatedCluster) -> None:
    directory = Directory()
    cluster.manager(controllers=(enrolment(directory.add_slowly, calls=2),))
    enrol(cluster, *"abcdefg")
    cluster.run_for(60.0)
    assert directory.most == 2
    assert len(numbers(cluster)) == 7


def test_async_function_is_cancelled_after_its_timeout(cluster: SimulatedCluster, logs: Any) -> None:
    directory = Directory()
    cluster.manager(controllers=(enrolment(directory.add_slowly, timeout=2.0),))
    enrol(cluster, "a")
    cluster.run_for(3.0)
    assert directory.cancelled == ["a"]
    errors = [entry["error"] for entry in logs.entries if "error" in entry]
    assert any("Unknown: Directory.add_slowly default/a did not return within 2 s" in error for error in errors)


@pytest.mark.parametrize("end", ["killed", "disabled", "stopped"])
def test_calls_of_a_controller_that_ends_are_cancelled(cluster: SimulatedCluster, end: str) -> None:
    directory = Directory()
    system = cluster.manager(controllers=(enrolment(directory.add_slowly),))
    enrol(cluster, "a")
    cluster.run_for(2.0)
    match end:
        case "killed":
            cluster.world.kill(system.actors, "controller:enrolment-controller")
        case "disabled":
            system.disable("enrolment-controller")
        case _:
            system.halt()
    cluster.run_for(10.0)
    assert directory.cancelled == ["a"]
    assert directory.added == (["a"] if end == "killed" else []), "its successor calls again"


def test_no_call_is_made_without_the_lease(cluster: SimulatedCluster) -> None:
    directory = Directory()
    leader = Election(identity="one", namespace="kube-system", name="test")
    cluster.manager(controllers=(enrolment(directory.add),), election=leader)
    cluster.run_for(5.0)
    waiting = Directory()
    other = Election(identity="two", namespace="kube-system", name="test")
    cluster.manager(controllers=(enrolment(waiting.add),), election=other)
    enrol(cluster, "a")
    cluster.run_for(20.0)
    assert (directory.added, waiting.added) == (["a"], [])


@pytest.mark.parametrize(
    "fault, added",
    [
        ("call-lost most=1", ["a"]),
        ("answer-lost most=1", ["a", "a"]),
        ("call-repeated most=1", ["a", "a"]),
        ("call-answered most=1 status=500", ["a"]),
        ("call-delayed most=1 seconds=5", ["a"]),
        ("answer-delayed most=1 seconds=5", ["a"]),
        ("call-hung most=1 seconds=50", ["a", "a"]),
        ("call-lost resource=Directory.remove", ["a"]),
        ("call-lost most=1 object=default/a resource=Directory.*", ["a"]),
    ],
)
def test_calls_recover_from_faults(make_cluster: MakeCluster, fault: str, added: list[str]) -> None:
    directory, cluster = Directory(), make_cluster(faults=parse_faults(fault))
    cluster.manager(controllers=(enrolment(directory.add, timeout=10.0),))
    enrol(cluster, "a")
    cluster.run_for(100.0)
    assert directory.added == added
    assert len(numbers(cluster)) == 1
    assert bool(cluster.injector.struck) == ("remove" not in fault)


def test_calls_and_writes_go_together(cluster: SimulatedCluster) -> None:
    directory, answers = Directory(), list[Any]()

    class Both:
        def reconcile(self, key: Key) -> Reconciliation:
            wanted = [outside(directory.add, "x"), patch(CONFIGMAPS, key, {"data": {}}), outside(directory.fail, "y")]
            answers.append((yield wanted))

    spec = ControllerSpec(name="both", queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),), build=lambda _: Both())
    cluster.manager(controllers=(spec,))
    enrol(cluster, "a")
    cluster.run_for(1.0)
    first, second, third = answers[0]
    assert (answer_of(first), type(second)) == (1, Done)
    assert isinstance(third, Raised)
    assert third.is_a(OSError)


def test_a_fake_that_waits_for_the_real_world_ends_the_run(cluster: SimulatedCluster) -> None:
    import time

    def waits(_name: str) -> None:
        time.sleep(1.0)

    async def reads(_name: str) -> None:
        await asyncio.open_connection("localhost", 1)

    for function, text in ((waits, "time.sleep"), (reads, "the event loop's")):
        cluster = SimulatedCluster()
        cluster.manager(controllers=(enrolment(function),))
        enrol(cluster, "a")
        with pytest.raises(BlockingCallError, match=text):
            cluster.run_for(5.0)


# In the journal.


@pytest.fixture
def journal(tmp_path: Path, make_cluster: MakeCluster) -> Path:
    """Record the journal of a run in which the first response is lost."""
    path, directory = tmp_path / "journal", Directory()
    cluster = make_cluster(faults=parse_faults("answer-lost most=1"))
    writers: list[JournalWriter] = []

    def record(_name: str, system: ControllerSystem) -> None:
        run = RecordedRun(version="test", seed=0, arguments=[], controllers=["enrolment-controller"])
        writers.append(JournalWriter(path, run=run, clock=system.clock, largest=10_000_000, files=3))
        system.actors.journal = writers[-1]

    cluster.started.append(record)
    cluster.manager(controllers=(enrolment(directory.add),))
    enrol(cluster, "a", "b")
    cluster.run_for(60.0)
    assert sorted(directory.added) in (["a", "a", "b"], ["a", "b", "b"])
    writers[0].close()
    return path


def again(journal: Path, spec: ControllerSpec, log: Any) -> Any:
    records = list(read_journal(journal))
    return replay(records, spec.name, specs=(spec,), read_options=lambda _arguments: Options(), log=log)


def test_replay_uses_outcomes_of_the_journal_and_makes_no_calls(journal: Path, log: Any) -> None:
    directory = Directory()
    done = again(journal, enrolment(directory.add), log)
    assert done.difference is None
    assert done.batches == 5, "three calls and two patches"
    assert directory.added == []


def test_replay_shows_the_first_difference_of_changed_code(journal: Path, log: Any) -> None:
    class LoudEnrolment(Enrolment):
        def reconcile(self, key: Key) -> Reconciliation:
            number = yield from call(self._add, key.upper(), timeout=30)
            yield from must(patch(CONFIGMAPS, key, {"data": {"number": str(number)}}))

    spec = enrolment(Directory().add)
    changed = replace(spec, build=lambda context: LoudEnrolment(context.tables, Directory().add))
    done = again(journal, changed, log)
    assert done.batches == 0
    assert done.difference is not None
    lines = journal_command.difference_lines(done.difference)
    assert [line.strip(' +-,"') for line in lines if line[0] in "+-" and line[1] == " "] == ["a", "DEFAULT/A"]
    assert any('"function": "Directory.add"' in line for line in lines)


def test_calls_are_shown_with_arguments_and_outcomes(journal: Path) -> None:
    sent = [message_of(record) for record in read_journal(journal) if isinstance(record, MessageSent)]
    descriptions = [described(message) for message in sent]
    assert any(line.endswith("for enrolment default/a: Call Directory.add('a') default/a") for line in descriptions)
    assert any(line.endswith(": Done 2") for line in descriptions)
    assert any("Unknown Directory.add default/a did not return within 30 s" in line for line in descriptions)


def test_cloud_calls_and_other_calls_are_made_in_the_same_way(log: Any) -> None:
    directory = Directory()
    cluster = SimulatedCluster(log=log, cloud=FakeCloud())
    cluster.manager(controllers=(enrolment(directory.add),))
    enrol(cluster, "a")
    cluster.run_for(2.0)
    assert directory.added == ["a"]


def test_error_of_a_failed_call_contains_its_failure() -> None:
    err = CommandError(outside(len, "a"), Raised(("ValueError",), "ValueError: no"))
    assert isinstance(err.failure, Raised)
