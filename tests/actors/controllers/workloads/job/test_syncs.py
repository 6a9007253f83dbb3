"""One sync of a Job: upstream's table of what it creates, deletes and counts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.simulation.driving import NOW
from protocols.objects import Object
from protocols.times import format_time
from tests.actors.controllers.workloads.job.scene import Scene, acts, going, job, pod, pods, written


@pytest.mark.parametrize(
    ("spec", "there", "does", "counts"),
    [
        ({"parallelism": 2, "completions": 5}, {}, (2, 0, 0), (2, 0, 0)),
        ({"parallelism": 2}, {}, (2, 0, 0), (2, 0, 0)),
        ({"parallelism": 2, "completions": 5}, {"Pending": 2}, (0, 0, 0), (2, 0, 0)),
        ({"parallelism": 2, "completions": 5}, {"Running": 1, "Succeeded": 1}, (1, 0, 1), (2, 1, 0)),
        ({"parallelism": 2, "completions": 5}, {"Running": 3}, (0, 1, 1), (2, 0, 0)),
        ({"parallelism": 2, "completions": 5}, {"Running": 10}, (0, 8, 8), (2, 0, 0)),
        ({"parallelism": 3, "completions": 4}, {"Running": 3, "Succeeded": 2}, (0, 1, 3), (2, 2, 0)),
        ({"parallelism": 2}, {"Running": 1, "Succeeded": 1}, (0, 0, 1), (1, 1, 0)),
        ({"parallelism": 2, "completions": 5}, {"Succeeded": 5}, (0, 0, 5), (0, 5, 0)),
        ({"parallelism": 2, "completions": 5}, {"Succeeded": 7}, (0, 0, 7), (0, 7, 0)),
        ({"parallelism": 0, "completions": 5}, {}, (0, 0, 0), (0, 0, 0)),
        ({"parallelism": 1000, "completions": 1000}, {}, (500, 0, 0), (500, 0, 0)),
    ],
)
def test_pods_are_created_deleted_and_counted(
    spec: dict[str, Any], there: dict[str, int], does: tuple[int, int, int], counts: tuple[int, int, int]
) -> None:
    scene = Scene(job(**spec), pods(**there))
    assert acts(scene.sync()) == does
    assert scene.counts == counts


def test_nothing_is_left_to_do_after_a_sync() -> None:
    scene = Scene(job(parallelism=2, completions=5))
    scene.sync()
    assert scene.sync().commands == []


def complete() -> list[tuple[str, str, str]]:
    return [("SuccessCriteriaMet", "True", "CompletionsReached"), ("Complete", "True", "CompletionsReached")]


@pytest.mark.parametrize(
    ("there", "is_complete"),
    [({"Running": 1, "Succeeded": 1}, False), ({"Succeeded": 2}, True), ({"Succeeded": 1, "Failed": 1}, True)],
)
def test_without_completions_one_success_is_enough_once_nothing_runs(there: dict[str, int], is_complete: bool) -> None:
    scene = Scene(job(parallelism=2), pods(**there))
    scene.sync()
    assert scene.conditions == (complete() if is_complete else [])
    assert ("completionTime" in scene.status) is is_complete


def test_a_job_completes_in_two_writes() -> None:
    scene = Scene(job(completions=1), pods(Succeeded=1))
    driven = scene.sync()
    first, last = written(driven)
    assert first["uncountedTerminatedPods"] == {"succeeded": ["uid-of-succeeded-0"]}
    assert [one["type"] for one in first["conditions"]] == ["SuccessCriteriaMet"]
    assert last["uncountedTerminatedPods"] == {}
    assert last["succeeded"] == 1
    assert scene.conditions == complete()
    assert driven.events == [("Normal", "Completed", "Job completed")]
    assert scene.sync().commands == []


@pytest.mark.parametrize(("started", "ended"), [(NOW - 60, NOW), (NOW + 3600, NOW + 3600)])
def test_it_never_completes_before_it_started(started: float, ended: float) -> None:
    """The server refuses that: a leader with a clock ahead of ours would keep us from completing its Jobs."""
    scene = Scene(job(completions=1, status={"startTime": format_time(started)}), pods(Succeeded=1))
    scene.sync()
    assert scene.conditions == complete()
    assert scene.status["startTime"] == format_time(started)
    assert scene.status["completionTime"] == format_time(ended)


def test_every_way_to_end_is_counted_once() -> None:
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
def test_a_crash_between_any_two_writes_counts_nothing_twice_and_loses_nothing(stopped: int) -> None:
    some = [*pods(Succeeded=2, Failed=1), pod("running", "Running")]
    scene = Scene(job(parallelism=1, completions=3), some)
    scene.sync(stop_after=stopped)
    scene.bench.catch_up()
    scene.begin_anew()
    for _ in range(3):
        scene.sync()
    assert scene.counts == (1, 2, 1)
    assert scene.status["uncountedTerminatedPods"] == {}


def test_a_deleted_job_lets_all_its_pods_go_and_creates_none() -> None:
    shown = job(parallelism=2, completions=5, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    scene = Scene(shown, pods(Pending=1, Running=1, Succeeded=1))
    assert acts(scene.sync()) == (0, 0, 3)
    assert scene.counts == (2, 1, 0)


@pytest.mark.parametrize(
    ("policy", "does", "failed"), [("Failed", (0, 0, 1), 1), ("TerminatingOrFailed", (0, 0, 2), 2)]
)
def test_a_terminating_pod_has_failed_unless_only_failed_ones_are_replaced(
    policy: str, does: tuple[int, int, int], failed: int
) -> None:
    some = [*pods(Running=1, Failed=1), going(pod("going", "Running"))]
    scene = Scene(job(parallelism=1, completions=3, podReplacementPolicy=policy), some)
    assert acts(scene.sync()) == does
    assert scene.counts == (1, 0, failed)


def test_too_many_failures_end_it() -> None:
    scene = Scene(job(parallelism=2, completions=5, backoffLimit=1), pods(Running=1, Failed=2))
    driven = scene.sync()
    assert acts(driven) == (0, 1, 3)
    assert scene.conditions == [
        ("FailureTarget", "True", "BackoffLimitExceeded"),
    ]
    assert scene.counts == (0, 0, 3)
    assert scene.status["terminating"] == 1


def failed_job(**more: Any) -> Object:
    return job(parallelism=2, completions=5, **more)


def test_what_ends_it_stays_what_it_was() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
    scene = Scene(failed_job(status={"conditions": [target]}), pods(Succeeded=5))
    driven = scene.sync()
    assert scene.conditions[-1] == ("Failed", "True", "DeadlineExceeded")
    assert driven.events == [("Warning", "DeadlineExceeded", "late")]
