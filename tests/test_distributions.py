"""Contents of the source distribution and the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("actors", "runtime", "protocols")  # folders at the top of the repository, packages inside kcm


def built(build: str, directory: Path) -> Path:
    """Build an archive with setuptools, from a copy of the project, because setuptools writes into the project."""
    copy, target = directory / "kcm", directory / "dist"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
    target.mkdir()
    code = f"from setuptools import build_meta; build_meta.{build}({str(target)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=copy, capture_output=True, check=True)
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
