"""Projects are imported again after a change, and specs fit if they differ in their code only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from kcm import ControllerSpec, Queue, Resource, Watch
from kcm.actors.command.development.modules import Project, ReloadError
from kcm.actors.command.development.observed import LiveSpecs, Reconciliations
from kcm.runtime.simulation.clock import VirtualClock
from kcm.specs import itself

MAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SPEC = """
from kcm import ControllerSpec
from {helper} import NUMBER
def build(context):
    return NUMBER
A = ControllerSpec(name="a", build=build)
SPECS = (A,)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {*sys.modules}
    write(tmp_path / "dev_helper.py", "NUMBER = 1\n")
    write(tmp_path / "dev_operator.py", SPEC.format(helper="dev_helper"))
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("dev_"):
            del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + len(text)))


def test_a_changed_module_affects_the_controllers_that_import_it(folder: Path) -> None:
    project = Project(f"{folder / 'dev_operator.py'}:SPECS")
    assert project.changed() == []
    write(folder / "dev_helper.py", "NUMBER = 22\n")
    assert project.changed() == ["dev_helper"]
    project.reload()
    assert project.specs[0].build(None) == 22  # type: ignore[arg-type]
    assert project.affected(["dev_helper"]) == ("a",)
    assert project.affected(["dev_other"]) == ()


@pytest.mark.parametrize(
    ("text", "why"), [("NUMBER = (\n", "SyntaxError"), ("NUMBER = 1 / 0\n", "ZeroDivisionError"), ("", "NUMBER")]
)
def test_an_error_keeps_the_loaded_code(folder: Path, text: str, why: str) -> None:
    project = Project(f"{folder / 'dev_operator.py'}:SPECS")
    before, module = project.specs, sys.modules["dev_operator"]
    write(folder / "dev_helper.py", text)
    with pytest.raises(ReloadError, match=why):
        project.reload()
    assert project.specs is before
    assert sys.modules["dev_operator"] is module


class Reconciler:
    def reconcile(self, key: str) -> None:
        pass


BASE = ControllerSpec(
    name="a", queues=(Queue(watches=(Watch(MAPS, to=lambda change, _: (change.key,)),)),), build=lambda _: Reconciler()
)


def with_watch(watch: Watch[str]) -> ControllerSpec:
    return replace(BASE, queues=(replace(BASE.queues[0], watches=(watch,)),))


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (lambda: replace(BASE, build=lambda _: None), True),
        (lambda: with_watch(Watch(MAPS, to=lambda change, _: (f"x/{change.key}",))), True),
        (lambda: with_watch(Watch(MAPS, to=itself)), False),
        (lambda: with_watch(Watch(MAPS, to=lambda change, _: (change.key,), labels="a=b")), False),
        (lambda: replace(BASE, reads=(Resource(version="v1", plural="pods", kind="Pod"),)), False),
        (lambda: replace(BASE, queues=(replace(BASE.queues[0], concurrency=1),)), False),
        (lambda: replace(BASE, name="b"), False),
    ],
)
def test_specs_fit_if_they_differ_in_code_only(change: Callable[[], ControllerSpec], fits: bool) -> None:
    live = LiveSpecs([BASE], Reconciliations(VirtualClock(), lambda _line: None))
    assert live.fits([change()]) is fits
