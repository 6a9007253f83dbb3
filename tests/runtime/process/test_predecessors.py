from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcm.runtime.process.files import DirectoryInUseError
from kcm.runtime.process.predecessors import FILE, REMEMBERED, succeed

ROOT = Path(__file__).parents[3]
HOLD = """
import subprocess, sys
from pathlib import Path
from kcm.runtime.process.predecessors import succeed
with succeed(Path(sys.argv[1]), "first") as ended:
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, sorted(ended), flush=True)
    input()
"""


def test_previous_users_of_the_directory_are_returned(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    with succeed(directory, "a") as ended:
        assert ended == frozenset()
    with succeed(directory, "b") as ended:
        assert ended == {"a"}
    with succeed(directory, "c") as ended:
        assert ended == {"a", "b"}
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / FILE).stat().st_mode & 0o777 == 0o600


def test_number_of_remembered_predecessors_is_limited(tmp_path: Path) -> None:
    for number in range(REMEMBERED + 5):
        with succeed(tmp_path, f"n{number}") as ended:
            pass
    assert len(ended) == REMEMBERED
    assert "n0" not in ended


def test_killed_process_has_ended_even_if_its_children_live(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with first:
        assert first.stdout is not None
        child, _, ended = first.stdout.readline().strip().partition(" ")
        assert ended == "[]"
        with (
            pytest.raises(DirectoryInUseError, match=f"is in use by process {first.pid}$"),
            succeed(tmp_path, "second"),
        ):
            pytest.fail("the first one lives")
        first.kill()
        first.wait()
        with succeed(tmp_path, "second") as proven:
            assert proven == {"first"}
    subprocess.run(["kill", child], check=True)
