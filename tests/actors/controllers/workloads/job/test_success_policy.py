"""One sync of a Job with a success policy, in combination with other reasons to finish.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestSyncJobWithJobSuccessPolicy), with
the gates that are on by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.job.endings import Conditions, complete, failed, will_complete, will_fail
from tests.actors.controllers.workloads.job.scene import Scene, described, job, numbers

ENOUGH = "SuccessPolicy"
EITHER = {"succeededIndexes": "0,1", "succeededCount": 1}
NO_DISRUPTION = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
DISRUPTED = "Pod default/p0 has condition DisruptionTarget matching FailJob rule at index 0"
POLICY: Object = {"podFailurePolicy": {"rules": [NO_DISRUPTION]}}


def known(conditions: Conditions, **status: Any) -> Object:
    """Return a Job that already has these conditions."""
    written = [dict(zip(("type", "status", "reason", "message"), values, strict=True)) for values in conditions]
    return {"status": {**status, "conditions": written}}


def check(completions: int, more: Object, there: str, left: Object, conditions: Conditions) -> None:
    spec = {"successPolicy": {"rules": [EITHER]}, "backoffLimit": 100, **more}
    shown = job(completionMode="Indexed", parallelism=completions, completions=completions, **spec)
    scene = Scene(shown, described(there))
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions
    assert scene.status["uncountedTerminatedPods"] == {}


def one_success(**more: Any) -> Object:
    """Return the counts of a status in which index 1 has succeeded."""
    return numbers(succeeded=1, completedIndexes="1", **more)


@pytest.mark.parametrize(
    ("completions", "more", "there", "left"),
    [
        (3, {}, "Failed #0, Running #0, Succeeded #1, Running #2", one_success(failed=1, terminating=2)),
        (2, POLICY, "Failed #0, Running #0, Succeeded #1", one_success(failed=1, terminating=1)),
        (
            2,
            {"backoffLimitPerIndex": 2},
            "Failed #0, Running #0, Succeeded #1",
            one_success(failed=1, terminating=1, failedIndexes=""),
        ),
        (
            3,
            {"backoffLimitPerIndex": 3, **known(will_complete(ENOUGH))},
            "Failed #0, Running #1, Succeeded #1, Running #2",
            one_success(failed=1, terminating=2, failedIndexes=""),
        ),
    ],
)
def test_job_that_met_its_criteria_waits_for_its_pods(completions: int, more: Object, there: str, left: Object) -> None:
    check(completions, more, there, left, will_complete(ENOUGH))


@pytest.mark.parametrize(
    ("more", "there", "left", "conditions"),
    [
        (
            POLICY,
            "Failed #0 DisruptionTarget, Running #0, Succeeded #1",
            one_success(failed=2, terminating=1),
            will_fail("PodFailurePolicy", DISRUPTED),
        ),
        (
            {"backoffLimitPerIndex": 1},
            "Failed #0 failures=1, Succeeded #1",
            one_success(failed=1, failedIndexes="0"),
            failed("FailedIndexes"),
        ),
        ({"backoffLimit": 1}, "Failed #0 x2, Succeeded #1", one_success(failed=2), failed("BackoffLimitExceeded")),
    ],
)
def test_failures_precede_the_success_policy(more: Object, there: str, left: Object, conditions: Conditions) -> None:
    check(2, more, there, left, conditions)


BEFORE = known(will_complete(ENOUGH), succeeded=1, completedIndexes="1")


@pytest.mark.parametrize(
    ("more", "there", "left"),
    [
        (
            {"backoffLimitPerIndex": 2, **known(will_complete(ENOUGH))},
            "Failed #0, Succeeded #1",
            one_success(failed=1, failedIndexes=""),
        ),
        ({**POLICY, **BEFORE}, "Failed #0 DisruptionTarget, Succeeded #1", one_success(failed=1)),
        (
            {"backoffLimitPerIndex": 1, **BEFORE},
            "Failed #0 failures=1, Succeeded #1",
            one_success(failed=1, failedIndexes="0"),
        ),
        ({"backoffLimit": 0, **BEFORE}, "Failed #0, Succeeded #1", one_success(failed=1)),
    ],
)
def test_job_that_met_its_success_criteria_never_fails(more: Object, there: str, left: Object) -> None:
    check(2, more, there, left, complete(ENOUGH))


def test_failed_job_never_meets_its_success_criteria() -> None:
    """Index 1 succeeds, and p0 has been counted."""
    before = known(will_fail("PodFailurePolicy", DISRUPTED), failed=1, completedIndexes="1")
    there = "Failed #0 DisruptionTarget untracked, Succeeded #1"
    check(2, {**POLICY, **before}, there, one_success(failed=1), failed("PodFailurePolicy", DISRUPTED))


def test_all_indexes_are_required_without_a_policy() -> None:
    left = numbers(succeeded=1, completedIndexes="0")
    check(1, {"successPolicy": None}, "Succeeded #0", left, complete("CompletionsReached"))
