"""No dependency has a known vulnerability: neither bounds, nor pins, nor installed versions.

minimum-versions.txt contains the oldest version of each dependency without a known vulnerability.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
ADVISORY = re.compile(r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|PYSEC-\d{4}-\d+")


@dataclass(frozen=True, slots=True)
class Minimum:
    version: Version
    advisory: str


def minimums(text: str) -> dict[str, Minimum]:
    """Return the minimum versions by canonical name. Raises ValueError for a malformed line."""
    found: dict[str, Minimum] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, version, advisory, about = line.split(maxsplit=3)
        if not ADVISORY.fullmatch(advisory) or not about or canonicalize_name(name) in found:
            raise ValueError(f"not a package, its version and an advisory: {line}")
        found[canonicalize_name(name)] = Minimum(Version(version), advisory)
    return found


def declared() -> list[Requirement]:
    """Return the requirements of setup.cfg and pyproject.toml."""
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg")
    lists = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    lines = [line for text in lists for line in text.splitlines() if line and not line.startswith("%")]
    lines += tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return [Requirement(line) for line in lines]


def pinned() -> dict[str, Version]:
    lines = (ROOT / "requirements/dev.txt").read_text().splitlines()
    pins = [re.match(r"([\w.-]+)==([^\s;\\]+)", line) for line in lines]
    return {canonicalize_name(pin[1]): Version(pin[2]) for pin in pins if pin is not None}


def oldest(requirement: Requirement) -> Version | None:
    """Return the lower bound of a requirement; None without one."""
    bounds = [
        Version(specifier.version) for specifier in requirement.specifier if specifier.operator in (">=", "==", "~=")
    ]
    return max(bounds, default=None)


def too_old(versions: dict[str, Version], known: dict[str, Minimum]) -> list[str]:
    return [
        f"{name} {version}: at least {known[name].version}, {known[name].advisory}"
        for name, version in versions.items()
        if name in known and version < known[name].version
    ]


@pytest.fixture(scope="module")
def known() -> dict[str, Minimum]:
    return minimums((ROOT / "minimum-versions.txt").read_text())


def test_every_requirement_has_a_lower_bound_without_known_holes(known: dict[str, Minimum]) -> None:
    bounds = {canonicalize_name(requirement.name): oldest(requirement) for requirement in declared()}
    assert len(bounds) > 15
    assert [name for name, bound in bounds.items() if bound is None] == []
    assert too_old({name: bound for name, bound in bounds.items() if bound is not None}, known) == []


def test_locked_development_versions_have_no_known_vulnerabilities(known: dict[str, Minimum]) -> None:
    pins = pinned()
    assert len(pins) > 40
    assert too_old(pins, known) == []


def test_pins_are_within_the_bounds() -> None:
    pins = pinned()
    asked = [(requirement, pins.get(canonicalize_name(requirement.name))) for requirement in declared()]
    assert [
        str(requirement) for requirement, pin in asked if pin is not None and pin not in requirement.specifier
    ] == []


def test_installed_versions_have_no_known_vulnerabilities(known: dict[str, Minimum]) -> None:
    versions = {name: importlib.metadata.version(name) for name in pinned() if _is_installed(name)}
    assert "aiohttp" in versions
    assert too_old({name: Version(version) for name, version in versions.items()}, known) == []


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.parametrize(
    "line", ["aiohttp 3.14.3 bombs", "aiohttp soon CVE-2026-69244 bombs", "aiohttp 3.14.3 CVE-2026-69244"]
)
def test_malformed_line_of_minimum_versions_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        minimums(line)


def test_version_before_the_fix_is_reported_with_its_advisory() -> None:
    table = minimums("aiohttp 3.13.3 CVE-2025-69223 a decompression bomb\n")
    assert too_old({"aiohttp": Version("3.12")}, table) == ["aiohttp 3.12: at least 3.13.3, CVE-2025-69223"]
    assert too_old({"aiohttp": Version("3.13.3"), "other": Version("1")}, table) == []
