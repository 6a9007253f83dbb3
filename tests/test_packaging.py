"""What the source distribution and the wheel contain."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("kcm", "actors", "runtime", "protocols")
BUILD = "from setuptools import build_meta as b; import sys; b.build_sdist(sys.argv[1]); b.build_wheel(sys.argv[1])"


def built(build: str, directory: Path) -> Path:
    """The archive that setuptools makes, from a copy, since it writes beside what it reads."""
    copy, target = directory / "kcm", directory / "dist"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info"))
    target.mkdir()
    code = f"from setuptools import build_meta; build_meta.{build}({str(target)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=copy, capture_output=True, check=True)
    (archive,) = target.iterdir()
    return archive


def files(directory: str, *, but: str = "__pycache__") -> set[str]:
    return {
        str(file.relative_to(ROOT))
        for file in (ROOT / directory).rglob("*")
        if file.is_file() and but not in file.parts and not file.name.startswith(".")
    }


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_source_distribution_has_the_packages_the_docs_and_the_examples_and_no_tests(tmp_path: Path) -> None:
    with tarfile.open(built("build_sdist", tmp_path)) as sdist:
        found = {name.partition("/")[2] for name in sdist.getnames() if sdist.getmember(name).isfile()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml", "setup.cfg"}
    for directory in (*PACKAGES, "docs", "examples"):
        wanted |= files(directory)
    assert wanted - found == set()
    left = {name for name in found - wanted if not name.startswith("kcm.egg-info/")}
    assert left == {"MANIFEST.in", "PKG-INFO", "minimum-versions.txt"}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_wheel_has_the_packages_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(built("build_wheel", tmp_path)) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        entry_points = next(wheel.read(name) for name in wheel.namelist() if name.endswith("entry_points.txt"))
    wanted = set().union(*(files(package) for package in PACKAGES))
    assert found == wanted
    assert b"run-kcm = kcm.actors.command.__main__:main" in entry_points
