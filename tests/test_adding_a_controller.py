"""The steps of docs/adding-a-controller.md, applied to a copy of the project."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adding-a-controller.md"
CONTROLLER = "actors/controllers/workloads/pod_census.py"
TRIALS = "tests/actors/simulation/trials/test_catalogue.py"
COPIED = ("kcm", "actors", "runtime", "protocols", "tests", "setup.cfg", "ruff.toml")
NEW = re.compile(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGED = re.compile(r"^`([\w/.]+)`[^\n]*:\n\n```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.timeout(180)  # several tests run a process that imports everything


def new_files() -> dict[str, str]:
    return dict(NEW.findall(PAGE.read_text(encoding="utf-8")))


def added_lines() -> dict[str, list[tuple[str, str]]]:
    """Return the added lines by file, each with the line before it."""
    changes: dict[str, list[tuple[str, str]]] = {}
    for path, diff in CHANGED.findall(PAGE.read_text(encoding="utf-8")):
        lines = diff.splitlines()
        assert {line[0] for line in lines} <= {" ", "+"}, "the page only adds"
        changes[path] = [(before[1:], line[1:]) for before, line in pairwise(lines) if line.startswith("+")]
    return changes


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project, and apply the steps of the page to the copy."""
    copy = tmp_path_factory.mktemp("project")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True)  # with compiled files, which are valid there too
        else:
            shutil.copy2(ROOT / name, copy / name)
    for path, text in new_files().items():
        assert not (copy / path).exists()
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text, encoding="utf-8")
    for path, additions in added_lines().items():
        text = (copy / path).read_text(encoding="utf-8")
        for before, line in additions:
            assert text.count(f"{before}\n") == 1, f"{path} has not exactly one line {before!r}"
            text = text.replace(f"{before}\n", f"{before}\n{line}\n")
        (copy / path).write_text(text, encoding="utf-8")
    run(copy, "ruff", "check", "--no-cache", "--quiet", "--fix", *added_lines())
    run(copy, "ruff", "format", "--no-cache", "--quiet", *added_lines())
    return copy


def run(project: Path, *command: str, succeeds: bool = True) -> str:
    """Run a module in the copy; return its output. Fails the test unless the result is that of `succeeds`."""
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
    return done.stdout


def test_new_controller_is_one_file_and_one_entry() -> None:
    production = [path for path in new_files() if path.startswith(("actors/", "runtime/")) and "simulation" not in path]
    assert production == [CONTROLLER]
    changed = added_lines()
    assert set(changed) == {"actors/controllers/built_in.py", "actors/simulation/trials/catalogue.py"}
    for path, additions in changed.items():
        imports = [line for _, line in additions if "import" in line]
        assert len(additions) - len(imports) == 1, f"{path}: one entry and its import"


def test_tests_of_the_new_controller_pass(project: Path) -> None:
    # The tests of the controller itself, and the tests of all trials for this controller.
    (tests,) = [path for path in new_files() if path.startswith("tests/")]
    chosen = f"{Path(tests).stem} or pod-census or has_a_trial"
    assert " passed" in run(project, "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, tests, TRIALS)


def test_new_controller_has_the_projects_style_and_imports(project: Path) -> None:
    assert "All checks passed" in run(project, "ruff", "check", "--no-cache", *new_files(), *added_lines())
    output = run(project, "ruff", "format", "--no-cache", "--check", *new_files(), *added_lines())
    assert "already formatted" in output


def test_new_controller_has_its_flags_and_its_name(project: Path) -> None:
    usage = run(project, "kcm.actors.command", "--help")
    assert "--pod-census-annotation" in usage
    assert "Pod-census-controller flags:" in usage


@pytest.mark.slow
def test_new_controller_passes_mypy(project: Path) -> None:
    if not (ROOT / ".mypy_cache").exists():
        pytest.skip("mypy would check everything anew; bin/run-tests has run it before")
    shutil.copytree(ROOT / ".mypy_cache", project / ".mypy_cache", dirs_exist_ok=True)
    files = [f"kcm/{path}" for path in new_files() if path.startswith("actors/")]
    assert "Success: no issues found" in run(project, "mypy", "--follow-imports=silent", *files)


def test_trial_of_the_new_controller_succeeds_with_faults(project: Path) -> None:
    assert ", 0 failed;" in run(project, "kcm.simulate", "--setting", "swarm", "--seeds", "1")


@pytest.mark.slow
def test_trial_fails_for_a_faulty_controller(project: Path) -> None:
    path = project / CONTROLLER
    good = path.read_text(encoding="utf-8")
    assert good.count("!= number:") == 1
    path.write_text(good.replace("!= number:", "is None:"), encoding="utf-8")  # writes the first number, and no other
    try:
        report = run(project, "kcm.simulate", "--setting", "swarm", "--seeds", "1", "--no-shrink", succeeds=False)
    finally:
        path.write_text(good, encoding="utf-8")
    assert "namespace default says 0, " in report


def importers_of(module: str) -> set[str]:
    """Return the source modules that import something from a controller, without the controller's own modules."""
    found = set()
    for path in (ROOT / "actors").rglob("*.py"):
        name = ".".join(("kcm", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if f"{name}.".startswith((f"{module}.", "kcm.actors.simulation.")):
            continue
        text = path.read_text(encoding="utf-8")
        if module.rpartition(".")[2] not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}." for alias in node.names]
                if any(each.startswith(f"{module}.") for each in imported):
                    found.add(name)
    return found


@pytest.mark.parametrize(
    ("controller", "shared_with"),
    [
        ("nodes.ttl", set()),
        ("nodes.node_ipam", {"kcm.actors.command.run_setup"}),  # the embedded server takes cluster IPs from its range
        ("workloads.replicaset", {"kcm.actors.controllers.workloads.replicationcontroller"}),
    ],
)
def test_controller_is_imported_only_by_its_entry(controller: str, shared_with: set[str]) -> None:
    assert importers_of(f"kcm.actors.controllers.{controller}") == {"kcm.actors.controllers.built_in", *shared_with}
