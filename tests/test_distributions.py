"""Contents of the source distribution and the wheel."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.e2e.programs import Manager, ending, free_port, spawn, until

ROOT = Path(__file__).parents[1]
PACKAGES = ("actors", "runtime", "protocols")  # folders at the top of the repository, packages inside kcm


def built(build: str, directory: Path, *, source: Path | None = None) -> Path:
    """Build an archive with setuptools in `source`, or in a copy of the project, as setuptools writes into it."""
    target = directory / "dist"
    if source is None:
        source = directory / "kcm"
        ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
        shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
    target.mkdir(parents=True)
    code = f"from setuptools import build_meta; build_meta.{build}({str(target)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=source, capture_output=True, check=True)
    (archive,) = target.iterdir()
    return archive


def files(directory: str) -> set[str]:
    return {
        str(file.relative_to(ROOT))
        for file in (ROOT / directory).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")
    }


def installed() -> set[str]:
    """Return the files of the package kcm as they are installed; symbolic links are followed."""
    inside = {f"kcm/{file}" for package in PACKAGES for file in files(package)}
    return {file for file in files("kcm") if not file.startswith(tuple(f"kcm/{name}/" for name in PACKAGES))} | inside


def required(
    requirement: Requirement, extras: frozenset[str] = frozenset()
) -> Iterator[importlib.metadata.Distribution]:
    """Yield the installed distribution of a requirement, and those that it requires."""
    found = importlib.metadata.distribution(requirement.name)
    yield found
    for text in found.requires or ():
        further = Requirement(text)
        if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield from required(further, frozenset(further.extras))


def environment(directory: Path, archive: Path) -> Path:
    """Create an environment outside of the project with what the archive requires, and no more. Return its Python.

    The packages are links to those of this environment, so that no network is necessary.
    """
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    needed = {}
    for text in requirements_in(archive):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed |= {
                canonicalize_name(found.name): found for found in required(requirement, frozenset(requirement.extras))
            }
    for found in needed.values():
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (site / top).symlink_to(Path(str(found.locate_file(top))))
    return directory / "bin" / "python"


def requirements_in(archive: Path) -> list[str]:
    """Return the requirements in the metadata of a wheel."""
    with zipfile.ZipFile(archive) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        lines = wheel.read(name).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]


def unpacked(sdist: Path, directory: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
    (source,) = directory.iterdir()
    return source


@pytest.mark.timeout(180)
@pytest.mark.parametrize("origin", [pytest.param("wheel", marks=pytest.mark.slow), "sdist"])
def test_installed_distribution_runs_a_cluster(tmp_path: Path, origin: str) -> None:
    """A source distribution is installed as pip does it: a wheel is built from it, and that one is installed."""
    source = None
    if origin == "sdist":
        source = unpacked(built("build_sdist", tmp_path / "sdist"), tmp_path / "unpacked")
    wheel = built("build_wheel", tmp_path / "wheel", source=source)
    python = environment(tmp_path / "environment", wheel)
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "KCM_"))
    }
    install = ["--python", str(python), "install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], cwd=tmp_path, env=clean, check=True, timeout=120)
    code = "import importlib.util, kcm; print(kcm.__file__, importlib.util.find_spec('pytest'))"
    shown = subprocess.run([python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True)
    file, other = shown.stdout.split()
    assert Path(file).is_relative_to(tmp_path / "environment")
    assert other == "None", "only what kcm requires is installed"
    port = free_port()
    flags = ("--embedded-in-memory", f"--embedded-dir={tmp_path / 'cluster'}", "--hollow-nodes=1", "--secure-port=0")
    command = [str(python.with_name("run-kcm")), *flags, "--address=127.0.0.1", f"--port={port}"]
    program = spawn(command, tmp_path / "log", environ=clean, cwd=tmp_path)
    manager = Manager(program, f"http://127.0.0.1:{port}")
    with ending(program):
        wait = [python.with_name("run-kcm"), "wait", f"--embedded-dir={tmp_path / 'cluster'}", "--timeout=60s"]
        done = subprocess.run(wait, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False, timeout=90)
        assert done.returncode == 0, done.stdout + done.stderr + program.text()
        until(manager.healthy, "all checks pass", why=program.text)
    assert program.process.returncode == 0, program.text()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_source_distribution_contains_packages_docs_and_examples_but_no_tests(tmp_path: Path) -> None:
    with tarfile.open(built("build_sdist", tmp_path)) as sdist:
        found = {name.partition("/")[2] for name in sdist.getnames() if sdist.getmember(name).isfile()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml", "setup.cfg"}
    wanted |= installed() | files("docs") | files("examples")
    assert wanted - found == set()
    left = {name for name in found - wanted if not name.startswith("kcm.egg-info/")}
    assert left == {"MANIFEST.in", "PKG-INFO", "minimum-versions.txt"}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_wheel_contains_the_package_kcm_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(built("build_wheel", tmp_path)) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        entry_points = next(wheel.read(name) for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert found == installed()
    assert b"run-kcm = kcm.actors.command.__main__:main" in entry_points


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_installed_wheel_works_beside_packages_of_an_application_with_the_same_names(tmp_path: Path) -> None:
    site, application = tmp_path / "site", tmp_path / "application"
    with zipfile.ZipFile(built("build_wheel", tmp_path)) as wheel:
        wheel.extractall(site)
    for package in PACKAGES:
        (application / package).mkdir(parents=True)
        (application / package / "__init__.py").write_text("NAME = 'application'\n")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import actors, runtime, protocols, kcm\n"
        "from kcm import ControllerSystem\n"
        "from kcm.actors.controllers.built_in import BUILT_IN\n"
        "assert {actors.NAME, runtime.NAME, protocols.NAME} == {'application'}\n"
        "print(kcm.__file__, ControllerSystem.__module__, len(BUILT_IN))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(application), str(site)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, module, count = done.stdout.split()
    assert (file, module) == (str(site / "kcm" / "__init__.py"), "kcm.actors.app.system")
    assert int(count) >= 40
