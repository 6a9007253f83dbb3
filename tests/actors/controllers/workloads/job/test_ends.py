"""Failure policies, backoff, deadlines and suspension of Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.policies import match_failure_policy
from kcm.actors.simulation.driver import NOW, Answer, deleted_keys
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Patch
from kcm.protocols.messages.outcomes import Conflict, Outcome, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.scene import AT, Scene, acts, exited, going, job, pod, pods


def on_exit(action: str, operator: str, *values: int, **more: str) -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def on_condition(action: str, type: str, status: str = "True") -> Object:
    return {"action": action, "onPodConditions": [{"type": type, "status": status}]}


TARGET = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("rules", "status", "action", "why"),
    [
        ([on_exit("Ignore", "In", 2)], exited(2), "Ignore", ""),
        ([on_exit("FailJob", "In", 5), on_exit("Ignore", "In", 2)], exited(2), "Ignore", ""),
        ([on_exit("Count", "In", 2), on_exit("FailJob", "In", 2)], exited(2), "Count", ""),
        ([on_exit("FailJob", "In", 0, 2)], exited(0), None, ""),
        ([on_exit("FailJob", "NotIn", 5)], exited(0), None, ""),
        ([on_exit("FailJob", "In", 2, containerName="other")], exited(2), None, ""),
        ([on_exit("FailJob", "Unknown", 2)], exited(2), None, ""),
        ([on_exit("Unknown", "In", 2), on_exit("Count", "In", 2)], exited(2), "Count", ""),
        ([on_condition("Ignore", "DisruptionTarget")], TARGET, "Ignore", ""),
        ([on_condition("Ignore", "DisruptionTarget", "False")], TARGET, None, ""),
        (
            [on_exit("Count", "In", 1), on_exit("FailJob", "NotIn", 5, 6, 7)],
            exited(42),
            "FailJob",
            "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 1",
        ),
        (
            [on_condition("FailJob", "DisruptionTarget")],
            TARGET,
            "FailJob",
            "Pod default/p has condition DisruptionTarget matching FailJob rule at index 0",
        ),
    ],
)
def test_first_matching_rule_applies(rules: list[Object], status: Object, action: str | None, why: str) -> None:
    assert match_failure_policy(rules, pod("p", "Failed", status=status)) == (action, why)


def with_rules(*rules: Object, **more: Any) -> Object:
    return job(parallelism=1, completions=5, podFailurePolicy={"rules": list(rules)}, **more)


def test_failure_policy_ends_the_job_with_its_message() -> None:
    scene = Scene(with_rules(on_exit("FailJob", "In", 5)), [pod("p", "Failed", status=exited(5))])
    driven = scene.sync()
    assert scene.conditions == [("FailureTarget", "True", "PodFailurePolicy"), ("Failed", "True", "PodFailurePolicy")]
    text = "Container main for pod default/p failed with exit code 5 matching FailJob rule at index 0"
    assert driven.events == [("Warning", "PodFailurePolicy", text)]


def test_ignored_failure_is_released_uncounted() -> None:
    scene = Scene(with_rules(on_exit("Ignore", "In", 5)), [pod("p", "Failed", status=exited(5, at=NOW - 30))])
    assert acts(scene.sync()) == (1, 0, 1)
    assert scene.counts == (1, 0, 0)


def test_terminating_pod_is_awaited_with_a_failure_policy() -> None:
    scene = Scene(with_rules(on_exit("Ignore", "In", 5)), [going(pod("p", "Running"))])
    assert acts(scene.sync()) == (0, 0, 0)
    assert scene.status["terminating"] == 1


def test_deadline_is_awaited_and_fails_the_job() -> None:
    started = {"startTime": format_time(NOW - 4)}
    scene = Scene(job(activeDeadlineSeconds=10, completions=1, status=started), pods(Running=1))
    driven = scene.sync()
    assert driven.result is not None
    assert driven.result.seconds == pytest.approx(6.0)
    scene.bench.clock.advance(6)
    assert acts(scene.sync()) == (0, 1, 1)
    assert scene.conditions == [("FailureTarget", "True", "DeadlineExceeded")]


def test_failed_pods_are_replaced_with_doubling_delay() -> None:
    there = [pod(f"p{i}", "Failed", status=exited(1, at=NOW - 1)) for i in range(2)]
    scene = Scene(job(completions=1), there)
    driven = scene.sync()
    assert acts(driven) == (0, 0, 2)
    assert driven.result is not None
    assert driven.result.seconds == pytest.approx(19.0)
    scene.bench.clock.advance(19)
    assert acts(scene.sync()) == (1, 0, 0)


@pytest.mark.parametrize(("ago", "wait"), [(4.0, 6.0), (9.5, 1.0)])
def test_requeue_delay_is_at_least_a_second(ago: float, wait: float) -> None:
    scene = Scene(job(completions=1), [pod("a", "Failed", status=exited(1, at=NOW - int(ago)))])
    scene.bench.clock.advance(ago - int(ago))
    driven = scene.sync()
    assert acts(driven)[0] == 0
    assert driven.result is not None
    assert driven.result.seconds == wait


def test_pods_of_suspended_job_are_released_uncounted() -> None:
    started = {"startTime": format_time(NOW - 60), "active": 2}
    scene = Scene(job(parallelism=2, completions=4, suspend=True, status=started), pods(Running=2))
    driven = scene.sync()
    assert acts(driven) == (0, 2, 2)
    assert scene.conditions == [("Suspended", "True", "JobSuspended")]
    assert driven.events[-1] == ("Normal", "Suspended", "Job suspended")
    assert "startTime" not in scene.status
    assert scene.counts == (0, 0, 0)


def test_suspended_job_keeps_its_start_time_without_the_gate() -> None:
    """MutableSchedulingDirectivesForSuspendedJobs."""
    started = {"startTime": format_time(NOW - 60)}
    scene = Scene(job(suspend=True, status=started), clears_start_time=False)
    scene.sync()
    assert scene.conditions == [("Suspended", "True", "JobSuspended")]
    assert scene.status["startTime"] == started["startTime"]


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "CompletionsReached"), ("Failed", "BackoffLimitExceeded")])
def test_pod_that_terminates_during_suspension_finishes_the_job(phase: str, reason: str) -> None:
    """The server has a newer version of the pod than the table, and rejects a finished Job without startTime."""
    scene = Scene(job(completions=1, backoffLimit=0, suspend=True, status={"startTime": AT}), [pod("p", "Running")])
    scene.sync(lambda command: Conflict("changed") if isinstance(command, Patch) else scene.accept(command))
    assert scene.conditions == [("Suspended", "True", "JobSuspended")]
    assert "startTime" not in scene.status
    scene.bench.catch_up()
    scene.bench.show(PODS, pod("p", phase))
    scene.sync()
    assert scene.conditions[-1][2] == reason
    assert scene.conditions[-1][0] in ("Complete", "Failed")
    assert scene.status["startTime"] == format_time(NOW)


def test_suspended_job_with_zero_completions_completes_without_start_time() -> None:
    scene = Scene(job(completions=0, suspend=True))
    scene.sync()
    assert scene.conditions[-1] == ("Complete", "True", "CompletionsReached")
    assert "startTime" not in scene.status


def test_resumed_job_gets_a_new_start_time() -> None:
    asleep = {
        "conditions": [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]
    }
    scene = Scene(job(parallelism=2, completions=4, status=asleep))
    driven = scene.sync()
    assert acts(driven) == (2, 0, 0)
    assert scene.conditions == [("Suspended", "False", "JobResumed")]
    assert driven.events[-1] == ("Normal", "Resumed", "Job resumed")
    assert scene.status["startTime"] == format_time(NOW)


def test_externally_managed_job_is_ignored_and_counted_once() -> None:
    scene = Scene(job(managedBy="example.com/other"), pods(Succeeded=1))
    assert scene.sync().commands == scene.sync().commands == []


@pytest.mark.parametrize("manager", [None, "kubernetes.io/job-controller"])
def test_job_managed_by_the_job_controller_is_synced(manager: str | None) -> None:
    started = {"startTime": format_time(NOW), "active": 1, "ready": 1}
    scene = Scene(job(parallelism=2, completions=2, managedBy=manager, status=started))
    scene.sync()
    counts = {"active": 2, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert scene.status == {**counts, "startTime": format_time(NOW)}


def test_pod_that_has_just_succeeded_is_not_released() -> None:
    """The server has a newer version of the pod than the table."""
    scene = Scene(job(parallelism=1, completions=5), pods(Running=2))

    def changed(command: Command) -> Outcome:
        return Conflict("the pod has changed") if isinstance(command, Patch) else scene.accept(command)

    driven = scene.sync(changed)
    assert deleted_keys(driven) == []
    assert driven.result is not None


def test_missing_finalizer_of_active_pod_is_restored() -> None:
    scene = Scene(job(parallelism=1, completions=5), [pod("p", "Running", tracked=False)])
    scene.sync()
    entry = scene.bench.tables[PODS].entry("default/p")
    assert entry is not None
    assert entry.finalizers == ("batch.kubernetes.io/job-tracking",)


def test_creation_with_unknown_outcome_is_repeated_with_the_same_name() -> None:
    scene = Scene(job(parallelism=1, completions=5))

    def silent(command: Command) -> Outcome:
        return Unknown("no answer") if isinstance(command, Create) else scene.accept(command)

    first = scene.sync(silent, raises=CommandError)
    again = scene.sync()
    assert [create.body for create in first.of(Create)] == [create.body for create in again.of(Create)]
    assert scene.bench.tables[JOBS].get("default/count") is not None


def failing(kind: type[Command], scene: Scene) -> Answer:
    def answer(command: Command) -> Outcome:
        return Unknown("no answer") if isinstance(command, kind) else scene.accept(command)

    return answer


def test_pod_with_remaining_finalizer_is_not_counted_yet() -> None:
    scene = Scene(job(completions=1), pods(Succeeded=1))
    scene.sync(failing(Patch, scene), raises=CommandError)
    assert scene.status["uncountedTerminatedPods"] == {"succeeded": ["uid-of-succeeded-0"]}
    assert scene.counts == (0, 0, 0)
    scene.sync()
    assert scene.counts == (0, 1, 0)
