"""TTL controller of finished Jobs: upstream's table, and a simulated cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.ttl_after_finished import SPEC, Times, TtlAfterFinished, times_of
from kcm.actors.reconciliation import RequeueAfter, TerminalError
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete, Get
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import JOBS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import pod_template

KEY = "default/job"


def job(ttl: object = 10, *, finished: float | None = 0.0, by: str = "Complete", **meta: Any) -> Object:
    """Build a Job. finished: seconds since it finished; None if it is not finished."""
    conditions = [{"type": "Suspended", "status": "False", "lastTransitionTime": format_time(NOW - 500)}]
    if finished is not None:
        conditions.append({"type": by, "status": "True", "lastTransitionTime": format_time(NOW - finished)})
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    return {
        "metadata": {"name": "job", "namespace": "default", **meta},
        "spec": spec,
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize("by", ["Complete", "Failed"])
@pytest.mark.parametrize(
    ("ttl", "finished", "times"),
    [
        (100, None, None),
        (None, 0.0, None),
        (0, 0.0, Times(NOW, NOW)),
        (10, 0.0, Times(NOW, NOW + 10)),
        (15, 10.0, Times(NOW - 10, NOW + 5)),
        (5, -20.0, Times(NOW + 20, NOW + 25)),
    ],
)
def test_expiry_of_a_job(ttl: int | None, finished: float | None, by: str, times: Times | None) -> None:
    assert times_of(job(ttl, finished=finished, by=by)) == times


def test_terminating_or_unfinished_job_does_not_expire() -> None:
    assert times_of(job(0, deletionTimestamp=format_time(NOW))) is None
    undone = job(0)
    undone["status"]["conditions"][-1]["status"] = "False"
    assert times_of(undone) is None


class Scene:
    def __init__(self, shown: Object | None) -> None:
        self.bench = Bench({JOBS: [] if shown is None else [shown]}, indexes=SPEC.indexes)
        self.late: list[float] = []
        self.reconciler = TtlAfterFinished(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=quiet_log(),
            deleted=self.late.append,
        )

    def sync(self, answer: Answer | None = None, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.bench.tables, raises=raises)

    def with_live(self, live: Object | None) -> Answer:
        """Return an answer of a server whose version differs from the table."""

        def answer(command: Command) -> Outcome:
            if not isinstance(command, Get):
                return self.bench.accept(command)
            if live is None:
                return NotFound()
            meta = {"uid": "uid-of-job", "resourceVersion": "900", **live["metadata"]}
            return Done(encode_object({**live, "metadata": meta}))

        return answer


def test_expired_job_is_read_live_and_deleted_in_the_foreground() -> None:
    scene = Scene(job(10, finished=12))
    get, gone = scene.sync(scene.with_live(job(10, finished=12))).commands
    assert isinstance(get, Get)
    assert gone == Delete(
        "batch/v1/jobs",
        KEY,
        uid="uid-of-job",
        resource_version="900",
        propagation="Foreground",
        depends_on=(),
    )
    assert scene.late == [2.0]


@pytest.mark.parametrize(
    ("shown", "result"),
    [
        (job(10, finished=4), RequeueAfter(6.0)),
        (job(10, finished=-5), RequeueAfter(10.0)),
        (job(0, finished=-3600), RequeueAfter(1.0)),
        (job(None, finished=4), None),
        (job(0, finished=None), None),
        (None, None),
    ],
)
def test_unexpired_job_is_kept(shown: Object | None, result: RequeueAfter | None) -> None:
    driven = Scene(shown).sync()
    assert (driven.commands, driven.result) == ([], result)


@pytest.mark.parametrize(
    ("live", "result"),
    [
        (job(100, finished=12), RequeueAfter(88.0)),
        (job(None, finished=12), None),
        (job(10, finished=12, deletionTimestamp=format_time(NOW)), None),
        (job(10, finished=None, uid="another"), None),
        (None, None),
    ],
)
def test_ttl_on_the_server_has_precedence_over_the_table(live: Object | None, result: RequeueAfter | None) -> None:
    scene = Scene(job(10, finished=12))
    driven = scene.sync(scene.with_live(live))
    assert (driven.of(Delete), driven.result, scene.late) == ([], result, [])


def test_conflict_is_retried() -> None:
    scene = Scene(job(10, finished=12))

    def answer(command: Command) -> Outcome:
        return Conflict("it has changed") if isinstance(command, Delete) else scene.bench.accept(command)

    scene.sync(answer, raises=CommandError)
    assert scene.late == []


def test_sync_succeeds_if_the_job_is_deleted_meanwhile() -> None:
    scene = Scene(job(10, finished=12))
    driven = scene.sync(lambda command: NotFound() if isinstance(command, Delete) else scene.bench.accept(command))
    assert (driven.result, scene.late) == (None, [])


@pytest.mark.parametrize("time", [None, "", "yesterday"])
def test_job_without_finish_time_waits_for_its_next_change(time: object) -> None:
    wrong = job(0)
    wrong["status"]["conditions"][-1]["lastTransitionTime"] = time
    assert Scene(wrong).sync(raises=TerminalError).commands == []


def test_job_is_deleted_when_it_expires(cluster: SimulatedCluster) -> None:
    cluster.manager()
    # managedBy keeps the Job controller from changing the Job.
    spec = {"template": _template(), "ttlSecondsAfterFinished": 30, "managedBy": "example.com/elsewhere"}
    cluster.create(JOBS, {"metadata": {"name": "job"}, "spec": spec})
    cluster.run_for(5)
    at = format_time(cluster.clock.now())
    done = [
        {"type": type_, "status": "True", "lastTransitionTime": at, "lastProbeTime": at}
        for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"conditions": done, "startTime": at, "completionTime": at}
    cluster.merge(JOBS, KEY, {"status": status}, subresource="status")
    cluster.run_for(28)
    assert cluster.get(JOBS, KEY) is not None
    cluster.merge(JOBS, KEY, {"spec": {"ttlSecondsAfterFinished": 60}})
    cluster.run_for(28)
    assert cluster.get(JOBS, KEY) is not None
    assert cluster.run_until(lambda: cluster.get(JOBS, KEY) is None, within=10)


def _template() -> Object:
    template = pod_template(labels={})
    return {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}


@pytest.mark.parametrize("ttl", [{}, "10", -1, 1.5])
def test_malformed_ttl_is_reported_and_leaves_the_job_readable(ttl: object) -> None:
    malformed = job(ttl)
    assert list(SPEC.indexes[0].values_of(malformed)) == ["true"]
    driven = Scene(malformed).sync(raises=TerminalError)
    assert driven.commands == []
    assert str(driven.error) == f"spec.ttlSecondsAfterFinished is a number from 0 on, got {ttl!r}"
