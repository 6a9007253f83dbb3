from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path

import pytest

from kcm.runtime.serving.console.assets import ASSETS, CONTENT_SECURITY_POLICY, STATIC, Assets

VENDOR = STATIC / "vendor"
OWN = sorted(STATIC.glob("*.js"))
FIRST_VIEW = ("console.css", "app.js", "session.js", "parts.js", "tree.js", "graph.js", "icon.svg")
LARGEST_FIRST_VIEW = 50_000  # bytes in gzip, of the files
LARGEST_VENDORED = 125_000  # bytes


def test_vendored_files_are_the_published_ones() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_bytes())
    found = {file.name for file in VENDOR.iterdir() if file.is_file()} - {"vendor.json"}
    assert found == {entry["file"] for entry in listed}
    for entry in listed:
        assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], entry["file"]
        assert entry["licence"] in ("MIT", "Apache-2.0")
        assert len((VENDOR / entry["text"]).read_text()) > 500
    assert sum((VENDOR / name).stat().st_size for name in found) < LARGEST_VENDORED


def test_first_view_is_small() -> None:
    files = [STATIC / name for name in FIRST_VIEW]
    files += [VENDOR / name for name in ("preact.js", "htm.js")]
    assert sum(len(zlib.compress(file.read_bytes(), 9)) for file in files) < LARGEST_FIRST_VIEW


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.name)
def test_scripts_import_only_files_of_the_console(file: Path) -> None:
    text = file.read_text()
    imported = re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", text)
    missing = [name for name in imported if not (STATIC / name).is_file()]
    assert missing == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|\beval\(|new Function", text)


def test_policy_allows_neither_inline_nor_foreign_content() -> None:
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'; ")
    assert not re.search(r"unsafe|http|\*|data:", CONTENT_SECURITY_POLICY)
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)


def test_addresses_of_files_change_with_their_content() -> None:
    assets = Assets()
    shell = assets.find("/console/")
    assert shell is not None
    assert assets.find("/console") is assets.find("/console/controllers/x") is shell
    assert assets.find("/consoles") is None
    assert assets.find("/healthz") is None
    names = re.findall(rb'(?:href|src)="([^"]+)"', shell.body)
    assert len(names) > 4
    for name in names:
        assert name.decode().startswith(ASSETS)
        found = assets.find(name.decode())
        assert found is not None
        assert b"immutable" in found.cache
    assert assets.find(f"{ASSETS}0000000000000000/app.js") is None
    assert assets.find(names[0].decode() + "/../../../../secret") is None
