"""The fixtures of the pytest plugin in another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
def test_the_world(world):
    assert world.clock.monotonic() == 0.0
"""


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_project.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.parametrize(
    "assertions",
    # pytest rewrites the assertions of all of kcm, which takes seconds if PYTHONDONTWRITEBYTECODE is set.
    ["plain", pytest.param("rewrite", marks=pytest.mark.slow)],
)
def test_another_project_has_the_fixtures_and_no_warnings(tmp_path: Path, assertions: str) -> None:
    done = run_pytest(tmp_path, f"--assert={assertions}")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "setting, error",
    [
        (
            "kcm_cluster_scope=world",
            "kcm_cluster_scope is one of session, package, module, class, function, not 'world'",
        ),
        ("kcm_hollow_nodes=two", "kcm_hollow_nodes is a number, not 'two'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_one_line(tmp_path: Path, setting: str, error: str) -> None:
    done = run_pytest(tmp_path, "-o", setting)
    assert done.returncode == 4
    assert done.stderr.strip() == f"ERROR: {error}"
