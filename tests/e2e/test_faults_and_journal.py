"""Fault plan and journal of run-kcm, by its command line."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from tests.e2e.forks import Forks
from tests.e2e.kubectl import Api
from tests.e2e.programs import ending, run_kcm, until

PLAN = """
seed: 7
faults:
  - {kind: zone-silent, start: 1s, object: zone-a}
  - {kind: actor-crashed, actor: "controller:deployment-controller", most: 1}
  - {kind: command-answered, resource: pods, status: 500, rate: 0.3, until: 5s}
"""
SILENT = "hollow.kcm.dev/silent"


def test_run_with_faults_completes_and_its_journal_contains_them(tmp_path: Path, forks: Forks) -> None:
    plan, journal, directory = tmp_path / "plan.yml", tmp_path / "journal", tmp_path / "kcm"
    plan.write_text(PLAN)
    flags = (
        f"--embedded-dir={directory}",
        "--apply=examples/redis-deployment.yml",
        f"--fault-plan={plan}",
        f"--journal={journal}",
    )
    manager = run_kcm(tmp_path / "output", *flags)
    with ending(manager.program):
        api = Api(directory / "kubeconfig")
        until(lambda: "export KUBECONFIG" in manager.program.text(), "its cluster is there", why=manager.program.text)

        def silent() -> list[str]:
            nodes = api.get("/api/v1/nodes")["items"]
            return [node["metadata"]["name"] for node in nodes if node["metadata"].get("annotations", {}).get(SILENT)]

        zone = ["hollow-node-0", "hollow-node-2"]
        until(lambda: silent() == zone, "zone-a is silent", why=manager.program.text)

        def replicas() -> int:
            deployment = api.get("/apis/apps/v1/namespaces/default/deployments/redis")
            found: int = deployment.get("status", {}).get("replicas", 0)
            return found

        until(lambda: replicas() == 1, "the Deployment has its pod", why=manager.program.text)
        manager.program.process.send_signal(signal.SIGTERM)
        assert manager.program.process.wait(30) == 0
        output = manager.program.text()
    assert "faults are injected into this run" in output
    assert "InjectedError: crashed by the fault plan" in output
    assert '"faults are over"' in output

    shown = forks.run("journal", "show", str(journal), "--actor", "controller:deployment-controller")
    assert shown.returncode == 0, shown.stderr
    assert "Create apps/v1/replicasets default/redis-" in shown.stdout
    failed = forks.run("journal", "show", str(journal), "--actor", "controller-manager")
    assert "ActorFailed name=controller:deployment-controller incarnation=1" in failed.stdout
    replayed = forks.run("journal", "replay", str(journal), "--actor", "controller:deployment-controller")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "No difference." in replayed.stdout


@pytest.mark.parametrize(
    "flags, plan, error",
    [
        (("--kubeconfig=/none",), PLAN, "--fault-plan requires the embedded cluster"),
        (("--master=http://127.0.0.1:1",), PLAN, "--fault-plan requires the embedded cluster"),
        ((), "faults: [{kind: zone-silence}]", "plan.yml: faults[0]: there is no kind 'zone-silence'"),
        ((), "faults: [process-crashed]", "process-crashed is for the simulator: kill the process by hand"),
        (("--kubeconfig=/none", "--fault-plan-on-any-cluster"), PLAN, "stat /none: no such file or directory"),
    ],
)
def test_a_plan_that_may_not_or_cannot_be_used_is_one_line(
    tmp_path: Path, flags: tuple[str, ...], plan: str, error: str, forks: Forks
) -> None:
    path = tmp_path / "plan.yml"
    path.write_text(plan)
    done = forks.run(f"--fault-plan={path}", f"--embedded-dir={tmp_path / 'kcm'}", "--secure-port=0", *flags)
    assert done.returncode == 1
    assert error in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "kcm").exists()


def test_a_journal_that_cannot_be_written_is_one_line(tmp_path: Path, forks: Forks) -> None:
    journal = tmp_path / "none" / "journal"
    done = forks.run(
        f"--journal={journal}", f"--embedded-dir={tmp_path / 'kcm'}", "--secure-port=0", "--hollow-nodes=0"
    )
    assert done.returncode == 1
    assert f"cannot write the journal {journal}: No such file or directory" in done.stderr
    assert not (tmp_path / "kcm").exists()


def test_a_journal_takes_no_other_files_place_and_nothing_is_started(tmp_path: Path, forks: Forks) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary\n")
    done = forks.run(f"--journal={diary}", f"--embedded-dir={tmp_path / 'kcm'}", "--secure-port=0", "--hollow-nodes=0")
    assert done.returncode == 1
    assert f"{diary} is no journal" in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"diary"}
    assert diary.read_text() == "dear diary\n"


def test_run_continues_after_its_journal_ends_and_logs_it(tmp_path: Path) -> None:
    """The limit on a file's size stands for a full disk: the kernel refuses the write. It is more than is logged."""
    journal, directory = tmp_path / "journal", tmp_path / "kcm"
    flags = (f"--embedded-dir={directory}", f"--journal={journal}", "--apply=examples/redis-deployment.yml")
    manager = run_kcm(tmp_path / "output", *flags)
    with ending(manager.program):
        # Of the manager alone: the processes of its cluster have been started by then.
        until(lambda: journal.exists(), "the journal has begun", why=manager.program.text)
        most = journal.stat().st_size + 128 * 1024
        resource.prlimit(manager.program.process.pid, resource.RLIMIT_FSIZE, (most, most))
        until(
            lambda: "journal is incomplete, continuing without it" in manager.program.text(),
            "the end of the journal is said",
            why=manager.program.text,
        )
        assert manager.metric("kcm_journal_writing") == 0
        until(manager.healthy, "the work goes on", why=manager.program.text)
        manager.program.process.send_signal(signal.SIGTERM)
        assert manager.program.process.wait(30) == 0
    assert manager.program.text().count("journal is incomplete") == 1
