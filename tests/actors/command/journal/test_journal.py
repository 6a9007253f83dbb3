"""A recorded run of a simulated cluster, as a table and replayed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.journal import command as journal_command
from kcm.actors.command.journal.history import JournalHistory
from kcm.actors.command.journal.replay import Replay, replay
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.codec import encode
from kcm.protocols.messages.commands import Create, Delete, Submit
from kcm.protocols.objects import decode_object, encode_object
from kcm.protocols.resources import DEPLOYMENTS, PODS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.system.journal import JournalError, JournalWriter, RecordedRun, read_journal
from kcm.runtime.system.journal_table import described, keys_in

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
        },
    },
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the journal of a rollout during which the ReplicaSet controller crashes."""
    path = tmp_path_factory.mktemp("recorded") / "journal"
    cluster = SimulatedCluster(seed=3, log=quiet_log())
    writers: list[JournalWriter] = []

    def record(name: str, system: ControllerSystem) -> None:
        if name == "manager":
            names = [spec.name for spec in BUILT_IN]
            run = RecordedRun(version="test", seed=3, arguments=[], controllers=names)
            clock = system.clock
            system.actors.journal = JournalWriter(path, run=run, clock=clock, largest=10_000_000, files=3)
            writers.append(system.actors.journal)

    cluster.started.append(record)
    cluster.hollow_nodes()
    system = cluster.manager()
    cluster.run_for(2)
    cluster.create(DEPLOYMENTS, DEPLOYMENT)
    cluster.run_for(20)
    image = {"containers": [{"name": "web", "image": "nginx:2"}]}
    cluster.request(
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/web",
        {"spec": {"template": {"spec": image}}},
        content_type="application/strategic-merge-patch+json",
    )
    cluster.run_for(0.05)
    cluster.world.kill(system.actors, "controller:replicaset-controller")
    cluster.run_for(60)
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.list(PODS)} == {"nginx:2"}
    writers[0].close()
    return path


@pytest.fixture
def journal(tmp_path: Path, recorded: Path) -> Path:
    """Copy the recorded journal, so that a test may modify it."""
    return Path(shutil.copytree(recorded.parent, tmp_path, dirs_exist_ok=True)) / recorded.name


def again(journal: Path, actor: str, log: Any, specs: tuple[ControllerSpec, ...] = BUILT_IN, **more: Any) -> Replay:
    records = list(read_journal(journal))
    return replay(records, actor, specs=specs, read_options=lambda _arguments: Options(), log=log, **more)


@pytest.mark.parametrize(
    "actor, incarnation, least",
    [("deployment-controller", None, 8), ("controller:replicaset-controller", 1, 6), ("replicaset-controller", 2, 1)],
)
def test_the_same_code_yields_the_same_commands(
    journal: Path, log: Any, actor: str, incarnation: int | None, least: int
) -> None:
    done = again(journal, actor, log, incarnation=incarnation)
    assert done.difference is None
    assert done.batches >= least
    assert done.handled > done.batches


class Spendthrift:
    """Reconciler with a bug: it labels every pod that it creates."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def reconcile(self, key: str) -> Iterator[Any]:
        steps, answer = self._inner.reconcile(key), None
        while True:
            try:
                yielded = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield [changed(step) for step in yielded] if isinstance(yielded, list) else yielded


def changed(command: Any) -> Any:
    if not isinstance(command, Create):
        return command
    pod = decode_object(command.body)
    pod["metadata"].setdefault("labels", {})["mutant"] = "true"
    return msgspec.structs.replace(command, body=encode_object(pod))


def mutated(name: str) -> tuple[ControllerSpec, ...]:
    def build(spec: ControllerSpec) -> Callable[[ControllerContext], Any]:
        return lambda around: Spendthrift(spec.build(around))

    return tuple(replace(spec, build=build(spec)) if spec.name == name else spec for spec in BUILT_IN)


def test_the_first_difference_is_shown(journal: Path, log: Any) -> None:
    done = again(journal, "replicaset-controller", log, mutated("replicaset-controller"), incarnation=1)
    assert done.batches == 0
    assert done.difference is not None
    lines = journal_command.difference_lines(done.difference)
    assert any("mutant" in line for line in lines if line.startswith("+"))
    assert not any("mutant" in line for line in lines if line.startswith("-"))
    assert done.difference.after is not None


@pytest.mark.parametrize(
    "actor, incarnation, error",
    [
        (
            "controller:no-controller",
            None,
            "controller:no-controller did not start in this run; controllers that did: controller:",
        ),
        ("replicaset-controller", 9, "incarnation 9 of controller:replicaset-controller did not start"),
    ],
)
def test_controller_missing_from_journal_is_an_error(
    journal: Path, log: Any, actor: str, incarnation: int | None, error: str
) -> None:
    with pytest.raises(JournalError, match=error):
        again(journal, actor, log, incarnation=incarnation)


def test_controller_is_replayed_without_other_controllers_of_the_run(journal: Path, log: Any) -> None:
    alone = tuple(spec for spec in BUILT_IN if spec.name == "replicaset-controller")
    done = again(journal, "replicaset-controller", log, specs=alone)
    assert done.difference is None
    assert done.batches >= 1
    with pytest.raises(JournalError, match="deployment-controller is not available: is the package"):
        again(journal, "deployment-controller", log, specs=alone)


def show(journal: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert journal_command.main(["show", str(journal), *arguments]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["TIME", "NUMBER", "CAUSE", "FROM", "TO", "MESSAGE"]
    return [line.split() for line in lines if line.split()[5] != "run"]


def test_table_shows_sender_receiver_message_and_cause(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(journal, capsys, "--actor", "controller:deployment-controller", "--object", "default/web")
    first = next(line for line in lines if "ADDED" in line)
    assert first[3:] == [
        "informer:apps/v1/deployments",
        "controller:deployment-controller",
        *["WatchEvents", "ADDED", "apps/v1/deployments", "default/web", "at", first[-1]],
    ]
    number = first[1]
    owed = [line for line in show(journal, capsys, "--actor", "controller:deployment-controller") if line[2] == number]
    assert [line[5] for line in owed] == ["Submit"]
    assert "Create apps/v1/replicasets default/web-" in " ".join(owed[0])


def test_the_table_is_filtered_by_time(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = show(journal, capsys)
    early = show(journal, capsys, "--until", "+10.5")
    late = show(journal, capsys, "--since", "+10.5")
    assert early
    assert late
    assert len(early) + len(late) == len(everything)
    assert early[-1][0] <= "2026-01-01T00:00:10.500000Z" <= late[0][0]
    absolute = show(journal, capsys, "--since", "2026-01-01T00:00:10.5Z")
    assert absolute == late


def test_every_message_of_the_run_has_a_line(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(journal, capsys)
    assert not [line for line in lines if "(cannot" in line]
    assert {line[5] for line in lines} >= {
        "WatchEvents",
        "Submit",
        "Settled",
        "Record",
        "Wake",
        "Streamed",
        "Subscribe",
    }


def test_replay_command_reports_its_result(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert journal_command.main(["replay", str(journal), "--actor", "controller:deployment-controller"]) == 0
    assert "No difference." in capsys.readouterr().out
    assert journal_command.main(["replay", str(journal), "--actor", "controller:none"]) == 2
    assert "Error: controller:none did not start in this run" in capsys.readouterr().err
    assert journal_command.main(["show", str(journal.parent / "other")]) == 2
    assert "Error: there is no journal" in capsys.readouterr().err
    assert journal_command.main(["show", str(journal), "--since", "yesterday"]) == 2
    assert "'yesterday' is neither a time" in capsys.readouterr().err


def test_truncated_journal_is_shown_up_to_its_end(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) // 2])
    assert journal_command.main(["show", str(journal)]) == 0
    shown = capsys.readouterr()
    assert "the rest of the file cannot be read" in shown.err
    assert len(shown.out.splitlines()) > 100


def test_an_unknown_message_is_a_line_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    run = RecordedRun(version="1", seed=1, arguments=[], controllers=[])
    writer = JournalWriter(path, run=run, clock=VirtualClock(), largest=1_000, files=1)
    writer.sent("a", "b", 1, encode(Create("v1/pods", "", b"no json")), None)
    writer.sent("a", "b", 1, b"\x93\xcd\xff\xff", None)
    writer.close()
    assert [line[5] for line in show(path, capsys)] == ["Create", "(cannot"]


def test_submit_names_its_queue_and_key() -> None:
    commands = (Delete("v1/pods", "default/web-1"),)
    submit = Submit("controller:x", 1, "x", 7, commands, queue="replicaset", key="default/web")
    assert described(submit).startswith("Submit 7 for replicaset default/web: Delete v1/pods default/web-1")
    assert keys_in(submit) == ["default/web", "default/web-1"]
    assert described(msgspec.structs.replace(submit, queue="monitor", key="")).startswith(
        "Submit 7 for monitor: Delete"
    )
    assert described(msgspec.structs.replace(submit, queue="", key="")).startswith("Submit 7: Delete")


def history_of(journal: Path) -> JournalHistory:
    records = list(read_journal(journal))
    return JournalHistory(records, specs=BUILT_IN, read_options=lambda _arguments: Options(), log=quiet_log())


def asked(history: JournalHistory, **query: Any) -> dict[str, Any]:
    return history.ask({name: [str(value)] for name, value in query.items()})


def test_history_shows_tables_and_queues_as_they_were(journal: Path) -> None:
    history, controller = history_of(journal), "deployment-controller"
    answer = asked(history, at=0, actor=f"controller:{controller}")
    while "ADDED apps/v1/deployments default/web" not in answer["step"]["text"]:
        assert answer["next"] is not None
        answer = asked(history, at=answer["next"], actor=f"controller:{controller}")
    at = answer["at"]
    tables = {table["id"]: table["objects"] for table in answer["tables"]}
    assert (tables[DEPLOYMENTS.id], tables["apps/v1/replicasets"], tables[PODS.id]) == (1, 0, 0)
    cause = asked(history, at=answer["step"]["cause"])
    assert (cause["at"], cause["step"]["receiver"]) == (answer["step"]["cause"], "informer:apps/v1/deployments")
    assert at in [sent["step"] for sent in cause["step"]["sent"]]
    shown = asked(history, at=at, controller=controller, table=DEPLOYMENTS.id, object="default/web")
    assert [(key["key"], key["state"]) for key in shown["queues"]] == [("default/web", "in work")]
    assert shown["queues"][0]["awaited"]
    assert shown["table"]["keys"] == [["default/web", shown["table"]["keys"][0][1]]]
    assert shown["table"]["object"]["spec"]["replicas"] == 3
    last = asked(history, at=history.steps, controller=controller)
    assert [(key["key"], key["state"]) for key in last["queues"]] == [("default/web", "delayed")]  # its deadline
    assert not last["differs"]
    assert asked(history, at=at, controller=controller)["queues"] == shown["queues"]


def test_history_rejects_unknown_names(journal: Path) -> None:
    history = history_of(journal)
    for query, error in (({"controller": "x"}, LookupError), ({"table": "x"}, LookupError), ({"at": "x"}, ValueError)):
        with pytest.raises(error):
            asked(history, **query)
