"""Single syncs of a Job, and recovery after a crash."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.job.fields import job_spec
from kcm.actors.controllers.workloads.job.pods import is_settled
from kcm.actors.simulation.driver import NOW
from kcm.protocols.messages.commands import Patch
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.scene import (
    KEY,
    UID,
    Scene,
    acts,
    going,
    job,
    job_pods,
    pod,
    pods,
    written,
)


def test_at_most_500_pods_are_created_at_once() -> None:
    scene = Scene(job(parallelism=1000, completions=1000))
    assert acts(scene.sync()) == (500, 0, 0)
    assert scene.counts == (500, 0, 0)


def test_second_sync_writes_nothing() -> None:
    scene = Scene(job(parallelism=2, completions=5))
    scene.sync()
    assert scene.sync().commands == []


def complete() -> list[tuple[str, str, str]]:
    return [("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached")]


def test_job_completes_in_two_writes() -> None:
    scene = Scene(job(completions=1), pods(Succeeded=1))
    driven = scene.sync()
    first, last = written(driven)
    assert first["uncountedTerminatedPods"] == {"succeeded": ["uid-of-succeeded-0"]}
    assert [condition["type"] for condition in first["conditions"]] == ["SuccessCriteriaMet"]
    assert last["uncountedTerminatedPods"] == {}
    assert last["succeeded"] == 1
    assert scene.conditions == complete()
    assert driven.events == [("Normal", "Completed", "Job completed")]
    assert scene.sync().commands == []


@pytest.mark.parametrize(("started", "ended"), [(NOW - 60, NOW), (NOW + 3600, NOW + 3600)])
def test_completion_time_is_never_before_start_time(started: float, ended: float) -> None:
    """The server rejects a completionTime before startTime, which a leader with a fast clock may have written."""
    scene = Scene(job(completions=1, status={"startTime": format_time(started)}), pods(Succeeded=1))
    scene.sync()
    assert scene.conditions == complete()
    assert scene.status["startTime"] == format_time(started)
    assert scene.status["completionTime"] == format_time(ended)


def test_every_kind_of_finish_is_counted_once() -> None:
    some = [
        pod("a", "Succeeded"),
        pod("b", "Failed"),
        going(pod("c", "Succeeded")),
        going(pod("d", "Failed")),
        going(pod("e", "Pending")),
    ]
    scene = Scene(job(parallelism=1, completions=10, backoffLimit=6), some)
    first, last = written(scene.sync())
    assert first["uncountedTerminatedPods"] == {
        "succeeded": ["uid-of-a", "uid-of-c"],
        "failed": ["uid-of-b", "uid-of-d", "uid-of-e"],
    }
    assert (last["succeeded"], last["failed"], last["uncountedTerminatedPods"]) == (2, 3, {})


@pytest.mark.parametrize("stopped", range(1, 8))
def test_each_pod_is_counted_once_after_a_crash_between_any_two_writes(stopped: int) -> None:
    some = [*pods(Succeeded=2, Failed=1), pod("running", "Running")]
    scene = Scene(job(parallelism=1, completions=3), some)
    scene.sync(stop_after=stopped)
    scene.bench.catch_up()
    scene.restart()
    for _ in range(3):
        scene.sync()
    assert scene.counts == (1, 2, 1)
    assert scene.status["uncountedTerminatedPods"] == {}


def test_pod_that_was_counted_is_looked_at_again_only_after_a_change() -> None:
    """A Job of thousands of pods is synced every second, and most of its pods have finished."""
    scene = Scene(job(parallelism=1, completions=5), [*pods(Succeeded=2), pod("running", "Running")])
    scene.sync()
    scene.bench.catch_up()
    scene.sync()
    memory = scene.reconciler._memories.of(KEY, UID)
    assert ({entry.uid for entry in memory.settled}, list(memory.pods)) == (
        {"uid-of-succeeded-0", "uid-of-succeeded-1"},
        ["uid-of-running"],
    )
    scene.bench.show(PODS, pod("succeeded-0", "Succeeded", tracked=False, labels={"job": "another"}))
    scene.bench.hide(PODS, "default/succeeded-1")
    driven = scene.sync()
    assert [patch.key for patch in driven.of(Patch)] == ["default/succeeded-0"]  # is released
    assert not memory.settled
    assert scene.counts == (1, 2, 0)


@pytest.mark.parametrize(
    ("phase", "policy", "tracked", "settled"),
    [
        ("Succeeded", False, False, True),
        ("Succeeded", True, False, True),
        ("Succeeded", False, True, False),
        ("Failed", False, False, True),
        ("Failed", True, False, False),
        ("Running", False, False, False),
    ],
)
def test_finished_pods_without_the_finalizer_are_settled(
    phase: str, policy: bool, tracked: bool, settled: bool
) -> None:
    rules = {"podFailurePolicy": {"rules": [{"action": "FailJob"}]}} if policy else {}
    (parsed,) = job_pods(pod("a", phase, tracked=tracked))
    assert is_settled(parsed.entry, job_spec(job(**rules))) is settled


def failed_job(**more: Object) -> Object:
    return job(parallelism=2, completions=5, **more)


def test_reason_of_the_end_is_kept() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
    scene = Scene(failed_job(status={"conditions": [target]}), pods(Succeeded=5))
    driven = scene.sync()
    assert scene.conditions[-1] == ("Failed", "True", "DeadlineExceeded")
    assert driven.events == [("Warning", "DeadlineExceeded", "late")]
