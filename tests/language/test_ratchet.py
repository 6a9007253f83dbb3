"""Recorded counts may only fall."""

from __future__ import annotations

import json
from pathlib import Path

from tests.language import ratchet


def test_no_count_is_higher_than_the_recorded_one() -> None:
    found = ratchet.places(ratchet.files(), cache=ratchet.CACHE)
    risen = ratchet.risen(ratchet.count(found), ratchet.recorded())
    told = [f"{package}: {pattern} has risen from {most} to {number}" for package, pattern, number, most in risen]
    told += [f"    python -m tests.language --list {pattern} {package}" for package, pattern, _, _ in risen]
    assert risen == [], "\n".join(["text became less clear:", *told])


def test_recording_lowers_counts_and_never_raises_them() -> None:
    before = {"actors/engine": {"fragment": 5, "dialect": 2}, "kcm": {"dialect": 1}}
    now = {"actors/engine": {"fragment": 3, "dialect": 4}, "runtime/x509": {"fragment": 1}}
    assert ratchet.lowered(now, before) == {"actors/engine": {"dialect": 2, "fragment": 3}}
    assert ratchet.risen(now, before) == [("actors/engine", "dialect", 4, 2), ("runtime/x509", "fragment", 1, 0)]


def test_class_names_that_are_defined_twice_are_counted(tmp_path: Path) -> None:
    for name, classes in (("one.py", "Patience Queue"), ("two.py", "Patience Table")):
        (tmp_path / name).write_text("\n".join(f"class {word}: ..." for word in classes.split()))
    found = ratchet.places(sorted(tmp_path.glob("*.py")), root=tmp_path)
    assert [(place.path, place.text) for place in found if place.pattern == "duplicate-class"] == [
        ("one.py", "Patience"),
        ("two.py", "Patience"),
    ]


def test_deliberately_parallel_class_name_is_not_counted(tmp_path: Path) -> None:
    for name in ("command.py", "server.py"):
        (tmp_path / name).write_text("class ApiServer: ...")
    assert ratchet.places(sorted(tmp_path.glob("*.py")), root=tmp_path) == []


def test_changed_files_are_read_again_and_others_come_from_the_cache(tmp_path: Path) -> None:
    path, cache = tmp_path / "pods.py", tmp_path / "cache" / "findings.json"
    path.write_text('"""Of pods."""')
    assert [place.pattern for place in ratchet.places([path], root=tmp_path, cache=cache)] == ["fragment"]
    kept = json.loads(cache.read_text())
    kept["files"]["pods.py"][1][0][2] = "Of cached pods."
    cache.write_text(json.dumps(kept))
    assert ratchet.places([path], root=tmp_path, cache=cache)[0].text == "Of cached pods."
    path.write_text('"""Pods of a node."""')
    assert ratchet.places([path], root=tmp_path, cache=cache) == []


def test_packages_are_the_first_two_folders() -> None:
    paths = ["actors/engine/informer/actor.py", "actors/__init__.py", "docs/jobs.md", "README.md", "kcm/testing.py"]
    assert [ratchet.package_of(path) for path in paths] == ["actors/engine", "actors", "pages", "pages", "kcm"]
