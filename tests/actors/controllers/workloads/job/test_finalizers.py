"""Sequence of status writes while finalizers of finished pods are removed.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestTrackJobStatusAndRemoveFinalizers,
TestGetNewFinshedPods), with the gates that are on by default.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.job.status import condition
from kcm.actors.simulation.driver import NOW
from kcm.protocols.messages.commands import Command, Patch, Update
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.job.scene import Scene, acts, described, job, written
from tests.actors.controllers.workloads.job.steps import Track, finished_pods, status_line, uncounted

SUCCEEDS = condition("SuccessCriteriaMet", "", "", now=NOW - 60)
FAILS = condition("FailureTarget", "", "", now=NOW - 60)
FAILED = condition("Failed", "", "", now=NOW)
FAILING = {"conditions": [FAILS]}


def check(track: Track, released: int, writes: list[str], finished: tuple[int, int]) -> None:
    """Track, and compare. finished: numbers of succeeded and failed pods in the metrics."""
    driven = track.run()
    assert acts(driven) == (0, 0, released)
    assert list(map(status_line, written(driven))) == writes
    assert finished_pods(track) == finished


@pytest.mark.parametrize(
    ("status", "pods", "released", "writes", "finished"),
    [
        ({}, "", 0, [], (0, 0)),
        ({"active": 0}, "Running", 0, ["0/0"], (0, 0)),
        (
            {},
            "a: Succeeded, b: Failed, c: Succeeded going, d: Failed going, e: Pending going, f: Pending, g: Running",
            5,
            ["0/0; succeeded: a+c; failed: b+d+e", "2/3"],
            (2, 3),
        ),
        (
            {"succeeded": 2, "failed": 3, **uncounted("ae", "bf")},
            (
                "e: Succeeded untracked, x: Failed untracked, y: Pending untracked, "
                "a: Succeeded, b: Failed, c: Succeeded, d: Failed"
            ),
            4,
            ["3/4; succeeded: a+c; failed: b+d", "5/6"],
            (3, 3),
        ),
        (  # c, d, g and h have lost it by our own writes, which the listers show
            {"succeeded": 2, "failed": 3, **uncounted("ag", "bh")},
            (
                "a: Succeeded, b: Failed, c: Succeeded untracked, d: Failed untracked, "
                "e: Succeeded, f: Failed, g: Succeeded untracked, h: Failed untracked"
            ),
            4,
            ["3/4; succeeded: a+e; failed: b+f", "5/6"],
            (3, 3),
        ),
    ],
)
def test_finished_pod_is_recorded_as_uncounted_first(
    status: Object, pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    check(Track(status, pods), released, writes, finished)


@pytest.mark.parametrize(
    ("end", "status", "pods", "released", "writes", "finished"),
    [
        (
            SUCCEEDS,
            {},
            "a: Succeeded, b: Failed, c: Pending",
            3,
            ["0/0; succeeded: a; failed: b; SuccessCriteriaMet", "1/1; SuccessCriteriaMet; Complete"],
            (1, 1),
        ),
        (
            FAILS,
            {},
            "a: Succeeded, b: Failed, c: Running",
            3,
            ["0/0; succeeded: a; failed: b+c; FailureTarget", "1/2; FailureTarget; Failed"],
            (1, 2),
        ),
        (
            FAILED,
            {**FAILING, **uncounted("", "ab")},
            "a: Failed, b: Succeeded",
            2,
            ["0/2; FailureTarget; Failed"],
            (0, 2),
        ),
        (FAILED, {**FAILING, **uncounted("", "a")}, "a: Failed", 1, ["0/1; FailureTarget; Failed"], (0, 1)),
        (
            FAILED,
            {**FAILING, **uncounted("", "a")},
            "a: Running going untracked",
            0,
            ["0/1; FailureTarget"],
            (0, 1),
        ),
        (
            SUCCEEDS,
            {"conditions": [SUCCEEDS], **uncounted("b", "a")},
            "a: Running going untracked",
            0,
            ["1/1; SuccessCriteriaMet"],
            (1, 1),
        ),
    ],
)
def test_job_finishes_when_its_pods_are_deleted_and_counted(
    end: Object, status: Object, pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    check(Track(status, pods, end=end), released, writes, finished)


def test_terminating_job_releases_its_pods_and_counts_finished_ones() -> None:
    track = Track({}, "a: Succeeded, b: Failed, c: Running", going=True)
    check(track, 3, ["0/0; succeeded: a; failed: b", "1/1"], (1, 1))


@pytest.mark.parametrize(
    ("refused", "status", "pods", "released", "writes"),
    [
        (Update, {}, "a: Succeeded, b: Failed", 0, ["0/0; succeeded: a; failed: b"]),
        (Patch, {}, "a: Succeeded, b: Failed", 2, ["0/0; succeeded: a; failed: b"]),
        (
            Patch,
            uncounted("a", "b"),
            "a: Succeeded untracked, c: Succeeded, d: Failed",
            2,
            ["1/1; succeeded: c; failed: d"],
        ),
    ],
)
def test_rejected_writes_leave_pods_uncounted(
    refused: type[Command], status: Object, pods: str, released: int, writes: list[str]
) -> None:
    driven = Track(status, pods).run(refused)
    assert acts(driven) == (0, 0, released)
    assert list(map(status_line, written(driven))) == writes


@pytest.mark.parametrize(
    ("completions", "status", "pods", "released", "writes", "finished"),
    [
        (
            6,
            {},
            "Succeeded #1, Succeeded #3, Succeeded #3, Running #5, Succeeded",
            4,
            ["2/0; indexes 1,3"],
            (2, 0),
        ),
        (2, {"succeeded": 1, "completedIndexes": "3"}, "Running #0, Running #1", 0, ["0/0"], (0, 0)),
        (2, {"succeeded": 1, "completedIndexes": "3"}, "Running #0, Succeeded #1", 1, ["1/0; indexes 1"], (1, 0)),
        (
            6,
            {},
            "a: Failed #1, b: Failed #3, c: Failed #3, d: Running #5, Failed",
            4,
            ["0/0; failed: a+b+c", "0/3"],
            (0, 3),
        ),
        (  # counted as failed while it was terminating
            6,
            uncounted("", "a"),
            "a: Succeeded #1",
            1,
            ["1/0; failed: a; indexes 1", "1/1; indexes 1"],
            (1, 1),
        ),
        (
            7,
            {"succeeded": 5, "failed": 2, "completedIndexes": "0-2,4,6,7"},
            "Succeeded #0 untracked, Failed #1 untracked, Succeeded #1, Succeeded #3, a: Failed #2, b: Failed #5",
            4,
            ["6/2; failed: a+b; indexes 0-4,6", "6/4; indexes 0-4,6"],
            (1, 2),
        ),
    ],
)
def test_successes_are_counted_by_index(
    completions: int, status: Object, pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    track = Track(status, pods, completionMode="Indexed", completions=completions, parallelism=completions)
    check(track, released, writes, finished)


@pytest.mark.parametrize(
    ("pods", "released", "writes", "finished"),
    [
        ("a: Failed #1 failures=0", 0, ["0/0; failed indexes ''"], (0, 0)),
        (
            "a: Failed #1 failures=0, b: Running #1 failures=1",
            1,
            ["0/0; failed: a; failed indexes ''", "0/1; failed indexes ''"],
            (0, 1),
        ),
        (
            "a: Failed #1 failures=1",
            1,
            ["0/0; failed: a; failed indexes '1'", "0/1; failed indexes '1'"],
            (0, 1),
        ),
    ],
)
def test_failure_is_counted_when_its_replacement_exists(
    pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    track = Track({}, pods, completionMode="Indexed", completions=6, backoffLimitPerIndex=1)
    check(track, released, writes, finished)


def test_other_pods_are_counted_if_one_release_is_rejected() -> None:
    track = Track({}, "a: Succeeded, b: Succeeded, c: Failed")
    driven = track.run(Patch, but={"default/b"})
    assert list(map(status_line, written(driven))) == ["0/0; succeeded: a+b; failed: c", "1/0; succeeded: a; failed: c"]


def test_at_most_500_pods_are_uncounted_at_once() -> None:
    track = Track(uncounted("", "ab"), "Succeeded x500, b: Failed")
    driven = track.run()
    assert acts(driven) == (0, 0, 499)
    first, last = written(driven)
    uids = [f"uid-of-p{i}" for i in range(499)]
    assert first["uncountedTerminatedPods"] == {"succeeded": uids, "failed": ["uid-of-b"]}
    assert (first.get("succeeded", 0), first["failed"]) == (0, 1)
    assert status_line(last) == "499/1; failed: b"


def test_at_most_500_indexes_are_counted_at_once() -> None:
    there = ", ".join(f"Succeeded #{index}" for index in range(501))
    check(Track({}, there, completionMode="Indexed", completions=501), 500, ["500/0; indexes 0-499"], (500, 0))


def test_job_finishes_only_when_all_pods_are_counted() -> None:
    scene = Scene(job(parallelism=2, completions=501), described("Succeeded x501"))
    driven = scene.sync()
    assert driven.result is not None
    assert status_line(scene.status) == "500/0; SuccessCriteriaMet"
    scene.sync()
    assert status_line(scene.status) == "501/0; SuccessCriteriaMet; Complete"


@pytest.mark.parametrize(
    ("status", "pods", "succeeded", "failed"),
    [
        (
            {"succeeded": 2, "failed": 1},
            "Succeeded untracked, Succeeded x2, Failed untracked, Failed, Running untracked",
            4,
            2,
        ),
        (
            {"succeeded": 1, "failed": 1, **uncounted("ac", "ef")},
            (
                "a: Succeeded untracked, b: Succeeded untracked, c: Succeeded, d: Succeeded, "
                "e: Failed untracked, f: Failed, g: Failed"
            ),
            4,
            4,
        ),
        (  # b and f have lost it by our own writes
            {"succeeded": 2, "failed": 2, **uncounted("a", "d")},
            (
                "a: Succeeded untracked, b: Succeeded untracked, c: Succeeded, "
                "d: Failed untracked, e: Failed, f: Failed untracked, g: Failed"
            ),
            4,
            5,
        ),
        (
            {"succeeded": 1, "failed": 1},
            (
                "Succeeded going, Failed going, Running going, Pending going, "
                "Running going untracked, Pending going untracked"
            ),
            2,
            4,
        ),
    ],
)
def test_total_numbers_of_finished_pods(status: Object, pods: str, succeeded: int, failed: int) -> None:
    found = Track(status, pods).observed
    assert (found.succeeded, found.failed) == (succeeded, failed)
