"""Requested controllers that are reported as not built."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.unbuilt import UNBUILT, not_built

ON_BY_DEFAULT = [controller.name for controller in UNBUILT if controller.on_by_default]


def test_a_star_requests_all_that_are_on_by_default() -> None:
    assert list(not_built(("*",), built=())) == ON_BY_DEFAULT
    assert len(ON_BY_DEFAULT) == len(UNBUILT)


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
