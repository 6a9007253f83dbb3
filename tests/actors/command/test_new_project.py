"""`run-kcm new`: the steps of the project's workflow pass in a fresh environment, and find what they should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from kcm.actors.command import run_kcm
from tests.test_distributions import built

UNREACHABLE = re.compile("Temporary failure in name resolution|Name or service not known|Network is unreachable")
KNOWN_ACTIONS = ("actions/checkout@", "actions/setup-python@")


def steps(folder: Path) -> list[tuple[str, str]]:
    """Return the name and the commands of the steps that the workflow runs, after those of its known actions."""
    workflow = yaml.safe_load((folder / ".github/workflows/test.yml").read_text())
    found = workflow["jobs"]["test"]["steps"]
    assert all("run" in step or step["uses"].startswith(KNOWN_ACTIONS) for step in found)
    return [(step.get("name", step["run"]), step["run"]) for step in found if "run" in step]


def run(commands: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub Actions does."""
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", commands]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_steps_of_the_workflow_of_a_new_project_pass(tmp_path: Path) -> None:
    folder, fresh = tmp_path / "website-operator", tmp_path / "environment"
    assert run_kcm.main(["new", "website-operator", f"--directory={folder}", "--group=web.example.com"]) == 0
    (folder / "wheels").mkdir()
    shutil.copy(built("build_wheel", tmp_path), folder / "wheels")
    venv.create(fresh, with_pip=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KCM_"))}
    environment |= {"PATH": f"{fresh / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    who = "-c user.name=test -c user.email=test@example.com"
    done = run(f"git init -q && git add . && git {who} commit -qm first", folder, environment)
    assert done.returncode == 0, done.stderr

    outputs = {}
    for name, commands in steps(folder):
        done = run(commands, folder, environment)
        if UNREACHABLE.search(done.stdout + done.stderr):
            pytest.skip("pip cannot reach its index")
        assert done.returncode == 0, name + done.stdout + done.stderr
        outputs[name] = done.stdout
    assert "7 passed" in outputs["python -m pytest"]
    assert run("git status --porcelain", folder, environment).stdout == "", "generated manifests are as new wrote them"

    # The check of the manifests finds a changed model, and manifests that were not committed.
    last, check = steps(folder)[-1]
    operator = folder / "website_operator.py"
    operator.write_text(operator.read_text().replace("max_length=200", "max_length=201"))
    assert run(check, folder, environment).returncode != 0, last
    assert run(f"git rm -q -r --cached config && git {who} commit -qm second", folder, environment).returncode == 0
    assert run(check, folder, environment).returncode != 0, last


def test_a_new_project_has_manifests_and_what_its_image_copies(tmp_path: Path) -> None:
    folder = tmp_path / "shop-operator"
    assert run_kcm.main(["new", "shop-operator", f"--directory={folder}", "--group=shop.example.com"]) == 0
    (crd,) = yaml.safe_load_all((folder / "config" / "crds.yaml").read_text())
    assert crd["metadata"]["name"] == "shops.shop.example.com"
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (folder / "Containerfile").read_text(), re.MULTILINE)
    assert copied == ["requirements.txt", "wheels", "shop_operator.py"]
    assert all((folder / path).exists() for path in copied if path != "wheels")
    (requirement,) = [
        line for line in (folder / "requirements.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert re.fullmatch(r"\./wheels/kcm-[\d.]+-py3-none-any\.whl", requirement), "the index has another kcm"


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
