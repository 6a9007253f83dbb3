"""The example workflow for CI: its commands are run as GitHub Actions runs them; two clusters run at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubectl import Api
from tests.e2e.programs import PATIENCE, ROOT, ending, spawn, until

WORKFLOW = ROOT / "examples" / "github-actions.yml"
KCM = (sys.executable, "-P", "-m", "kcm.actors.command")


def steps() -> list[dict[str, Any]]:
    """Return the steps of the workflow that run commands."""
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return [step for step in jobs["test"]["steps"] if "run" in step]


def run_step(command: str, workspace: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step in a process group of its own, with the shell of GitHub Actions."""
    with subprocess.Popen(
        ["bash", "-e", "-c", command],
        cwd=workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        groups.append(process.pid)
        output, _ = process.communicate(timeout=2 * PATIENCE)
        return subprocess.CompletedProcess(command, process.returncode, output)


groups: list[int] = []


def end_groups() -> None:
    """End what the steps left running in the background, as the runner does after a job."""
    for group in groups:
        try:
            os.killpg(group, signal.SIGTERM)
        except ProcessLookupError:
            continue
        until(lambda group=group: not alive(group), "it has ended")  # type: ignore[misc]
    groups.clear()


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_commands_of_the_example_workflow_succeed(tmp_path: Path) -> None:
    workspace, temporary = tmp_path / "workspace", tmp_path / "temporary"
    workspace.mkdir()
    temporary.mkdir()
    (workspace / "kcm").symlink_to(ROOT)
    exported = tmp_path / "exported"
    exported.touch()
    environ = {**os.environ, "RUNNER_TEMP": str(temporary), "GITHUB_ENV": str(exported)}
    try:
        outputs = []
        for step in steps():
            if step.get("if") == "failure()":
                continue
            done = run_step(step["run"], workspace, environ)
            log = temporary / "kcm.log"
            assert done.returncode == 0, f"{step['name']}:\n{done.stdout}\n{log.read_text() if log.exists() else ''}"
            outputs.append(done.stdout)
            environ |= dict(line.split("=", 1) for line in exported.read_text().splitlines())
    finally:
        end_groups()
    assert "is ready: export KUBECONFIG=" in outputs[0]
    assert len(re.findall(r"^node/hollow-node-\d+ +Ready ", outputs[1], re.MULTILINE)) == 3
    assert len(re.findall(r"^pod/nginx-server-\S+ +2/2 +Running ", outputs[1], re.MULTILINE)) == 2


def test_two_clusters_in_memory_run_at_once_and_leave_nothing_behind(tmp_path: Path) -> None:
    command = [*KCM, "--embedded-in-memory", "--hollow-nodes=0"]
    programs = [spawn(command, tmp_path / f"{number}.log") for number in range(2)]
    with ending(programs[0]) as first, ending(programs[1]) as second:
        kubeconfigs = []
        for program in (first, second):
            until(lambda program=program: "Ctrl-C" in program.text(), "it greets", why=program.text)  # type: ignore[misc]
            found = re.search(r"export KUBECONFIG=(\S+)", program.text())
            assert found is not None
            kubeconfigs.append(Path(found[1]))
        assert len({Api(kubeconfig).url for kubeconfig in kubeconfigs}) == 2
        done = subprocess.run(
            [*KCM, "wait", f"--embedded-dir={kubeconfigs[1].parent}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"export KUBECONFIG={kubeconfigs[1]}" in done.stdout
        for program in (first, second):
            assert program.terminate() == 0
    assert [path for path in kubeconfigs if path.parent.exists()] == []


def test_wait_fails_at_once_when_a_manifest_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "refused.yml"
    # The kind is known to the server alone, so it is refused only once the server runs.
    manifest.write_text("apiVersion: example.dev/v1\nkind: Unknown\nmetadata: {name: x}\n")
    own = f"--embedded-dir={tmp_path / 'kcm'}"
    with ending(spawn([*KCM, own, "--embedded-in-memory", f"--apply={manifest}"], tmp_path / "log")) as program:
        command = [*KCM, "wait", own, "--timeout=30s"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert program.process.wait(PATIENCE) == 1
