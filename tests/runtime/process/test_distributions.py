"""Versions and entry points of installed packages are equal to those of importlib.metadata."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

import pytest

from kcm.runtime.process.distributions import installed_version, may_have_entry_points


def install(directory: Path, name: str, version: str, entry_points: str = "") -> None:
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points)


def test_versions_are_those_of_importlib_metadata() -> None:
    for name in ("kcm", "orjson", "pykka"):
        assert installed_version(name) == importlib.metadata.version(name)


def test_missing_package_has_no_version() -> None:
    assert installed_version("no_such_package") == ""


def test_first_directory_on_the_path_takes_precedence(tmp_path: Path) -> None:
    install(tmp_path / "a", "website", "1.0")
    install(tmp_path / "b", "website", "2.0")
    assert installed_version("website", [str(tmp_path / "none"), str(tmp_path / "b"), str(tmp_path / "a")]) == "2.0"


@pytest.mark.parametrize(
    ("entry_points", "found"),
    [
        ("[kcm.controllers]\nwebsite = website:SPEC\n", True),
        ("[console_scripts]\nwebsite = website:main\n\n[kcm.controllers]\nwebsite = website:SPEC\n", True),
        ("[kcm.cloud_providers]\nwebsite = website:provider\n", False),
        ("", False),
    ],
)
def test_entry_points_are_found_by_their_group(tmp_path: Path, entry_points: str, *, found: bool) -> None:
    install(tmp_path, "website", "1.0", entry_points)
    install(tmp_path, "other", "1.0")
    assert may_have_entry_points("kcm.controllers", [str(tmp_path)]) is found


def test_unknown_path_entry_may_contain_entry_points(tmp_path: Path) -> None:
    (tmp_path / "website.egg-info").mkdir()
    assert may_have_entry_points("kcm.controllers", [str(tmp_path)])


def test_archive_may_contain_entry_points(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("website.py", "")
    assert may_have_entry_points("kcm.controllers", [str(tmp_path / "lib.zip")])
    assert installed_version("pykka", [str(tmp_path / "lib.zip")]) == importlib.metadata.version("pykka")
