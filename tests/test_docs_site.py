"""The documentation site builds without warnings, has an entry for every public name, and needs no other host."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import kcm

pytestmark = pytest.mark.slow  # Sphinx reads all pages and modules; tests/test_docs.py checks the pages themselves

ROOT = Path(__file__).parents[1]
MODULES = [f"kcm.{name}" for name in kcm.__all__ if (ROOT / f"kcm/{name}.py").exists()] + ["kcm.testing"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as bin/docs does, where no earlier build can hide a warning."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-c", "docs"]
    build += ["-d", str(folder / "cache"), ".", str(folder / "html")]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    return folder / "html"


def documented_names(site: Path) -> set[str]:
    """Return the names in the site's inventory (https://sphobjinv.readthedocs.io/en/stable/syntax.html)."""
    content = (site / "objects.inv").read_bytes()
    _, _, entries = content.partition(b"using zlib.\n")
    return {line.split(" ", 1)[0] for line in zlib.decompress(entries).decode().splitlines()}


def loaded_addresses(site: Path) -> Iterator[tuple[str, str]]:
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text(encoding="utf-8")):
            for address in re.findall(r'(?:src|href)="([^"]*)"', tag):
                yield page.name, address


def test_every_public_name_has_an_entry(site: Path) -> None:
    names = documented_names(site)

    public = {f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
    assert public - names == set()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    addresses = list(loaded_addresses(site))

    assert len(addresses) > 100
    assert [(page, address) for page, address in addresses if "//" in address] == []


def test_index_leads_to_the_readme_and_search_has_an_index(site: Path) -> None:
    assert "url=README.html" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "README.html").exists()
    assert '"kcm.steps"' in (site / "searchindex.js").read_text(encoding="utf-8")
