"""Child processes that end with their parent."""

from __future__ import annotations

from pathlib import Path
from select import select

import pytest

from kcm.runtime.process.children import ChildProcess, start_module

TIMEOUT = 30.0  # seconds, on a busy machine

POLITE = "import sys\nprint(sys.argv[1], flush=True)\nsys.stdin.read()\nprint('ended', flush=True)\nsys.exit(3)"
RESPONDS = """
import time
from kcm.runtime.process.termination import with_parent
ended = with_parent(lambda body: body and (time.sleep(float(body)) or b"slept " + body))
ended.wait(60.0)
"""
STUBBORN = "import sys, time\nprint('up', flush=True)\ntime.sleep(600)"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "polite.py").write_text(POLITE)
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "responds.py").write_text(RESPONDS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def line(child: ChildProcess) -> str:
    assert child.words is not None
    return child.words.readline().decode().strip()


@pytest.mark.usefixtures("modules")
def test_child_ends_when_its_standard_input_is_closed() -> None:
    child = start_module("polite", ["hello"], read=True)
    assert line(child) == "hello"
    assert child.exit_code is None
    child.stop(TIMEOUT)
    assert child.exit_code == 3


@pytest.mark.usefixtures("modules")
def test_a_child_that_does_not_end_in_time_is_killed() -> None:
    child = start_module("stubborn", [], read=True)
    assert line(child) == "up"
    child.stop(0.05)
    assert child.exit_code == -9


@pytest.mark.usefixtures("modules")
def test_a_killed_child_is_waited_for() -> None:
    child = start_module("stubborn", [], read=True)
    child.kill()
    assert child.wait() == -9


@pytest.mark.slow
@pytest.mark.usefixtures("modules")
def test_child_responds_to_one_request_after_the_other() -> None:
    child = start_module("responds", [], read=True)
    assert child.request(b"0", TIMEOUT) == b"slept 0"
    assert child.request(b"", TIMEOUT) is None, "an empty response is none"
    assert child.request(b"1.5", 0.01) is None, "it is late"
    assert child.request(b"0", 0.01) is None, "the earlier request has no response yet"
    assert child.words is not None
    select([child.words], [], [], TIMEOUT)
    assert child.request(b"0.0", TIMEOUT) == b"slept 0.0", "the late response was skipped"
    child.stop(TIMEOUT)
    assert child.exit_code == 0
    assert child.request(b"0", 0.01) is None, "it has ended"


@pytest.mark.slow
@pytest.mark.usefixtures("modules")
def test_child_ends_if_its_parent_ends_before_the_response() -> None:
    child = start_module("responds", [], read=True)
    assert child.request(b"0.5", 0.01) is None
    assert child.words is not None
    child.words.close()
    child.stop(TIMEOUT)
    assert child.exit_code == 0


def test_child_imports_kcm_and_not_modules_of_its_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "__init__.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    child = start_module("kcm.runtime.process.files", [])
    child.stop(TIMEOUT)
    assert child.exit_code == 0
