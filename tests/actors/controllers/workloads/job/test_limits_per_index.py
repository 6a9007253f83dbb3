"""One sync of a Job with backoffLimitPerIndex.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go
(TestSyncJobWithJobBackoffLimitPerIndex), with the gates that are on by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.job.endings import Conditions, complete, failed, will_fail
from tests.actors.controllers.workloads.job.scene import Scene, described, job, numbers


def on_3(action: str) -> Object:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [3]}}
    return {"podFailurePolicy": {"rules": [rule]}}


def check(completions: int, more: Object, there: str, left: Object, conditions: Conditions) -> None:
    spec = {"backoffLimit": 100, "backoffLimitPerIndex": 1, **more}
    shown = job(completionMode="Indexed", parallelism=completions, completions=completions, **spec)
    scene = Scene(shown, described(there))
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions
    assert scene.status["uncountedTerminatedPods"] == {}


def indexes(failed: str, completed: str = "", /, **more: Any) -> Object:
    return numbers(failedIndexes=failed, completedIndexes=completed, **more)


@pytest.mark.parametrize(
    ("completions", "more", "there", "left"),
    [
        (2, {}, "Failed #0 failures=0", indexes("", active=2)),
        (2, {}, "Failed #0 failures=0, Pending #0 failures=1", indexes("", active=2, failed=1)),
        (2, {}, "Failed #0 failures=1", indexes("0", active=1, failed=1)),
        (2, on_3("FailIndex"), "Failed #0 failures=0 exit=3", indexes("0", active=1, failed=1)),
        (2, on_3("Ignore"), "Failed #0 failures=0 exit=3", indexes("", active=2)),
        (3, {"maxFailedIndexes": 1}, "Failed #0 failures=1", indexes("0", active=2, failed=1)),
        (
            3,
            {"status": {"failedIndexes": "0", "completedIndexes": "1"}},
            "Pending #2 failures=1",
            indexes("0", "1", active=1, succeeded=1),
        ),
    ],
)
def test_other_indexes_continue_after_one_fails(completions: int, more: Object, there: str, left: Object) -> None:
    check(completions, more, there, left, [])


@pytest.mark.parametrize(
    ("status", "there", "left"),
    [
        ({}, "Failed #2 failures=1, Succeeded #2", indexes("", "2", active=2, succeeded=1, failed=1)),
        (
            {"completedIndexes": "2", "succeeded": 1},
            "Failed #2 failures=1",
            indexes("", "2", active=2, succeeded=1, failed=1),
        ),
        ({"failedIndexes": "2", "failed": 1}, "Succeeded #2", indexes("2", active=2, failed=1)),
    ],
)
def test_no_index_has_both_succeeded_and_failed(status: Object, there: str, left: Object) -> None:
    """The server rejects such a status: the first result of an index is kept. Upstream's Job is stuck."""
    check(3, {"status": status}, there, left, [])


TRIED = "Container main for pod default/p0 failed with exit code 3 matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("completions", "more", "there", "left", "conditions"),
    [
        (
            2,
            {},
            "Failed #0 failures=0, Succeeded #0 failures=1, Succeeded #1 failures=0",
            indexes("", "0,1", succeeded=2, failed=1),
            complete("CompletionsReached"),
        ),
        (
            2,
            {"backoffLimit": 6, **on_3("FailJob")},
            "Failed #0 failures=0 exit=3",
            indexes("", failed=1),
            failed("PodFailurePolicy", TRIED),
        ),
        (
            2,
            {"backoffLimit": 1},
            "Failed #0 failures=0, Failed #1 failures=0",
            indexes("", failed=2),
            failed("BackoffLimitExceeded"),
        ),
        (
            2,
            {},
            "Failed #0 failures=1, Succeeded #1 failures=0",
            indexes("0", "1", succeeded=1, failed=1),
            failed("FailedIndexes"),
        ),
        (
            4,
            {"maxFailedIndexes": 1},
            "Failed #0 failures=1, Succeeded #1 failures=0, Failed #2 failures=1, Running #3 failures=0",
            indexes("0,2", "1", succeeded=1, failed=3, terminating=1),
            will_fail("MaxFailedIndexesExceeded"),
        ),
    ],
)
def test_job_finishes_when_all_indexes_finish_or_too_many_fail(
    completions: int, more: Object, there: str, left: Object, conditions: Conditions
) -> None:
    check(completions, more, there, left, conditions)
