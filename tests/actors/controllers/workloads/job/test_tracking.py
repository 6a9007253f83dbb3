"""What is written of pods that have ended, write by write, while they lose their finalizer.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestTrackJobStatusAndRemoveFinalizers,
TestGetNewFinshedPods), with the gates that are on by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.workloads.job import metrics as of
from actors.controllers.workloads.job.backoff import Failures
from actors.controllers.workloads.job.conditions import condition
from actors.controllers.workloads.job.counting import Counting, Ending
from actors.controllers.workloads.job.fields import job_spec, job_status
from actors.controllers.workloads.job.memory import Memory
from actors.controllers.workloads.job.metrics import JobMetrics
from actors.controllers.workloads.job.observing import Observed, observe
from actors.controllers.workloads.job.pods import JobPod
from actors.controllers.workloads.job.syncs import Sync
from actors.controllers.workloads.job.writing import running_pods
from actors.simulation.driving import NOW, Driven, drive_steps
from protocols.messages.commands import Command, Patch, Update
from protocols.messages.outcomes import CommandFailed, Forbidden, Outcome
from protocols.objects import Object, is_deleting
from protocols.resources import JOBS, PODS
from runtime.logs.standard_log import quiet_log
from tests.actors.controllers.workloads.job.scene import KEY, UID, Scene, acts, described, job, written

SUCCEEDS = condition("SuccessCriteriaMet", "", "", now=NOW - 60)
FAILS = condition("FailureTarget", "", "", now=NOW - 60)
FAILED = condition("Failed", "", "", now=NOW)


class Track:
    """One step of a sync: the counting of what it has observed. end: the condition with which the Job ends."""

    def __init__(
        self, status: Object, pods: str, *, end: Object | None = None, going: bool = False, **spec: Any
    ) -> None:
        self.end = end
        self.scene = Scene(job(), described(pods))
        running = running_pods(self.scene.bench.tables[PODS], UID)
        counts = {"active": running.active, "ready": running.ready, "terminating": running.terminating}
        meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
        self.scene.bench.show(JOBS, job(status=counts | status, meta=meta, **spec))

    @property
    def observed(self) -> Observed:
        pods, shown = self.scene.bench.tables[PODS], self.scene.bench.tables[JOBS].get(KEY)
        assert shown is not None
        return observe(
            uid=UID,
            spec=job_spec(dict(shown)),
            status=job_status(dict(shown["status"])),
            pods=[JobPod(entry, pods.object_of) for entry in pods.entries()],
            is_going=is_deleting(dict(shown)),
        )

    def run(self, refused: type[Command] | None = None) -> Driven:
        """refused: what the server allows nobody."""
        tables, clock, observed = self.scene.bench.tables, self.scene.bench.clock, self.observed
        entry = tables[JOBS].entry(KEY)
        assert entry is not None
        sync = Sync(entry, dict(tables[JOBS].object_of(entry)), Memory(UID, Failures(of=UID)))
        metrics = JobMetrics(self.scene.registry)
        counting = Counting(pods=tables[PODS], clock=clock, metrics=metrics, log=quiet_log())
        ending = Ending(observed, self.end, observed.status.conditions, None, ())

        def answer(command: Command) -> Outcome:
            is_refused = refused is not None and isinstance(command, refused)
            return Forbidden("not allowed") if is_refused else self.scene.accept(command)

        raises = None if refused is None else CommandFailed
        running = counting.track(sync, ending, Failures(of=UID))
        return drive_steps(running, answer, tables=tables, raises=raises)


def said(status: Object) -> str:
    """The counting part of a status in one line."""
    uncounted = status["uncountedTerminatedPods"]
    waiting = [
        f"{name}: {'+'.join(map(_short, uncounted[name]))}" for name in ("succeeded", "failed") if name in uncounted
    ]
    indexes = [status[name] and f"indexes {status[name]}" for name in ("completedIndexes",) if name in status]
    failed = [f"failed indexes '{status['failedIndexes']}'"] if "failedIndexes" in status else []
    types = [one["type"] for one in status["conditions"]] if "conditions" in status else []
    counts = f"{status.get('succeeded', 0)}/{status.get('failed', 0)}"
    return "; ".join([counts, *waiting, *indexes, *failed, *types])


def _short(uid: str) -> str:
    return uid.removeprefix("uid-of-")


def uncounted(succeeded: str = "", failed: str = "") -> Object:
    """uncountedTerminatedPods with pods of these names, each a letter."""
    uids = {"succeeded": succeeded, "failed": failed}
    return {"uncountedTerminatedPods": {name: [f"uid-of-{one}" for one in names] for name, names in uids.items()}}


def check(track: Track, released: int, writes: list[str], finished: tuple[int, int]) -> None:
    """finished: pods that the metrics count as succeeded, as failed."""
    driven = track.run()
    assert acts(driven) == (0, 0, released)
    assert list(map(said, written(driven))) == writes
    mode = "Indexed" if track.observed.spec.is_indexed else "NonIndexed"
    series = dict(next((values for one, values in track.scene.registry.collect() if one == of.PODS_FINISHED), ()))
    seen = {labels: value.value for labels, value in series.items()}
    assert tuple(seen.get((mode, result), 0) for result in ("succeeded", "failed")) == finished


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
def test_each_pod_that_ended_is_uncounted_first(
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
            FAILED,
            {},
            "a: Succeeded, b: Failed, c: Running",
            3,
            ["0/0; succeeded: a; failed: b+c", "1/2; Failed"],
            (1, 2),
        ),
        (FAILED, uncounted("", "ab"), "a: Failed, b: Succeeded", 2, ["0/2; Failed"], (0, 2)),
        (FAILED, uncounted("", "a"), "a: Failed", 1, ["0/1; Failed"], (0, 1)),
        (
            FAILED,
            {"conditions": [FAILS], **uncounted("", "a")},
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
def test_a_job_ends_once_its_pods_are_gone_and_counted(
    end: Object, status: Object, pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    check(Track(status, pods, end=end), released, writes, finished)


def test_a_job_that_is_being_deleted_lets_its_pods_go_and_counts_those_that_ended() -> None:
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
def test_what_is_refused_is_not_counted(
    refused: type[Command], status: Object, pods: str, released: int, writes: list[str]
) -> None:
    driven = Track(status, pods).run(refused)
    assert acts(driven) == (0, 0, released)
    assert list(map(said, written(driven))) == writes


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
def test_a_success_is_counted_by_its_index(
    completions: int, status: Object, pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    track = Track(status, pods, completionMode="Indexed", completions=completions)
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
def test_a_failure_waits_for_the_pod_that_takes_its_place(
    pods: str, released: int, writes: list[str], finished: tuple[int, int]
) -> None:
    track = Track({}, pods, completionMode="Indexed", completions=6, backoffLimitPerIndex=1)
    check(track, released, writes, finished)


def test_no_more_than_500_pods_are_uncounted_at_once() -> None:
    track = Track(uncounted("", "ab"), "Succeeded x500, b: Failed")
    driven = track.run()
    assert acts(driven) == (0, 0, 499)
    first, last = written(driven)
    uids = [f"uid-of-p{i}" for i in range(499)]
    assert first["uncountedTerminatedPods"] == {"succeeded": uids, "failed": ["uid-of-b"]}
    assert (first.get("succeeded", 0), first["failed"]) == (0, 1)
    assert said(last) == "499/1; failed: b"


def test_no_more_than_500_indexes_are_counted_at_once() -> None:
    there = ", ".join(f"Succeeded #{index}" for index in range(501))
    check(Track({}, there, completionMode="Indexed", completions=501), 500, ["500/0; indexes 0-499"], (500, 0))


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
def test_how_many_have_ended_in_all(status: Object, pods: str, succeeded: int, failed: int) -> None:
    found = Track(status, pods).observed
    assert (found.succeeded, found.failed) == (succeeded, failed)
