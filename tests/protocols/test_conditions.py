"""Conditions are found, set without needless writes, and removed, without modifying the given list."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kcm.protocols.conditions import find_condition, is_true, with_condition, without_condition

AVAILABLE = {"type": "Available", "status": "True", "reason": "Enough", "lastTransitionTime": "2026-01-01T00:00:00Z"}
PROGRESSING = {
    "type": "Progressing",
    "status": "True",
    "reason": "ReplicaSetUpdated",
    "message": "old",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
LATER = "2026-01-02T00:00:00Z"


def test_a_condition_is_found_by_its_type() -> None:
    assert find_condition([AVAILABLE, PROGRESSING], "Progressing") is PROGRESSING
    assert find_condition([AVAILABLE], "Progressing") is None
    assert find_condition([], "Progressing") is None
    assert find_condition(None, "Progressing") is None


def test_the_first_of_several_of_one_type_counts() -> None:
    assert find_condition([AVAILABLE, {**AVAILABLE, "status": "False"}], "Available") is AVAILABLE


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_only_the_status_true_is_true(status: str | None, expected: bool) -> None:
    assert is_true([{"type": "Ready", "status": status}], "Ready") is expected


@pytest.mark.parametrize("conditions", [None, [], [AVAILABLE], [{"type": "Ready"}]])
def test_a_missing_condition_is_not_true(conditions: list[dict[str, Any]] | None) -> None:
    assert is_true(conditions, "Ready") is False


def test_a_new_condition_goes_to_the_end() -> None:
    assert with_condition([AVAILABLE], PROGRESSING) == [AVAILABLE, PROGRESSING]
    assert with_condition(None, PROGRESSING) == [PROGRESSING]


@pytest.mark.parametrize("field", ["message", "lastUpdateTime", "lastTransitionTime"])
def test_nothing_changes_while_status_and_reason_stay(field: str) -> None:
    assert with_condition([PROGRESSING, AVAILABLE], {**PROGRESSING, field: LATER}) == [PROGRESSING, AVAILABLE]


def test_no_reason_and_an_empty_reason_are_the_same() -> None:
    without = {"type": "Ready", "status": "True"}
    assert with_condition([without], {**without, "reason": "", "message": "new"}) == [without]


def test_a_new_reason_replaces_the_condition_and_keeps_its_transition_time() -> None:
    new = {**PROGRESSING, "reason": "NewReplicaSetAvailable", "lastUpdateTime": LATER, "lastTransitionTime": LATER}
    assert with_condition([PROGRESSING, AVAILABLE], new) == [
        AVAILABLE,
        {**new, "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]


def test_a_new_status_brings_its_own_transition_time() -> None:
    new = {**PROGRESSING, "status": "False", "lastTransitionTime": LATER}
    assert with_condition([PROGRESSING], new) == [new]


def test_a_former_condition_without_transition_time_takes_the_new_one() -> None:
    former = {"type": "Ready", "status": "True", "reason": "a"}
    new = {"type": "Ready", "status": "True", "reason": "b", "lastTransitionTime": LATER}
    assert with_condition([former], new) == [new]


def test_repeated_conditions_of_a_type_are_replaced_by_one() -> None:
    new = {**AVAILABLE, "status": "False"}
    assert with_condition([AVAILABLE, PROGRESSING, AVAILABLE], new) == [PROGRESSING, new]


def test_a_condition_is_removed_by_its_type() -> None:
    assert without_condition([AVAILABLE, PROGRESSING, AVAILABLE], "Available") == [PROGRESSING]
    assert without_condition([AVAILABLE], "Progressing") == [AVAILABLE]
    assert without_condition(None, "Progressing") == []


def test_arguments_are_never_modified() -> None:
    conditions, new = [deepcopy(AVAILABLE), deepcopy(PROGRESSING)], {**PROGRESSING, "reason": "x"}
    before = deepcopy((conditions, new))
    result = with_condition(conditions, new)
    without_condition(conditions, "Available")
    for condition in result:
        condition["status"] = "changed"
    assert (conditions, new) == before
