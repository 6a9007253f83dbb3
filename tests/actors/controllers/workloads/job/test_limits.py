"""Failures, restarts and seconds beyond which a Job fails.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestSyncJobPastDeadline,
TestPastDeadlineJobFinished, TestSingleJobFailedCondition, TestJobBackoffForOnFailure and
TestJobBackoffOnRestartPolicyNever), with the gates that are on by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation.driver import NOW, deleted_keys
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.endings import (
    SUSPENDED,
    Conditions,
    complete,
    failed,
    will_fail,
)
from tests.actors.controllers.workloads.job.scene import Scene, acts, described, job, numbers

LATE, LIMIT = "DeadlineExceeded", "BackoffLimitExceeded"


def started(ago: float, **more: Any) -> Object:
    return {"startTime": format_time(NOW - ago), **more}


@pytest.mark.parametrize(
    ("completions", "deadline", "ago", "more", "there", "left", "conditions"),
    [
        (1, 10, 15, {}, "Running", numbers(failed=1, terminating=1), will_fail(LATE)),
        (2, 10, 15, {}, "Running, Succeeded", numbers(succeeded=1, failed=1, terminating=1), will_fail(LATE)),
        (1, 10, 10, {}, "", numbers(), failed(LATE)),
        (1, 1, 10, {"backoffLimit": 0}, "Failed", numbers(failed=1), failed(LIMIT)),
        (2, 10, 15, {"suspend": True}, "", numbers(), SUSPENDED),
    ],
)
def test_job_fails_after_its_deadline(
    completions: int, deadline: int, ago: float, more: Object, there: str, left: Object, conditions: Conditions
) -> None:
    shown = job(completions=completions, activeDeadlineSeconds=deadline, status=started(ago), **more)
    scene = Scene(shown, described(there))
    driven = scene.sync()
    assert acts(driven)[0] == 0
    assert len(deleted_keys(driven)) == left["terminating"]
    assert scene.numbers == left
    assert scene.messages == conditions
    assert ("startTime" in scene.status) is not more.get("suspend", False)


@pytest.mark.parametrize("status", [{}, started(0)])
def test_job_is_requeued_until_its_deadline(status: Object) -> None:
    """The deadline starts with the first sync, or with startTime if it is set."""
    scene = Scene(job(completions=1, activeDeadlineSeconds=1, status=status))
    driven = scene.sync()
    assert driven.result is not None
    assert driven.result.seconds == 1.0
    scene.bench.clock.advance(1)
    scene.sync()
    assert scene.messages == will_fail(LATE)
    scene.let_pods_go()
    driven = scene.sync()
    assert scene.messages == failed(LATE)
    assert driven.events == [("Warning", LATE, "Job was active longer than specified deadline")]


def test_false_condition_is_replaced_in_place() -> None:
    known = {"type": "Failed", "status": "False", "reason": LATE, "message": "once"}
    scene = Scene(job(completions=1, activeDeadlineSeconds=10, status=started(15, conditions=[known])))
    scene.sync()
    assert scene.messages == failed(LATE)[::-1]


@pytest.mark.parametrize(
    ("parallelism", "completions", "limit", "there", "left", "conditions"),
    [
        (1, 1, 0, "Running restarts=0", numbers(active=1), []),
        (1, 1, 1, "Running restarts=0", numbers(active=1), []),
        (1, 1, 1, "Running restarts=1", numbers(failed=1, terminating=1), will_fail(LIMIT)),
        (1, 1, 1, "Pending restarts=1", numbers(failed=1, terminating=1), will_fail(LIMIT)),
        (1, 5, 2, "Running restarts=2", numbers(failed=1, terminating=1), will_fail(LIMIT)),
        (1, 5, 2, "Pending restarts=2", numbers(failed=1, terminating=1), will_fail(LIMIT)),
        (2, 5, 2, "Running restarts=1 x2", numbers(failed=2, terminating=2), will_fail(LIMIT)),
        (2, 5, 2, "Pending restarts=1 x2", numbers(failed=2, terminating=2), will_fail(LIMIT)),
        (2, 5, 3, "Running restarts=1 x2", numbers(active=2), []),
        (1, 1, 0, "Running restarts=1", numbers(failed=1, terminating=1), will_fail(LIMIT)),
    ],
)
def test_container_restarts_count_as_failures(
    parallelism: int, completions: int, limit: int, there: str, left: Object, conditions: Conditions
) -> None:
    shown = job(parallelism=parallelism, completions=completions, backoffLimit=limit, restartPolicy="OnFailure")
    scene = Scene(shown, described(there))
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions


@pytest.mark.parametrize(
    ("there", "left", "conditions"),
    [
        ("Running restarts=1 x2", numbers(terminating=2), SUSPENDED),
        (
            "Succeeded restarts=1 x2, Succeeded restarts=2, Succeeded restarts=0",
            numbers(succeeded=4),
            complete("CompletionsReached"),
        ),
    ],
)
def test_suspended_job_finishes_with_enough_successes(there: str, left: Object, conditions: Conditions) -> None:
    scene = Scene(job(parallelism=2, completions=4, suspend=True, restartPolicy="OnFailure"), described(there))
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions
    assert scene.status.get("startTime") == (format_time(NOW) if left["succeeded"] else None)


@pytest.mark.parametrize(
    ("wanted", "limit", "there", "left", "conditions"),
    [
        (1, 0, "Running", numbers(active=1), []),
        (1, 1, "Failed", numbers(active=1, failed=1), []),
        (1, 1, "Failed x2", numbers(failed=2), failed(LIMIT)),
        (2, 6, "Failed x6, Running", numbers(active=2, failed=6), []),
        (2, 6, "Failed x7", numbers(failed=7), failed(LIMIT)),
    ],
)
def test_failed_pods_count_towards_the_backoff_limit(
    wanted: int, limit: int, there: str, left: Object, conditions: Conditions
) -> None:
    scene = Scene(job(parallelism=wanted, completions=wanted, backoffLimit=limit), described(there))
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions
