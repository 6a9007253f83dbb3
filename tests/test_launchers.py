from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SHELL = {"bin/run-kcm": "sh", "bin/run-tests": "sh", "bin/run-bench": "sh", ".ci/run": "bash"}


@pytest.fixture
def environment() -> ModuleType:
    """bin/environment.py, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "bin" / "environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with what an environment is made from."""
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(f"# {name}\n")
    return tmp_path


def make_environment(environment: ModuleType, root: Path, extra: str) -> None:
    """As install() leaves it, without installing."""
    python = environment.venv_python(root)
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text("")
    environment.stamp(root, extra).write_text(environment.fingerprint(root))


@pytest.mark.parametrize("launcher", SHELL)
def test_launchers_are_executable_and_good_shell(launcher: str) -> None:
    path = ROOT / launcher
    assert os.access(path, os.X_OK)
    done = subprocess.run([SHELL[launcher], "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("launcher", [name for name in SHELL if name.startswith("bin/")])
def test_a_launcher_finds_its_home_through_symbolic_links(launcher: str, tmp_path: Path) -> None:
    python3 = tmp_path / "python3"
    python3.write_text('#!/bin/sh\necho "$1"\nexit 1\n')
    python3.chmod(0o755)
    (tmp_path / "first").symlink_to(ROOT / launcher)
    (tmp_path / "second").symlink_to("first")
    traced = subprocess.run(
        ["sh", "-x", str(tmp_path / "second")],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"python3 {ROOT / 'bin' / 'environment.py'}" in traced.stderr


def test_an_environment_is_current_until_what_it_is_made_from_changes(environment: ModuleType, project: Path) -> None:
    assert not environment.is_current(project, "")
    make_environment(environment, project, "")
    assert environment.is_current(project, "")
    assert not environment.is_current(project, "dev")
    for name in ("setup.cfg", "pyproject.toml", "constraints.txt"):
        (project / name).write_text("# changed\n")
        assert not environment.is_current(project, "")
        make_environment(environment, project, "")
        assert environment.is_current(project, "")
    environment.venv_python(project).unlink()
    assert not environment.is_current(project, "")


def test_a_current_environment_is_used_as_it_is(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_environment(environment, project, "dev")
    monkeypatch.setattr(environment, "install", lambda *_: pytest.fail("nothing is to be installed"))
    assert environment.prepare(project, "dev") == project / ".venv" / "bin" / "python"


def test_of_two_that_start_at_once_one_installs(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = []

    def waited_for_the_other(*_: object) -> None:
        """While we waited for the lock, its holder made the environment."""
        make_environment(environment, project, "")

    monkeypatch.setattr(environment.fcntl, "flock", waited_for_the_other)
    monkeypatch.setattr(environment, "install", lambda *arguments: installed.append(arguments))
    environment.prepare(project, "")
    assert installed == []


def test_an_outdated_environment_is_installed_again(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    make_environment(environment, project, "")
    (project / ".venv" / "pyvenv.cfg").write_text("")
    (project / "constraints.txt").write_text("# newer\n")
    monkeypatch.setattr(environment, "run", commands.append)
    environment.prepare(project, "dev")
    (pip,) = commands  # the environment itself is there already
    assert pip[1:4] == ["-m", "pip", "install"]
    assert pip[-2:] == ["--editable", f"{project}[dev]"]
    assert environment.is_current(project, "dev")
    assert environment.is_current(project, "")


def test_a_checkout_that_cannot_be_written_says_so(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.os, "access", lambda *_: False)  # file modes do not bind the superuser
    with pytest.raises(environment.Unusable, match=r"cannot be written to, and its \.venv is missing or out of date"):
        environment.prepare(project, "")


@pytest.mark.parametrize(
    "version, has_ensurepip, says",
    [
        ((3, 10, 4), True, r"kcm needs Python 3\.11 or newer; .+ \(Python 3\.10\.4\) is too old"),
        ((3, 11, 2), False, r"has no ensurepip, .+: apt-get install python3-venv$"),
    ],
)
def test_a_python_that_will_not_do_says_so(
    environment: ModuleType, version: tuple[int, ...], has_ensurepip: bool, says: str
) -> None:
    with pytest.raises(environment.Unusable, match=says):
        environment.refuse_unusable_python(version=version, has_ensurepip=has_ensurepip)


def test_a_python_that_will_do_is_taken(environment: ModuleType) -> None:
    environment.refuse_unusable_python(version=(3, 11, 0), has_ensurepip=True)
    with pytest.raises(environment.Unusable, match="failed with status 3"):
        environment.run([sys.executable, "-c", "raise SystemExit(3)"])


def test_what_the_readme_names_is_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:examples|docs|bin)/[\w.-]+", readme)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_dependency_is_bounded_and_pinned() -> None:
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    needed = re.findall(r"^    ([A-Za-z][\w.-]*) (\S.*)$", setup.partition("install_requires")[2], re.MULTILINE)
    assert len(needed) > 10
    assert [name for name, bounds in needed if ">=" in bounds and "<" not in bounds] == []
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    wanted = [name.lower().replace("_", "-") for name, bounds in needed if ">=" in bounds]
    assert [name for name in wanted if f"\n{name}==" not in pinned] == []


def test_the_forge_tests_every_python_that_we_name() -> None:
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert f"python_requires = >={tested[0]}\n" in setup
    assert set(re.findall(r"Python :: (3\.\d+)$", setup, re.MULTILINE)) <= set(tested)


def test_the_forge_and_the_hooks_run_launchers_with_options_that_they_have() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    commands = [*steps, *(hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"])]
    launchers = {command.split()[0] for command in commands}
    assert launchers == {".ci/run", "bin/run-tests"}
    options = {word for command in commands for word in command.split() if word.startswith("--")} - {"--quiet"}
    usage = (ROOT / "bin/run-tests").read_text(encoding="utf-8")
    assert [option for option in options if f"    {option})" not in usage] == []


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_forms_are_good_yaml(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem != "config":
        fields = [field["id"] for field in content["body"]]
        assert len(fields) == len(set(fields))
        assert content["name"]
