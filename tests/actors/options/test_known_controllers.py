"""Controllers that --controllers enables, and their names and aliases."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options.known_controllers import aliases_of, is_enabled
from kcm.actors.reconciliation.specs import ControllerSpec


@pytest.mark.parametrize(
    ("chosen", "foo", "bar", "off"),
    [
        (["foo", "-bar"], True, False, False),
        (["*"], True, True, False),
        (["*", "-bar"], True, False, False),
        (["*", "off"], True, True, True),
        (["-foo", "*", "foo"], False, True, False),
        (["foo"], True, False, False),
        (["off"], False, False, True),
        (["-foo"], False, False, False),
        (["foo", "-foo", "*"], True, True, False),
        (["-off", "off", "*"], True, True, False),
        ([], False, False, False),
    ],
)
def test_first_matching_item_decides_otherwise_the_star(chosen: list[str], foo: bool, bar: bool, off: bool) -> None:
    decided = [is_enabled(name, chosen, on_by_default=name != "off") for name in ("foo", "bar", "off")]
    assert decided == [foo, bar, off]


def test_a_name_that_begins_like_another_is_another() -> None:
    assert not is_enabled("foo", ["foo-controller", "--foo"], on_by_default=True)


def test_canonical_names_are_well_formed_and_unique() -> None:
    names = [controller.name for controller in BUILT_IN]
    assert [name for name in names if not re.fullmatch(r"[a-z]([-a-z]*[a-z])?-controller", name)] == []
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_exactly_three_are_off_by_default() -> None:
    assert {controller.name for controller in BUILT_IN if not controller.on_by_default} == {
        "bootstrap-signer-controller",
        "selinux-warning-controller",
        "token-cleaner-controller",
    }


def test_alias_belongs_to_one_controller_and_differs_from_all_names() -> None:
    known = aliases_of(BUILT_IN)
    assert known["replication"] == known["replicationcontroller"] == "replicationcontroller-controller"
    assert known["node"] == "node-lifecycle-controller"
    assert not set(known) & {controller.name for controller in BUILT_IN}


@pytest.mark.parametrize("taken", ["job", "ttl-controller"])
def test_alias_of_two_controllers_is_refused(taken: str) -> None:
    other = ControllerSpec(name="other-controller", aliases=(taken,), build=lambda _context: None)
    with pytest.raises(ValueError, match="is taken"):
        aliases_of((*BUILT_IN, other))
