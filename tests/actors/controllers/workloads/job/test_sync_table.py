"""One sync of a Job without indexes: what it creates, deletes and counts.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestControllerSyncJob), with the gates
that are on by default. Cases about expectations are omitted, because this controller has none.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation.driver import NOW, bodies
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Patch
from kcm.protocols.messages.outcomes import Forbidden, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.endings import (
    RESUMED,
    SUSPENDED,
    Conditions,
    complete,
    failed,
    will_fail,
)
from tests.actors.controllers.workloads.job.scene import Scene, acts, described, exited, job, numbers, pod

Acts = tuple[int, int, int]  # pods created, pods deleted, finalizers removed


def spec(parallelism: int, completions: int | None, **more: Any) -> Object:
    """Build the spec of a Job. completions: None if any success completes the Job."""
    return {"parallelism": parallelism, "completions": completions, **more}


def check(scene: Scene, does: Acts, left: Object, conditions: Conditions) -> None:
    driven = scene.sync()
    assert acts(driven) == does
    assert scene.numbers == left
    assert scene.messages == conditions
    assert all("hostname" not in made["spec"] for made in bodies(driven, Create))


@pytest.mark.parametrize(
    ("asked", "there", "does", "left"),
    [
        (spec(2, 5), "", (2, 0, 0), numbers(active=2)),
        (spec(2, None), "", (2, 0, 0), numbers(active=2)),
        (spec(0, 5), "", (0, 0, 0), numbers()),
        (spec(2, 5), "Pending x2", (0, 0, 0), numbers(active=2)),
        (spec(3, 5), "Running, Running Ready x2", (0, 0, 0), numbers(active=3, ready=2)),
        (spec(2, None), "Running x2", (0, 0, 0), numbers(active=2)),
        (spec(2, 5), "Running, Succeeded", (1, 0, 1), numbers(active=2, succeeded=1)),
        (spec(2, None), "Running", (1, 0, 0), numbers(active=2)),
        (spec(2, 5), "Running x2, Succeeded x2", (0, 0, 2), numbers(active=2, succeeded=2)),
        (spec(2, None), "Running, Succeeded", (0, 0, 1), numbers(active=1, succeeded=1)),
    ],
)
def test_pods_are_created_until_enough_run(asked: Object, there: str, does: Acts, left: Object) -> None:
    check(Scene(job(**asked), described(there)), does, left, [])


@pytest.mark.parametrize(
    ("asked", "there", "does", "left"),
    [
        (spec(2, 5), "Running x3", (0, 1, 1), numbers(active=2, terminating=1)),
        (spec(2, 5), "Running Ready x3", (0, 1, 1), numbers(active=2, ready=2, terminating=1)),
        (spec(2, 5), "Running x10", (0, 8, 8), numbers(active=2, terminating=8)),
        (spec(3, 4), "Running x3, Succeeded x2", (0, 1, 3), numbers(active=2, succeeded=2, terminating=1)),
    ],
)
def test_surplus_pods_are_deleted(asked: Object, there: str, does: Acts, left: Object) -> None:
    check(Scene(job(**asked), described(there)), does, left, [])


WAITS = {"podReplacementPolicy": "Failed"}
AT_ONCE = {"podReplacementPolicy": "TerminatingOrFailed"}
NO_RULES: Object = {"podFailurePolicy": {"rules": []}}


@pytest.mark.parametrize(
    ("asked", "there", "does", "left"),
    [
        (spec(2, 5), "Running, Succeeded, Failed", (1, 0, 2), numbers(active=2, succeeded=1, failed=1)),
        (spec(2, 5), "Running, Failed", (1, 0, 1), numbers(active=2, failed=1)),
        (
            spec(1, None, **WAITS),
            "Running, Failed, Running going",
            (0, 0, 1),
            numbers(active=1, failed=1, terminating=1),
        ),
        (
            spec(1, None, **AT_ONCE),
            "Running, Failed, Running going",
            (0, 0, 2),
            numbers(active=1, failed=2, terminating=1),
        ),
        (spec(1, 1), "Running, Failed, Running going", (0, 0, 2), numbers(active=1, failed=2, terminating=1)),
        (spec(1, 1, **WAITS), "Running x2, Running going x4", (0, 1, 1), numbers(active=1, terminating=5)),
        (spec(1, 1, **NO_RULES), "Running x2, Running going x4", (0, 1, 1), numbers(active=1, terminating=5)),
    ],
)
def test_pod_replacement_policy_decides_about_terminating_pods(
    asked: Object, there: str, does: Acts, left: Object
) -> None:
    check(Scene(job(**asked), described(there)), does, left, [])


SUCCESS = pod("done", "Succeeded", status=exited(0, at=NOW))


@pytest.mark.parametrize(
    ("asked", "beside", "does", "left"),
    [
        (spec(1, 1), [], (0, 0, 1), numbers(failed=1)),
        (spec(1, 2), [SUCCESS], (1, 0, 2), numbers(active=1, succeeded=1, failed=1)),
        (
            spec(2, 5),
            described("Running"),
            (0, 0, 1),
            numbers(active=1, failed=1),
        ),  # upstream writes active=0 although a pod runs
    ],
)
def test_pods_are_created_with_backoff_after_a_failure(
    asked: Object, beside: list[Object], does: Acts, left: Object
) -> None:
    failure = pod("failed", "Failed", status=exited(1, at=NOW - 1))
    check(Scene(job(**asked), [failure, *beside]), does, left, [])


BY_HAND = [("FailureTarget", "False", "ByHand", "tried"), ("SuccessCriteriaMet", "False", "ByHand", "tried")]


@pytest.mark.parametrize("by_hand", BY_HAND)
def test_false_condition_does_not_finish_the_job(by_hand: tuple[str, str, str, str]) -> None:
    condition = dict(zip(("type", "status", "reason", "message"), by_hand, strict=True))
    known = {"active": 1, "startTime": format_time(NOW), "conditions": [condition]}
    check(Scene(job(status=known), described("Running Ready")), (0, 0, 0), numbers(active=1, ready=1), [by_hand])


def test_counted_failures_are_not_counted_again() -> None:
    known = {"active": 1, "failed": 1, "startTime": format_time(NOW)}
    scene = Scene(job(**spec(1, 1), status=known), described("Running"))
    check(scene, (0, 0, 0), numbers(active=1, failed=1), [])


@pytest.mark.parametrize(
    ("asked", "there", "does", "left", "conditions"),
    [
        (spec(2, 5), "Succeeded x5", (0, 0, 5), numbers(succeeded=5), complete("CompletionsReached")),
        (spec(2, 5), "Succeeded x7", (0, 0, 7), numbers(succeeded=7), complete("CompletionsReached")),
        (spec(2, None), "Succeeded x2", (0, 0, 2), numbers(succeeded=2), complete("CompletionsReached")),
        (
            spec(2, None),
            "Succeeded, Failed",
            (0, 0, 2),
            numbers(succeeded=1, failed=1),
            complete("CompletionsReached"),
        ),
        (
            spec(2, 3, backoffLimit=0),
            "Running Ready x2, Failed",
            (0, 2, 3),
            numbers(failed=3, terminating=2),
            will_fail("BackoffLimitExceeded"),
        ),
    ],
)
def test_job_finishes_with_enough_successes_or_too_many_failures(
    asked: Object, there: str, does: Acts, left: Object, conditions: Conditions
) -> None:
    check(Scene(job(**asked), described(there)), does, left, conditions)


DELETED = {"deletionTimestamp": format_time(NOW - 5)}


@pytest.mark.parametrize(
    ("asked", "there", "does", "left", "conditions"),
    [
        (spec(2, 5), "Pending, Running, Succeeded", (0, 0, 3), numbers(active=2, succeeded=1), []),
        (spec(2, 5, backoffLimit=0), "Failed", (0, 0, 1), numbers(failed=1), failed("BackoffLimitExceeded")),
        (spec(2, 4, suspend=True), "Running x2", (0, 0, 2), numbers(active=2), []),
    ],
)
def test_terminating_job_only_counts_pods(
    asked: Object, there: str, does: Acts, left: Object, conditions: Conditions
) -> None:
    check(Scene(job(**asked, meta=DELETED), described(there)), does, left, conditions)


@pytest.mark.parametrize("ready", [False, True])
def test_suspended_job_deletes_its_pods(ready: bool) -> None:
    scene = Scene(job(**spec(2, 4, suspend=True)), described("Running Ready x2" if ready else "Running x2"))
    check(scene, (0, 2, 2), numbers(terminating=2), SUSPENDED)
    assert "startTime" not in scene.status


@pytest.mark.parametrize("started", [{}, {"startTime": format_time(NOW - 60)}])
def test_resumed_job_creates_its_pods_and_gets_a_new_start_time(started: Object) -> None:
    asleep = dict(zip(("type", "status", "reason", "message"), SUSPENDED[0], strict=True))
    scene = Scene(job(**spec(2, 4), status={"conditions": [asleep], **started}))
    check(scene, (2, 0, 0), numbers(active=2), RESUMED)
    assert scene.status["startTime"] == format_time(NOW)


@pytest.mark.parametrize(
    ("there", "does", "left", "uncounted"),
    [
        ("Running, done: Succeeded", (1, 0, 1), numbers(active=1), {"succeeded": ["uid-of-done"]}),
        ("Running, bad: Failed", (1, 0, 1), numbers(active=1), {"failed": ["uid-of-bad"]}),
        ("Running x3", (0, 0, 1), numbers(active=3), {}),
    ],
)
def test_rejected_writes_are_not_counted(there: str, does: Acts, left: Object, uncounted: Object) -> None:
    """All writes of pods."""
    scene = Scene(job(**spec(2, 5)), described(there))

    def answer(command: Command) -> Outcome:
        is_of_a_pod = isinstance(command, Create | Patch) and command.resource == PODS.id
        return Forbidden("not allowed") if is_of_a_pod else scene.accept(command)

    assert acts(scene.sync(answer, raises=CommandError)) == does
    assert scene.numbers == left
    assert scene.status["uncountedTerminatedPods"] == uncounted


def test_pods_created_within_a_quota_are_counted() -> None:
    """Pods are created in batches of 1, 2, 4 and 8."""
    scene = Scene(job(**spec(100, 200)))
    room = iter(range(10))

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create) and next(room, None) is None:
            return Forbidden("exceeded quota")
        return scene.accept(command)

    assert acts(scene.sync(answer, raises=CommandError)) == (15, 0, 0)
    assert scene.numbers == numbers(active=10)
