"""Removal of the finalizer from pods that no Job counts.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestSyncOrphanPod, TestWatchOrphanPods,
TestFinalizerCleanup).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.orphans import Orphan, OrphanReconciler, left_behind, orphaned
from kcm.actors.controllers.workloads.job.spec import SPEC
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Patch
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Object, controller_of, encode_object
from kcm.protocols.resources import JOBS, PODS
from tests.actors.controllers.workloads.job.scene import KEY, UID, Scene, going, job, pod

ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}
OURS = Orphan(KEY, UID)


def owned_by(**owner: Any) -> Object:
    """Build a pod with the finalizer that is being deleted. owner: fields of its owner reference, if any."""
    named = {"apiVersion": "batch/v1", "kind": "Job", "name": "count", "uid": UID, "controller": True, **owner}
    return going(pod("a", "Running", ownerReferences=[named] if owner else []))


def change_of(obj: Object, type_: str = EventType.MODIFIED) -> Change:
    return Change(
        type=type_, key=f"default/{obj['metadata']['name']}", raw=encode_object(obj), controller=controller_of(obj)
    )


def release(orphan: Orphan, jobs: list[Object], pods: list[Object], answer: Answer | None = None, **how: Any) -> Driven:
    bench = Bench({JOBS: jobs, PODS: pods}, facts=SPEC.facts)

    def gone(command: Command) -> Outcome:
        return NotFound() if isinstance(command, Get) else bench.accept(command)

    return drive(OrphanReconciler(tables=bench.tables), orphan, answer or gone, tables=bench.tables, **how)


@pytest.mark.parametrize(
    ("owner", "jobs", "is_let_go"),
    [
        ({"uid": UID}, [job()], False),
        ({"uid": UID}, [job(status=ENDED)], True),
        ({"uid": UID}, [job(status=ENDED, managedBy="example.com/other")], False),
        ({"uid": UID}, [], True),
        ({"uid": "of the one before"}, [job()], True),
        ({"kind": "CronJob"}, [], False),
        ({"apiVersion": "batch.volcano.sh/v1alpha1"}, [], False),
        ({}, [job()], True),
        ({"controller": False}, [job()], True),
    ],
)
def test_pod_without_a_job_loses_the_finalizer(owner: dict[str, Any], jobs: list[Object], is_let_go: bool) -> None:
    going_pod = owned_by(**owner)
    bench = Bench({JOBS: jobs, PODS: [going_pod]}, facts=SPEC.facts)
    released = [
        command
        for orphan in orphaned(change_of(going_pod), bench.tables)
        for command in release(orphan, jobs, [going_pod]).of(Patch)
    ]
    assert bool(released) is is_let_go


def test_pod_that_is_not_terminating_keeps_its_finalizer() -> None:
    staying = pod("a", "Running")
    bench = Bench({JOBS: [], PODS: [staying]}, facts=SPEC.facts)
    assert list(orphaned(change_of(staying), bench.tables)) == []
    let_go = going(pod("a", "Running", tracked=False))
    bench = Bench({JOBS: [], PODS: [let_go]}, facts=SPEC.facts)
    assert list(orphaned(change_of(let_go), bench.tables)) == []


def test_pods_are_not_decoded_to_find_orphans() -> None:
    going_pod = owned_by(uid=UID)
    bench = Bench({JOBS: [], PODS: [going_pod]}, facts=SPEC.facts)
    unread = Change(type=EventType.MODIFIED, key="default/a", raw=b"no object", controller=controller_of(going_pod))
    assert list(orphaned(unread, bench.tables)) == [OURS]


@pytest.mark.parametrize(
    ("shown", "type_", "orphans"),
    [
        (job(), EventType.MODIFIED, []),
        (job(), EventType.DELETED, [OURS]),
        (job(status=ENDED), EventType.MODIFIED, [OURS]),
        (job(status=ENDED, managedBy="example.com/other"), EventType.MODIFIED, []),
    ],
)
def test_pods_of_finished_or_deleted_job_are_orphans(shown: Object, type_: str, orphans: list[Orphan]) -> None:
    bench = Bench({JOBS: [], PODS: []}, facts=SPEC.facts)
    assert list(left_behind(change_of(shown, type_), bench.tables)) == orphans


def test_pods_of_job_that_is_not_in_the_table_yet_keep_their_finalizer() -> None:
    live = {**job(), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    driven = release(OURS, [], [pod("a", "Succeeded")], lambda _get: Done(encode_object(live)))
    assert driven.of(Patch) == []


@pytest.mark.parametrize("outcome", [Forbidden("no"), Conflict("changed")])
def test_failed_release_is_retried_and_other_pods_are_released(outcome: Outcome) -> None:
    def answer(command: Command) -> Outcome:
        if isinstance(command, Get):
            return NotFound()
        assert isinstance(command, Patch)
        return (
            outcome
            if command.key == "default/a"
            else Done(encode_object(pod(command.key[8:], "Failed", tracked=False, resourceVersion="500")))
        )

    driven = release(OURS, [], [pod(name, "Failed") for name in "abc"], answer, raises=CommandError)
    assert len(driven.of(Patch)) == 3
    assert "default/a" in str(driven.error)


def test_pod_of_externally_finished_job_loses_the_finalizer() -> None:
    scene = Scene(job())
    scene.sync()
    scene.bench.catch_up()
    [made] = scene.bench.tables[PODS].entries()
    assert made.finalizers
    ended = job(status=ENDED)
    scene.bench.show(JOBS, ended)
    reconciler = OrphanReconciler(tables=scene.bench.tables)
    for orphan in left_behind(change_of(ended), scene.bench.tables):
        drive(reconciler, orphan, scene.accept, tables=scene.bench.tables)
    [let_go] = scene.bench.tables[PODS].entries()
    assert let_go.uid == made.uid
    assert not let_go.finalizers
