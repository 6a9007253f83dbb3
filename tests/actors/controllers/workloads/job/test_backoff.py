"""Finish time of pods, number of failures, and backoff of replacements.

Source of the cases: kubernetes v1.36 pkg/controller/job/backoff_utils_test.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.backoff import Failures, next_failures, seconds_left
from kcm.actors.controllers.workloads.job.pods import JobPod, finish_time
from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from kcm.runtime.tables.table import Entry
from tests.actors.controllers.workloads.job.scene import exited, job_pods, pod


def ended(*seconds_ago: float | None) -> list[Object]:
    """Build statuses of terminated containers; None is one without finishedAt."""
    times = [{} if ago is None else {"finishedAt": format_time(NOW - ago)} for ago in seconds_ago]
    return [{"name": f"c{number}", "state": {"terminated": at}} for number, at in enumerate(times)]


RUNNING = {"name": "r", "state": {"running": {}}}
SIDECAR = [{"name": "c0", "restartPolicy": "Always"}]
DELETED = {"deletionTimestamp": format_time(NOW)}
CREATED = {"creationTimestamp": format_time(NOW - 60)}


def ready(status: str, ago: float) -> list[Object]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": format_time(NOW - ago)}]


@pytest.mark.parametrize(
    ("meta", "status", "init", "ago"),
    [
        ({}, {"containerStatuses": ended(1, 0, 2)}, [], 0),
        (DELETED, {"containerStatuses": [*ended(1), RUNNING, *ended(2)]}, [], 0),
        (DELETED, {"containerStatuses": [RUNNING]}, [], 0),
        ({**DELETED, "deletionGracePeriodSeconds": 30}, {"containerStatuses": [RUNNING]}, [], 30),
        ({}, {"containerStatuses": ended(None), "conditions": ready("False", 7)}, [], 7),
        (DELETED, {"containerStatuses": ended(None), "conditions": ready("True", 30)}, [], 0),
        (CREATED, {"containerStatuses": ended(None)}, [], 60),
        (CREATED, {}, [], 60),
        ({}, {"containerStatuses": ended(1), "initContainerStatuses": ended(0)}, SIDECAR, 0),
        (CREATED, {"containerStatuses": ended(1), "initContainerStatuses": [{**RUNNING, "name": "c0"}]}, SIDECAR, 60),
        ({}, {"containerStatuses": ended(9), "initContainerStatuses": ended(3)}, [], 9),
    ],
)
def test_finish_time_of_a_pod(meta: Object, status: Object, init: list[Object], ago: float) -> None:
    given = {"metadata": meta, "spec": {"initContainers": init}, "status": status}
    assert finish_time(given) == NOW - ago


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "count", "last"),
    [
        (0, (), (0,), 1, 0),
        (0, (), (0, 1), 2, 0),
        (0, (0,), (2, 1), 0, None),
        (0, (2,), (0, 4, 3, 1), 2, 0),
        (2, (), (0,), 3, 0),
        (0, (0,), (0,), 0, None),
        (3, (), (), 3, None),
        (3, (0,), (), 0, None),
    ],
)
def test_success_resets_earlier_failures(
    before: int, succeeded: Sequence[float], failed: Sequence[float], count: int, last: float | None
) -> None:
    """Failures before the last success do not count. succeeded, failed: seconds since pods finished."""

    def pods(phase: str, times: Sequence[float]) -> Any:
        return job_pods(*(pod(f"{phase.lower()}{i}", phase, status=exited(1, at=NOW - t)) for i, t in enumerate(times)))

    known = Failures(of="u", count=before)
    found = next_failures(known, succeeded=pods("Succeeded", succeeded), failed=pods("Failed", failed))
    assert found == Failures(of="u", count=count, last=0.0 if last is None else NOW - last)


def test_pods_are_not_decoded_without_failures() -> None:
    def unread(_entry: Entry) -> Object:
        raise AssertionError("when it ended matters to nothing")

    succeeded = [JobPod(job_pod.entry, unread) for job_pod in job_pods(pod("a", "Succeeded"))]
    assert next_failures(Failures(of="u", count=3), succeeded=succeeded, failed=[]) == Failures(of="u")


@pytest.mark.parametrize(
    ("failures", "ago", "left"),
    [(0, 0, 0), (1, 0, 10), (1, 1, 9), (1, 10, 0), (1, 11, 0), (3, 0, 40), (6, 0, 320), (7, 0, 600), (5000, 0, 600)],
)
def test_delay_doubles_with_each_failure(failures: int, ago: float, left: float) -> None:
    assert seconds_left(failures, NOW - ago, now=NOW) == left


def test_clock_set_back_does_not_extend_the_delay() -> None:
    assert seconds_left(2, NOW + 3600, now=NOW) == 20
