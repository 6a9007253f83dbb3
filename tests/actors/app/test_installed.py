"""Controllers of other packages, loaded by entry points."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.app.installed import GROUP, load_controllers
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerSpec, Index, Queue
from kcm.protocols.resources import PODS
from kcm.runtime.flags.declaration import flag


def spec(name: str, *aliases: str) -> ControllerSpec:
    return ControllerSpec(
        name=name, aliases=aliases, queues=(Queue(watches=(Watch(PODS, to=itself),)),), build=lambda _around: None
    )


class Greedy(ControllerOptions, frozen=True, kw_only=True):
    v: int = flag(1, "Volume.")


def point(name: str, attribute: str) -> EntryPoint:
    return EntryPoint(name, f"kcm_strangers:{attribute}", GROUP)


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType("kcm_strangers")
    monkeypatch.setitem(sys.modules, "kcm_strangers", module)
    return module


def test_package_declares_one_or_several_controllers(strangers: Any) -> None:
    strangers.one, strangers.some = spec("website-controller", "website"), [spec("a-controller"), spec("b-controller")]
    installed = load_controllers([point("website", "one"), point("more", "some")], BUILT_IN)
    assert [spec.name for spec in installed.specs] == ["a-controller", "b-controller", "website-controller"]
    assert installed.troubles == ()


@pytest.mark.parametrize(
    "value, trouble",
    [
        (42, "TypeError: expected a ControllerSpec, got int"),
        ((spec("x-controller"), None), "TypeError: expected a ControllerSpec, got NoneType"),
        (
            replace(spec("x-controller"), reads=(PODS.on("edge"),)),
            "it works on the clusters edge: run it as a program of its own, with kcm.main",
        ),
        (spec("deployment-controller"), "the name 'deployment-controller' is taken"),
        (spec("mine-controller", "podgc"), "the name 'podgc' is taken"),
        (spec("good-controller"), "the name 'good-controller' is taken"),
        (replace(spec("x-controller"), options=Greedy), "the flag --v of x-controller is taken by logs"),
        (
            replace(spec("x-controller"), indexes=(Index(PODS, "node", lambda _pod: ()),)),
            "node-lifecycle-controller and x-controller declare different indexes 'node' of pods",
        ),
    ],
)
def test_broken_controller_is_reported_and_does_not_affect_others(strangers: Any, value: Any, trouble: str) -> None:
    strangers.good, strangers.wrong = spec("good-controller"), value
    installed = load_controllers([point("wrong", "wrong"), point("good", "good")], BUILT_IN)
    assert [spec.name for spec in installed.specs] == ["good-controller"]
    assert installed.troubles == (f"controller wrong (kcm_strangers:wrong) is left out: {trouble}",)


@pytest.mark.parametrize(
    "body, trouble",
    [
        ("raise RuntimeError('not\\ntoday')", "RuntimeError: not today"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        (
            "import kcm; kcm.ControllerSpec(name='x', aliases=('y'), queues=(), build=None)",
            "TypeError: aliases of x: expected a tuple, got 'y'",
        ),
    ],
)
def test_package_that_fails_to_import_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, trouble: str
) -> None:
    (tmp_path / "kcm_breaking.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kcm_breaking", raising=False)
    installed = load_controllers([EntryPoint("breaking", "kcm_breaking:SPEC", GROUP)], BUILT_IN)
    assert installed.troubles == (f"controller breaking (kcm_breaking:SPEC) is left out: {trouble}",)


def test_a_package_that_cannot_be_imported_is_a_trouble() -> None:
    installed = load_controllers([EntryPoint("gone", "no_such_module:SPEC", GROUP)], BUILT_IN)
    assert installed.specs == ()
    assert installed.troubles == (
        "controller gone (no_such_module:SPEC) is left out: ModuleNotFoundError: No module named 'no_such_module'",
    )
