"""Embedded cluster whose processes or directory disappear while run-kcm runs."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.programs import Manager, managing, stays, until
from tests.e2e.scenarios import workload

HOLLOW, SERVER = b"kcm.actors.hollow.process", b"kcm.runtime.apiserver.process"


@dataclass(frozen=True)
class Own:
    """Process run-kcm with an embedded cluster."""

    manager: Manager
    directory: Path

    def process(self, module: bytes) -> int | None:
        """Return the id of the child that runs this module, or None if no child does."""
        for pid in self.manager.program.descendants():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if module in words:
                return pid
        return None


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    with managing(tmp_path / "kcm.log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=2") as manager:
        yield Own(manager, tmp_path / "kcm")


def test_killed_hollow_cluster_is_logged_and_restarted(own: Own) -> None:
    kubectl = in_namespace(own.directory / "kubeconfig", "t")
    kubectl.apply(workload("Deployment", "web", 2, "web:1"))
    kubectl.until_pods(2)
    killed = own.process(HOLLOW)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    until(lambda: not own.manager.healthy(), "the health check says so", within=5.0, why=own.manager.program.text)
    until(own.manager.healthy, "it runs again", why=own.manager.program.text)
    text = own.manager.program.text()
    assert '"process is down, to be started again" process="hollow-cluster" reason="was killed by SIGKILL"' in text
    assert '"process was started again" process="hollow-cluster"' in text
    assert own.process(HOLLOW) not in (None, killed)
    kubectl.run("scale", "deployment", "web", "--replicas=4")
    kubectl.until_pods(4)
    assert own.manager.program.terminate() == 0
    stays(lambda: own.process(HOLLOW) is None, "no hollow cluster outlives it", seconds=1.0)


def test_a_directory_that_is_deleted_ends_the_run_with_its_reason(own: Own) -> None:
    shutil.rmtree(own.directory)
    assert own.manager.program.process.wait(20.0) == 1
    (failure,) = [line for line in own.manager.program.text().splitlines() if '"command failed"' in line]
    assert f"{own.directory} was deleted, moved or replaced while the embedded cluster ran" in failure
    assert own.process(SERVER) is None
    assert not own.directory.exists()


def test_a_server_that_was_killed_ends_the_run_with_its_reason(own: Own) -> None:
    killed = own.process(SERVER)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert own.manager.program.process.wait(20.0) == 1
    assert "the embedded API server was killed by SIGKILL" in own.manager.program.text()
