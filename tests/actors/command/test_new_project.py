"""`run-kcm new`: the project's own tests pass, and manifests can be generated for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kcm.actors.command import run_kcm


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_tests_of_a_new_project_pass_and_it_has_manifests(tmp_path: Path) -> None:
    folder = tmp_path / "website-operator"
    assert run_kcm.main(["new", "website-operator", f"--directory={folder}", "--group=web.example.com"]) == 0
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kcm.actors.command", "manifests", "website_operator:SPEC", "--output=config"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (crd,) = yaml.safe_load_all((folder / "config" / "crds.yaml").read_text())
    assert crd["metadata"]["name"] == "websites.web.example.com"
    assert crd["spec"]["names"]["kind"] == "Website"
    (workflow,) = yaml.safe_load_all((folder / ".github/workflows/test.yml").read_text())
    assert workflow["jobs"]["test"]["steps"]


@pytest.mark.parametrize("arguments", [["Website"], ["a_b"], ["web", "--kind=web"], ["web", "--group=x"], []])
def test_malformed_arguments_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_kcm.main(["new", *arguments])
    assert end.value.code == 2
    assert "run-kcm new: error: " in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert run_kcm.main(["new", "web", f"--directory={tmp_path}"]) == 1
    assert capsys.readouterr().err == f"Error: {tmp_path} exists and is not empty\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    for name in ("class", "operator", "spec-operator"):
        assert run_kcm.main(["new", name, f"--directory={tmp_path / 'x'}"]) == 1
