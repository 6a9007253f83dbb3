"""Tests of the finalizer of PodGroups.

Source of the cases: kubernetes v1.36 pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.controllers.workloads.podgroup_protection import (
    FINALIZER,
    SPEC,
    PodGroupProtection,
    deleted_group,
    group_left_by,
)
from kcm.actors.reconciliation import Change, RequeueAfter
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, List, Update
from kcm.protocols.messages.outcomes import Done, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object, finalizers_of, key_of
from kcm.protocols.resources import POD_GROUPS, PODS
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload

LATER = "2026-01-01T00:00:00Z"
KEY = "default/group"


def group(*finalizers: str, deleted: bool = False) -> Object:
    meta: Object = {"name": "group", "namespace": "default", "finalizers": list(finalizers)}
    if deleted:
        meta["deletionTimestamp"] = LATER
    return {"metadata": meta, "spec": {"schedulingPolicy": {"basic": {}}}}


def pod(of: str | None = "group", *, phase: str = "Running", node: str = "node", **meta: Any) -> Object:
    spec: Object = {"nodeName": node} if node else {}
    if of is not None:
        spec["schedulingGroup"] = {"podGroupName": of} if of else {}
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod", **meta},
        "spec": spec,
        "status": {"phase": phase},
    }


class Scene:
    """Bench that runs the reconciler. live: pods of the API server, if they differ from those in the table."""

    def __init__(self, groups: Iterable[Object], pods: Iterable[Object] = (), live: Iterable[Object] | None = None):
        cached = list(pods)
        self._live = cached if live is None else list(live)
        self.bench = Bench({POD_GROUPS: groups, PODS: cached}, indexes=SPEC.indexes)
        self._protection = PodGroupProtection(tables=self.bench.tables, log=CapturingLogger())  # type: ignore[arg-type]

    def reconcile(self, answer: Answer | None = None, **how: Any) -> Driven:
        return drive(self._protection, KEY, answer or self.accept, tables=self.bench.tables, **how)

    def accept(self, command: Command) -> Outcome:
        if isinstance(command, List):
            assert command.namespace == "default"
            return Done(encode_object({"items": self._live}))
        return self.bench.accept(command)

    def finalizers(self) -> tuple[str, ...]:
        found = self.bench.tables[POD_GROUPS].get(KEY)
        assert found is not None
        return finalizers_of(found)


DELETED = group("a.b/c", FINALIZER, deleted=True)


@pytest.mark.parametrize(
    ("before", "pods", "after"),
    [
        (group(), [], ()),
        (group(), [pod()], ()),
        (group(FINALIZER), [], (FINALIZER,)),
        (group(FINALIZER), [pod(None)], (FINALIZER,)),
        (DELETED, [], ("a.b/c",)),
        (DELETED, [pod()], ("a.b/c", FINALIZER)),
        (DELETED, [pod(node="")], ("a.b/c", FINALIZER)),
        (DELETED, [pod(phase="Pending")], ("a.b/c", FINALIZER)),
        (DELETED, [pod(deletionTimestamp=LATER)], ("a.b/c", FINALIZER)),
        (DELETED, [pod(phase="Succeeded")], ("a.b/c",)),
        (DELETED, [pod(phase="Failed")], ("a.b/c",)),
        (DELETED, [pod(phase="Failed"), pod(name="active", uid="active")], ("a.b/c", FINALIZER)),
        (DELETED, [pod("other"), pod(None), pod(""), pod(namespace="elsewhere")], ("a.b/c",)),
        (group(deleted=True), [], ()),
        (group(deleted=True), [pod()], ()),
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_finalizer_is_kept_while_pods_use_the_group(
    before: Object, pods: list[Object], after: tuple[str, ...], cached: bool
) -> None:
    scene = Scene([before], pods if cached else (), pods)
    result = scene.reconcile().result
    assert scene.finalizers() == after
    # A pod that is not in the table may never be: it is deleted, the informer lists again, and no event follows.
    is_unseen = before == DELETED and FINALIZER in after and not cached
    assert result == (RequeueAfter(UNSEEN_CHECK) if is_unseen else None)
    assert scene.reconcile().of(Update) == []


def test_nothing_is_written_for_a_missing_group() -> None:
    assert Scene([]).reconcile().commands == []


@pytest.mark.parametrize("failing", [List, Update])
def test_failed_request_is_retried(failing: type[Command]) -> None:
    scene = Scene([DELETED])

    def answer(command: Command) -> Outcome:
        return ServerFailure() if isinstance(command, failing) else scene.accept(command)

    scene.reconcile(answer, raises=CommandError)
    assert FINALIZER in scene.finalizers()


def change(type_: str, new: Object, old: Object | None = None) -> Change:
    previous = b"" if old is None else encode_object(old)
    return Change(type=type_, key=key_of(new), raw=encode_object(new), controller=None, previous=previous)


@pytest.mark.parametrize(
    ("happened", "keys"),
    [
        (change("DELETED", pod()), [KEY]),
        (change("MODIFIED", pod(phase="Succeeded"), pod()), [KEY]),
        (change("ADDED", pod(phase="Failed")), [KEY]),
        (change("ADDED", pod(node="")), []),
        (change("ADDED", pod()), []),
        (change("MODIFIED", pod(), pod(phase="Pending")), []),
        (change("DELETED", pod(None)), []),
        (change("DELETED", pod("")), []),
        (change("MODIFIED", pod(phase="Succeeded"), pod(uid="old")), [KEY]),
        (change("MODIFIED", pod("other", phase="Failed"), pod(uid="old")), ["default/other", KEY]),
        (change("MODIFIED", pod(node=""), pod(uid="old")), [KEY]),
    ],
)
def test_change_of_pod_enqueues_the_group_that_it_may_have_left(happened: Change, keys: list[str]) -> None:
    assert list(group_left_by(happened, Scene([]).bench.tables)) == keys


@pytest.mark.parametrize(
    ("happened", "keys"),
    [
        (change("MODIFIED", DELETED, group(FINALIZER)), [KEY]),
        (change("ADDED", group(FINALIZER)), []),
        (change("MODIFIED", group("a.b/c", deleted=True)), []),
    ],
)
def test_group_that_is_being_deleted_is_enqueued(happened: Change, keys: list[str]) -> None:
    assert list(deleted_group(happened, Scene([]).bench.tables)) == keys


def test_group_outlives_its_pods(cluster: SimulatedCluster) -> None:
    cluster.serve(workload.RESOURCE, pod_group.RESOURCE)
    cluster.restart_server()
    options = read_options(["--feature-gates=GenericWorkload=true"], controllers=[SPEC])
    cluster.manager(controllers=[SPEC], options=options)
    cluster.create(POD_GROUPS, group(FINALIZER))
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "group"}}
    cluster.create(PODS, {"metadata": {"name": "pod"}, "spec": spec})
    cluster.delete(POD_GROUPS, KEY)
    cluster.run_for(30.0)
    assert cluster.get(POD_GROUPS, KEY) is not None
    cluster.delete(PODS, "default/pod", grace_seconds=0)
    assert cluster.run_until(lambda: cluster.get(POD_GROUPS, KEY) is None, within=10.0)


def test_controller_needs_its_feature_gate() -> None:
    assert not SPEC.enabled_if(read_options([], controllers=[SPEC]))
