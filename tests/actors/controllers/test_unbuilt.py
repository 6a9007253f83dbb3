"""Requested controllers that are reported as not built."""

from __future__ import annotations

import pytest

from kcm.actors.controllers import unbuilt
from kcm.actors.controllers.unbuilt import UnbuiltController, not_built

ON_BY_DEFAULT = ["first-controller", "second-controller"]


@pytest.fixture(autouse=True)
def _two_and_one_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the list, which is empty: all controllers of this release of Kubernetes are built."""
    assert unbuilt.UNBUILT == ()
    some = (*map(_unbuilt, ON_BY_DEFAULT), UnbuiltController(name="off-controller", on_by_default=False))
    monkeypatch.setattr(unbuilt, "UNBUILT", some)


def _unbuilt(name: str) -> UnbuiltController:
    return UnbuiltController(name=name)


def test_a_star_requests_all_that_are_on_by_default() -> None:
    assert list(not_built(("*",), built=())) == ON_BY_DEFAULT


@pytest.mark.parametrize(
    "chosen, missing",
    [
        (("job-controller",), ()),
        (("job-controller", ON_BY_DEFAULT[0]), (ON_BY_DEFAULT[0],)),
        ((ON_BY_DEFAULT[0], f"-{ON_BY_DEFAULT[0]}"), (ON_BY_DEFAULT[0],)),
        ((f"-{ON_BY_DEFAULT[0]}", ON_BY_DEFAULT[0]), ()),
    ],
)
def test_without_a_star_only_named_controllers_are_reported(chosen: tuple[str, ...], missing: tuple[str, ...]) -> None:
    assert not_built(chosen, built=()) == missing


def test_excluded_controllers_are_not_reported() -> None:
    exclusions = [f"-{name}" for name in ON_BY_DEFAULT[1:]]
    assert not_built(("*", *exclusions), built=()) == (ON_BY_DEFAULT[0],)


def test_controllers_of_installed_packages_count_as_built() -> None:
    assert ON_BY_DEFAULT[0] not in not_built(("*",), built={ON_BY_DEFAULT[0]})
