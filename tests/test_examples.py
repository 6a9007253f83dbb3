"""The examples run as they are written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PATIENCE = 50.0  # seconds
# Seeded runs that only run if KCM_SEEDS is set, as bin/run-tests --all does.
FAULTS = "test_website_faults.py::test_website_matches_its_spec_after"
MORE_SEEDS = (*(f"{FAULTS}_faults[{seed}]" for seed in range(1, 4)), f"{FAULTS}_drawn_user_actions")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    running = launch(ServerSettings(directory=tmp_path_factory.mktemp("server")))
    yield running
    running.stop()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Create a directory as pip would: a package with a controller, and a broken package."""
    (tmp_path / "website_controller.py").write_text((EXAMPLES / "website_controller.py").read_text())
    for package, entry in (("website", "website_controller:WEBSITE"), ("broken", "no_such_module:SPEC")):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kcm.controllers]\n{package} = {entry}\n")
    return tmp_path


def start(*command: str, path: Path = ROOT) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Return the output up to the line with these words."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"{words!r} is not in what it printed:\n{seen}")


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    return output


@pytest.mark.timeout(300)  # also on a busy machine
def test_tests_of_the_examples_pass() -> None:
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    left_out = () if "KCM_SEEDS" in os.environ else MORE_SEEDS
    deselected = [f"--deselect={test}" for test in left_out]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", *deselected, "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    complete = rf"^\d+ passed{f', {len(left_out)} deselected' if left_out else ''} in "
    assert re.search(complete, done.stdout, re.MULTILINE), f"none is skipped: {done.stdout}"


def test_manager_runs_inside_another_program(server: EmbeddedServer) -> None:
    process = start("examples/embed.py", str(server.kubeconfig))
    assert "replicaset-controller" in read_until(process, "running: ")
    assert "interrupted: all actors are stopped" in end(process)
    assert process.returncode == 0


def test_program_with_an_embedded_cluster_serves_metrics() -> None:
    process = start("examples/embed.py")
    url = read_until(process, "metrics: ").split()[-1]
    read_until(process, "running: ")
    with urllib.request.urlopen(url, timeout=PATIENCE) as page:
        assert b"workqueue_depth" in page.read()
    assert "interrupted: all actors are stopped" in end(process)
    assert process.returncode == 0


def test_installed_controller_is_enabled_by_the_controllers_flag(server: EmbeddedServer, installed: Path) -> None:
    flags = ("--secure-port=0", "--leader-elect=0", "--v=1")
    command = ("-P", "-m", "kcm.actors.command", f"--kubeconfig={server.kubeconfig}", *flags)
    process = start(*command, "--controllers=website", path=installed)
    seen = read_until(process, 'Controller starting..." controller="website-controller"')  # from --v=1
    end(process)
    assert process.returncode == 0
    assert (
        "controller broken (no_such_module:SPEC) is left out: ModuleNotFoundError: No module named 'no_such_module'"
        in seen
    )
    assert 'controller="deployment-controller"' not in seen
    process = start(*command, "--controllers=*,-website,-webside", path=installed)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert '"webside" is not in the list of known controllers' in output
    assert '"-website" is not' not in output
