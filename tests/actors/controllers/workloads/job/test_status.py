"""Conditions of a Job.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestEnsureJobConditions).
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.job.status import condition, with_status
from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object


def suspended(status: str, reason: str, ago: float = 0.0) -> Object:
    return condition("Suspended", reason, "", status=status, now=NOW - ago)


@pytest.mark.parametrize(
    ("known", "new", "left"),
    [
        ([], ("True", "a"), [("True", "a")]),
        ([], ("False", "a"), None),
        ([("True", "a")], ("True", "b"), [("True", "b")]),
        ([("True", "a")], ("False", "a"), [("False", "a")]),
        ([("False", "a")], ("True", "a"), [("True", "a")]),
        ([("True", "a")], ("True", "a"), None),
    ],
)
def test_condition_is_added_or_replaced(
    known: list[tuple[str, str]], new: tuple[str, str], left: list[tuple[str, str]] | None
) -> None:
    """A condition replaces the one of its type. left: None if nothing changes."""
    other = condition("FailureTarget", "x", "", now=NOW)
    before = [*(suspended(*condition, ago=60) for condition in known), other]
    found = with_status(before, suspended(*new))
    if left is None:
        assert found is None
    else:
        expected = [suspended(*condition) for condition in left]
        assert found == ([*expected, other] if known else [other, *expected])
