from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SHELL = {
    "bin/run-kcm": "sh",
    "bin/kubectl-why": "sh",
    "bin/check": "sh",
    "bin/run-tests": "sh",
    "bin/test": "sh",
    "bin/run-bench": "sh",
    "bin/run-conformance": "sh",
    "bin/lock-requirements": "sh",
    ".ci/run": "bash",
}
MADE_FROM = ("setup.cfg", "pyproject.toml", "requirements/run.txt", "requirements/dev.txt")


PIP = (
    "Collecting one==1\n",
    "  Using cached one.whl\n",
    "Processing /two.whl\n",
    "Installing collected packages: one\n",
)


@pytest.fixture
def environment() -> ModuleType:
    """Import bin/environment.py, a script outside of all packages."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "bin" / "environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a directory with the files that determine an environment."""
    (tmp_path / "requirements").mkdir()
    for name in MADE_FROM:
        (tmp_path / name).write_text(f"[metadata]\nname = {name}\n")
    return tmp_path


@pytest.fixture
def commands(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record commands instead of running them, and create the environments that they would create."""
    ran: list[list[str]] = []

    def pretend(command: list[str], take: Callable[[str], None] | None = None) -> None:
        ran.append(command)
        for line in PIP if take is not None else ():
            take(line)
        if command[1:3] == ["-m", "venv"]:
            (Path(command[-1]) / "bin").mkdir()
            (Path(command[-1]) / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environment, "run", pretend)
    return ran


@pytest.mark.parametrize("launcher", SHELL)
def test_launchers_are_executable_and_valid_shell(launcher: str) -> None:
    path = ROOT / launcher
    assert os.access(path, os.X_OK)
    done = subprocess.run([SHELL[launcher], "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("launcher", [name for name in SHELL if name.startswith("bin/run-")])
def test_launcher_finds_the_project_through_symbolic_links(launcher: str, tmp_path: Path) -> None:
    python3 = tmp_path / "python3"
    python3.write_text('#!/bin/sh\necho "$1"\nexit 1\n')
    python3.chmod(0o755)
    (tmp_path / "first").symlink_to(ROOT / launcher)
    (tmp_path / "second").symlink_to("first")
    traced = subprocess.run(
        ["sh", "-x", str(tmp_path / "second"), "--version"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    program = "launch.py" if "/launch.py " in traced.stderr else "environment.py"
    assert f" -I -S {ROOT / 'bin' / program}" in traced.stderr


def made(environment: ModuleType, project: Path, extra: str) -> Path:
    """Return the environment that a launcher would use, without a lock on it."""
    found, held = environment.prepare(project, extra)
    os.close(held)
    assert isinstance(found, Path)
    return found


def test_environment_is_installed_once_from_wheels_with_hashes(
    environment: ModuleType, project: Path, commands: list[list[str]]
) -> None:
    first = made(environment, project, "dev")
    venv, wheels, kcm, bytecode = commands
    assert venv == [sys.executable, "-m", "venv", str(first)]
    assert wheels[:4] == kcm[:4] == [str(first / "bin" / "python"), "-m", "pip", "install"]
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(wheels)
    assert wheels[-1] == str(project / "requirements" / "dev.txt")
    # The build downloads nothing, because its backend is among the verified packages.
    assert {"--no-index", "--no-build-isolation", "--no-deps"} <= set(kcm)
    assert kcm[-2:] == ["--editable", f"{project}[dev]"]
    assert bytecode[1:4] == ["-m", "compileall", "-qq"]
    assert {str(project / name) for name in environment.PACKAGES} <= set(bytecode)
    assert made(environment, project, "dev") == made(environment, project, "") == first
    assert len(commands) == 4
    assert (project / ".venv").resolve() == first


@pytest.mark.parametrize("name", ["setup.cfg", "pyproject.toml", "requirements/run.txt"])
def test_changed_requirements_cause_a_new_environment(
    environment: ModuleType, project: Path, commands: list[list[str]], name: str
) -> None:
    before = made(environment, project, "")
    (project / name).write_text("[metadata]\nname = changed\n")
    after = made(environment, project, "")
    assert after != before
    assert (project / ".venv").resolve() == after
    assert before.exists(), "who was in it without a lock may still be"


def test_change_of_tool_settings_does_not_cause_a_new_installation(
    environment: ModuleType, project: Path, commands: list[list[str]]
) -> None:
    before = made(environment, project, "")
    with (project / "setup.cfg").open("a") as setup:
        setup.write("[mypy]\nstrict = True\n")
    assert made(environment, project, "") == before


def test_environment_of_another_python_is_replaced(
    environment: ModuleType, project: Path, commands: list[list[str]], tmp_path: Path
) -> None:
    before = made(environment, project, "")
    python = environment.python_of(before)
    newer = tmp_path / "newer"
    newer.write_text("#!/bin/sh\necho cpython-399 linux-x86_64 somewhere\n")
    newer.chmod(0o755)
    python.unlink()
    python.symlink_to(newer)
    after = made(environment, project, "")
    assert after != before
    environment.python_of(after).unlink()
    assert made(environment, project, "") != after


def test_environment_with_a_repaired_python_is_kept(
    environment: ModuleType, project: Path, commands: list[list[str]], tmp_path: Path
) -> None:
    before = made(environment, project, "")
    description = environment.described(environment.python_of(before))
    assert description.startswith(sys.implementation.cache_tag)
    same = tmp_path / "same"
    same.write_text(f"#!/bin/sh\necho '{description}'\n")
    same.chmod(0o755)
    environment.python_of(before).unlink()
    environment.python_of(before).symlink_to(same)
    assert made(environment, project, "") == before


def test_environment_with_a_missing_file_is_replaced(
    environment: ModuleType, project: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend = environment.run

    def install(command: list[str], take: Callable[[str], None] | None = None) -> None:
        pretend(command)
        if "--editable" in command:
            package = Path(command[0]).parents[1] / "lib" / "package"
            package.mkdir(parents=True)
            (package / "module.py").touch()
            (package / "__pycache__").mkdir()
            (package / "__pycache__" / "module.pyc").touch()

    monkeypatch.setattr(environment, "run", install)
    before = made(environment, project, "")
    (before / "lib" / "package" / "another.py").touch()
    (before / "lib" / "package" / "__pycache__" / "module.pyc").unlink()
    assert made(environment, project, "") == before
    (before / "lib" / "package" / "module.py").unlink()
    assert made(environment, project, "") != before


# A Python that logs its arguments. The first start, of the launcher itself, runs the real Python.
LOGGING_PYTHON = """#!/bin/sh
echo "$@" >>{log}
case $1 in -I) exec {python} "$@" ;; esac
"""


@pytest.fixture
def launched(environment: ModuleType, project: Path, tmp_path: Path) -> Callable[[], list[str]]:
    """Return a function that runs a copy of bin/run-kcm, and returns the command lines of all started Pythons."""
    shutil.copytree(ROOT / "bin", project / "bin")
    log, elsewhere = tmp_path / "log", tmp_path / "elsewhere"
    script = LOGGING_PYTHON.format(log=log, python=sys.executable)
    within = project / ".venvs" / "it"
    for directory in (within / "bin", within / "lib" / "package", elsewhere):
        directory.mkdir(parents=True)
    for path, text in (
        (within / "bin" / "python", script),
        (elsewhere / "python3", f"#!/bin/sh\necho other >>{log}\n"),
    ):
        path.write_text(text)
        path.chmod(0o755)
    (project / ".venv").symlink_to(within)
    python = environment.python_of(within)
    environment.write_stamp(
        within, environment.fingerprint(project, ""), "", environment.identity(python), environment.described(python)
    )
    environment.note_facts(within, project)

    def run() -> list[str]:
        log.write_text("")
        path = f"{elsewhere}:{os.environ['PATH']}"
        subprocess.run([project / "bin" / "run-kcm", "--help"], env={**os.environ, "PATH": path}, check=True)
        return log.read_text().splitlines()

    return run


def test_launch_starts_python_twice_and_no_other_program(launched: Callable[[], list[str]], project: Path) -> None:
    assert launched() == [
        f"-I -S {project / 'bin' / 'launch.py'}  -- python -P -m kcm.actors.command --help",
        "-P -m kcm.actors.command --help",
    ]


CHANGES: dict[str, Callable[[Path], object]] = {
    "what it is made from": lambda project: (project / "setup.cfg").write_text("[metadata]\nname = changed\n"),
    "something removed": lambda project: (project / ".venv" / "lib" / "package").rmdir(),
    "something added": lambda project: (project / ".venv" / "lib" / "package" / "module.py").touch(),
    "no facts": lambda project: (project / ".venv" / "kcm.facts").unlink(),
    "another place": lambda project: (project / ".venv" / "kcm.facts").write_text("/elsewhere\n\n"),
    "for another extra": lambda project: (project / ".venv" / "kcm.facts").write_text(f"{project}\nother\n"),
    "no Python": lambda project: (project / ".venv" / "bin" / "python").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_launch_checks_the_whole_environment_after_a_change(
    launched: Callable[[], list[str]], project: Path, change: str
) -> None:
    CHANGES[change](project)
    assert launched()[-1] == "other"  # python3, for bin/environment.py


def test_environment_in_use_is_not_removed(environment: ModuleType, project: Path, commands: list[list[str]]) -> None:
    running, held = environment.prepare(project, "")
    lock = project / "requirements" / "run.txt"
    for version in "12":
        lock.write_text(version)
        unused = made(environment, project, "")
    lock.write_text("3")
    last = made(environment, project, "")
    assert {running, unused, last} == set((project / ".venvs").iterdir())
    os.close(held)
    lock.write_text("4")
    assert {last, made(environment, project, "")} == set((project / ".venvs").iterdir())


def test_interrupted_installation_leaves_nothing(
    environment: ModuleType, project: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made(environment, project, "")
    (project / "requirements" / "run.txt").write_text("newer")

    def stop(*_: object) -> None:
        raise environment.EndedBySignal(2)

    monkeypatch.setattr(environment, "run", stop)
    with pytest.raises(environment.EndedBySignal):
        environment.prepare(project, "")
    assert list((project / ".venvs").iterdir()) == [before]
    assert (project / ".venv").resolve() == before


def test_foreign_environment_is_not_changed(environment: ModuleType, project: Path, commands: list[list[str]]) -> None:
    (project / ".venv").mkdir()
    assert made(environment, project, "").parent == project / ".venvs"
    assert not (project / ".venv").is_symlink()


def test_environment_of_an_older_version_is_removed(
    environment: ModuleType, project: Path, commands: list[list[str]]
) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "kcm-base.stamp").write_text("of before")
    made_now = made(environment, project, "")
    assert (project / ".venv").resolve() == made_now
    (kept,) = set((project / ".venvs").iterdir()) - {made_now}
    assert (kept / "kcm-base.stamp").exists(), "somebody may run in it"


def test_only_one_of_two_simultaneous_launches_installs(
    environment: ModuleType, project: Path, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, waiting = environment.fcntl.flock, []

    def the_other_was_first(descriptor: int, how: int) -> None:
        """Simulate that the holder of the lock makes the environment meanwhile."""
        if os.fstat(descriptor).st_ino == project.stat().st_ino and not waiting:
            waiting.append(how)
            os.close(environment.make(project, "")[1])
        flock(descriptor, how)

    monkeypatch.setattr(environment.fcntl, "flock", the_other_was_first)
    made(environment, project, "")
    assert len(waiting) == 1
    assert len(commands) == 4


def test_unwritable_checkout_without_environment_names_two_ways_out(
    environment: ModuleType, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.os, "access", lambda *_: False)  # file modes do not bind the superuser
    with pytest.raises(environment.Unusable) as refused:
        environment.prepare(project, "")
    text = str(refused.value)
    assert f"{project} cannot be written to, and its environment in .venvs is missing or out of date" in text
    assert f"its owner ({project.owner()}) runs `python3 {project}/bin/environment.py ''` once" in text
    assert f"cp -R {project} ~/kcm, then ~/kcm/bin/run-kcm" in text


def test_installation_without_a_terminal_logs_its_steps(
    environment: ModuleType,
    project: Path,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(environment, "EVERY", 2)
    (project / "requirements" / "run.txt").write_text(
        "one==1 \\\n    --hash=sha256:1\ntwo==2 \\\n    --hash=sha256:2\n"
    )
    made(environment, project, "")
    assert capsys.readouterr().err.splitlines()[1:] == [
        "kcm: 1/5 creating a virtual environment",
        "kcm: 2/5 fetching packages",
        "kcm: 2/5 fetching packages: 2 of 2",
        "kcm: 3/5 installing packages",
        "kcm: 4/5 installing kcm",
        "kcm: 5/5 compiling",
    ]


def test_output_of_pip_is_shown_only_if_it_fails(environment: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    taken: list[str] = []
    environment.run([sys.executable, "-c", "print('fetched')"], taken.append)
    assert (taken, capfd.readouterr().err) == (["fetched\n"], "")
    with pytest.raises(environment.Unusable, match="failed with status 3"):
        environment.run([sys.executable, "-c", "import sys; print('no such hash', file=sys.stderr); sys.exit(3)"], str)
    assert capfd.readouterr().err == "no such hash\n"


def test_installation_on_a_terminal_overwrites_one_line(
    environment: ModuleType,
    project: Path,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (project / "requirements" / "run.txt").write_text("one==1\ntwo==2\n")
    made(environment, project, "")
    _, _, shown = capsys.readouterr().err.partition("\n")
    assert "\n" not in shown
    texts = shown.split("\r\x1b[K")
    assert texts[3:5] == ["kcm: 2/5 fetching packages: 1 of 2", "kcm: 2/5 fetching packages: 2 of 2"]
    assert texts[-1] == ""


def test_ctrl_c_during_installation_prints_one_line(project: Path) -> None:
    shutil.copytree(ROOT / "bin", project / "bin")
    launched = subprocess.Popen(
        ["sh", project / "bin" / "run-kcm"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with launched as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("kcm: installing what it needs into ")
        assert process.stderr.readline() == "kcm: 1/5 creating a virtual environment\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all in the foreground
        assert process.stderr.read() == "kcm: interrupted\n"
        assert process.wait() == 130
    assert list((project / ".venvs").iterdir()) == []


def test_ctrl_c_during_imports_prints_one_line() -> None:
    def interrupted_already() -> None:
        """Simulate Ctrl-C while bin/environment.py starts the program."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.kill(os.getpid(), signal.SIGINT)

    command = [sys.executable, "-P", "-m", "kcm.actors.command", "--help"]
    done = subprocess.run(
        command, cwd=ROOT, preexec_fn=interrupted_already, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "kcm: interrupted\n")


def test_program_locks_its_environment_and_receives_ctrl_c(environment: ModuleType, project: Path) -> None:
    # Signals that were blocked while the environment was prepared must be unblocked in the program.
    within = project / ".venvs" / "it"
    (within / "bin").mkdir(parents=True)
    (within / "bin" / "python").symlink_to(sys.executable)
    code = "import signal; print(signal.getsignal(2), signal.pthread_sigmask(0, []), flush=True); input()"
    become = f"import environment, pathlib; it = pathlib.Path({str(within)!r})"
    become += f"; environment.become(['python', '-c', {code!r}], it, environment.hold(it))"
    program = subprocess.Popen(
        [sys.executable, "-c", become], cwd=ROOT / "bin", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "<built-in function default_int_handler> set()\n"
        assert environment.hold(within, alone=True) is None
    held = environment.hold(within, alone=True)
    assert held is not None
    os.close(held)


@pytest.mark.parametrize(
    "version, has_ensurepip, says",
    [
        ((3, 10, 4), True, r"Python 3\.11 or newer is needed; .+ \(Python 3\.10\.4\) is too old"),
        ((3, 11, 2), False, r"has no ensurepip, .+: apt-get install python3-venv$"),
    ],
)
def test_unsupported_python_is_reported(
    environment: ModuleType, version: tuple[int, ...], has_ensurepip: bool, says: str
) -> None:
    with pytest.raises(environment.Unusable, match=says):
        environment.refuse_unusable_python(version=version, has_ensurepip=has_ensurepip)


def test_supported_python_is_accepted(environment: ModuleType) -> None:
    environment.refuse_unusable_python(version=(3, 11, 0), has_ensurepip=True)
    with pytest.raises(environment.Unusable, match="failed with status 3"):
        environment.run([sys.executable, "-c", "raise SystemExit(3)"])


def test_files_named_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:examples|docs|bin)/[\w.-]+", readme)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_dependency_has_bounds_and_a_pin() -> None:
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    needed = re.findall(r"^    ([A-Za-z][\w.-]*) (\S.*)$", setup.partition("install_requires")[2], re.MULTILINE)
    assert len(needed) > 10
    assert [name for name, bounds in needed if ">=" in bounds and "<" not in bounds] == []
    pinned = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    wanted = [name.lower().replace("_", "-") for name, bounds in needed if ">=" in bounds]
    assert [name for name in wanted if f"\n{name}==" not in pinned] == []


def pins(file: str) -> dict[str, str]:
    """Return the pinned versions by package, each of which has hashes."""
    text = (ROOT / file).read_text(encoding="utf-8")
    blocks = re.findall(
        r"^([\w.-]+)==([^ ]+)[^\n]*\\\n((?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    named = re.findall(r"^[\w.-]+", text, re.MULTILINE)
    assert [name for name, _, _ in blocks] == named
    return {name: version for name, version, _ in blocks}


def test_every_pin_has_hashes_and_the_two_lists_agree() -> None:
    run, dev = pins("requirements/run.txt"), pins("requirements/dev.txt")
    assert len(run) > 10
    assert run.items() <= dev.items()


def test_build_backend_is_pinned() -> None:
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert backend == f"setuptools=={pins('requirements/run.txt')['setuptools']}"


def test_ci_tests_every_supported_python() -> None:
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert f"python_requires = >={tested[0]}\n" in setup
    assert set(re.findall(r"Python :: (3\.\d+)$", setup, re.MULTILINE)) <= set(tested)


def test_ci_and_hooks_run_launchers_with_existing_options() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    commands = [*steps, *(hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"])]
    launchers = {command.split()[0] for command in commands}
    assert launchers == {".ci/run", "bin/check", "bin/run-tests"}
    options = {word for command in commands for word in command.split() if word.startswith("--")} - {"--quiet"}
    usage = (ROOT / "bin/run-tests").read_text(encoding="utf-8")
    assert [option for option in options if f"    {option})" not in usage] == []


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_forms_are_valid_yaml(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem != "config":
        fields = [field["id"] for field in content["body"]]
        assert len(fields) == len(set(fields))
        assert content["name"]
