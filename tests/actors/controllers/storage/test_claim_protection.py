"""Tests of the finalizer of claims, and of their condition Unused.

Source of the cases: kubernetes v1.36 pkg/controller/volume/pvcprotection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.controllers.storage.claim_protection import (
    QUEUE,
    SPEC,
    ClaimProtection,
    claims_of_pod,
    with_unused,
)
from kcm.actors.reconciliation import Change, Enqueue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, List, Update
from kcm.protocols.messages.outcomes import Done, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object, finalizers_of, make_key
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS

OURS = "kubernetes.io/pvc-protection"
LATER = "2026-01-01T00:00:00Z"


def claim(
    name: str = "claim", *, deleted: bool = False, finalizers: tuple[str, ...] = (OURS,), owner: str = ""
) -> Object:
    meta: Object = {"name": name, "namespace": "default", "finalizers": list(finalizers)}
    if deleted:
        meta["deletionTimestamp"] = LATER
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "name": "pod", "uid": owner, "controller": True}]
    return {"metadata": meta, "spec": {}, "status": {}}


def pod(*, of: str = "claim", ephemeral: str = "", node: str = "node", phase: str = "Running", **meta: Any) -> Object:
    data: Object = {"name": "data", "persistentVolumeClaim": {"claimName": of}}
    if ephemeral:
        data = {"name": ephemeral, "ephemeral": {}}
    spec: Object = {"volumes": [data], **({"nodeName": node} if node else {})}
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod", **meta},
        "spec": spec,
        "status": {"phase": phase},
    }


class Scene:
    """Bench that runs the reconciler with claims and pods.

    live: pods of the API server, if they differ from those in the table.
    """

    def __init__(
        self,
        claims: Iterable[Object],
        pods: Iterable[Object] = (),
        live: Iterable[Object] | None = None,
        *,
        tracks_unused: bool = False,
        tracks_unbound: bool = True,
    ) -> None:
        cached = list(pods)
        self._live = cached if live is None else list(live)
        self.bench = Bench({PERSISTENT_VOLUME_CLAIMS: claims, PODS: cached}, indexes=SPEC.indexes)
        self._protection = ClaimProtection(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=CapturingLogger(),  # type: ignore[arg-type]
            tracks_unused=tracks_unused,
            tracks_unbound=tracks_unbound,
        )

    def reconcile(self, name: str = "claim", answer: Answer | None = None, **how: Any) -> Driven:
        key = make_key("default", name)
        return drive(self._protection, key, answer or self.accept, tables=self.bench.tables, **how)

    def accept(self, command: Command) -> Outcome:
        if isinstance(command, List):
            assert command.namespace == "default"
            return Done(encode_object({"items": self._live}))
        return self.bench.accept(command)

    def held(self, name: str = "claim") -> bool:
        found = self.bench.tables[PERSISTENT_VOLUME_CLAIMS].get(make_key("default", name))
        assert found is not None
        return OURS in finalizers_of(found)


def test_finalizer_is_added_once() -> None:
    scene = Scene([claim(finalizers=())])
    assert len(scene.reconcile().of(Update)) == 1
    assert scene.held()
    assert scene.reconcile().commands == []
    assert Scene([]).reconcile().commands == []


SHUT_DOWN = {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("pods", "held"),
    [
        ([], False),
        ([pod()], True),
        ([pod(phase="Succeeded")], True),  # terminated, but not deleted
        ([pod(**SHUT_DOWN)], True),
        ([pod(of="other")], False),
        ([pod(node="")], False),
        ([pod(namespace="elsewhere")], False),
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_terminating_claim_keeps_its_finalizer_while_pods_use_it(pods: list[Object], held: bool, cached: bool) -> None:
    scene = Scene([claim(deleted=True)], pods if cached else (), pods)
    enqueued = scene.reconcile().enqueued
    assert scene.held() is held
    # A pod that is not in the table may never be: it is deleted, the informer lists again, and no event follows.
    assert enqueued == ([Enqueue(QUEUE, "default/claim", after=UNSEEN_CHECK)] if held and not cached else [])


@pytest.mark.parametrize(
    ("owner", "used_by", "held"),
    [
        ("pod", pod(ephemeral="data"), True),
        ("other", pod(ephemeral="data"), False),
        ("", pod(ephemeral="data"), False),
        ("pod", pod(ephemeral="data", **SHUT_DOWN), False),
    ],
)
def test_ephemeral_claim_is_used_by_its_own_pod(owner: str, used_by: Object, held: bool) -> None:
    scene = Scene([claim("pod-data", deleted=True, owner=owner)], [used_by])
    scene.reconcile("pod-data")
    assert scene.held("pod-data") is held


def test_one_list_serves_all_claims_of_a_namespace() -> None:
    names = ("a", "b", "c")
    used = [pod(of="b")]
    scene = Scene([claim(name, deleted=True) for name in names] + [claim("d")], [], used)
    driven = scene.reconcile("a")
    assert len(driven.of(List)) == 1
    assert [name for name in (*names, "d") if scene.held(name)] == ["b", "d"]
    assert [each.key for each in driven.enqueued] == ["default/b"]
    assert scene.reconcile("c").commands == []


def test_finalizer_is_kept_if_pods_cannot_be_listed() -> None:
    scene = Scene([claim(deleted=True)])
    scene.reconcile(answer=lambda _: ServerFailure(), raises=CommandError)
    assert scene.held()


def change(type_: str, new: Object, old: Object | None = None) -> Change:
    previous = b"" if old is None else encode_object(old)
    return Change(type=type_, key="default/pod", raw=encode_object(new), controller=None, previous=previous)


OTHER = {"uid": "other"}
STOPPED = {"deletionTimestamp": LATER}


@pytest.mark.parametrize(
    ("happened", "keys"),
    [
        (change("ADDED", pod()), []),
        (change("MODIFIED", pod(), pod(phase="Pending")), []),
        (change("ADDED", pod(node="")), ["default/claim"]),
        (change("MODIFIED", pod(phase="Failed"), pod()), ["default/claim"]),
        (change("MODIFIED", pod(**STOPPED), pod()), ["default/claim"]),
        (change("DELETED", pod()), ["default/claim"]),
        (change("DELETED", pod(ephemeral="x")), ["default/pod-x"]),
        (change("MODIFIED", pod(of="new", **OTHER), pod()), ["default/claim"]),
        (change("MODIFIED", pod(**OTHER), pod()), ["default/claim"]),
        (change("MODIFIED", {"metadata": {"name": "pod", "uid": "pod"}, "spec": {}}), []),
    ],
)
def test_change_of_pod_enqueues_claims_that_it_may_have_released(happened: Change, keys: list[str]) -> None:
    scene = Scene([])
    assert list(claims_of_pod(happened, scene.bench.tables)) == keys


# The condition Unused, with the gate PersistentVolumeClaimUnusedSinceTime. Source of the cases: the tests of
# updateUnusedCondition and podUsesPVCForUnusedSince.


def unused_condition(status: str, reason: str = "r") -> Object:
    return {"type": "Unused", "status": status, "reason": reason, "message": "m", "lastTransitionTime": LATER}


@pytest.mark.parametrize(
    ("before", "used", "after"),
    [
        (None, True, "False PodUsingPVC"),
        (None, False, "True NoPodsUsingPVC"),
        ("True", True, "False PodUsingPVC"),
        ("False", False, "True NoPodsUsingPVC"),
        ("Unknown", False, "True NoPodsUsingPVC"),
        ("Unknown", True, None),
        ("True", False, None),
        ("False", True, None),
    ],
)
def test_condition_unused_follows_the_use_of_a_claim(before: str | None, used: bool, after: str | None) -> None:
    other = {"type": "Resizing", "status": "True"}
    conditions = [other] if before is None else [unused_condition(before), other]
    changed = with_unused({**claim(), "status": {"conditions": conditions, "phase": "Bound"}}, used=used, now=0.0)
    if after is None:
        assert changed is None
        return
    assert changed is not None
    assert changed["status"]["phase"] == "Bound"
    places = {each["type"]: each for each in changed["status"]["conditions"]}
    assert (len(places), places["Resizing"]) == (2, other)
    assert f"{places['Unused']['status']} {places['Unused']['reason']}" == after
    assert places["Unused"]["lastTransitionTime"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([pod()], "False"),
        ([pod(node="")], "False"),  # not scheduled yet
        ([pod(**SHUT_DOWN)], "True"),
        ([pod(phase="Succeeded")], "True"),
        ([pod(phase="Failed")], "True"),
        ([pod(of="other")], "True"),
        ([pod(phase="Succeeded"), pod(name="second", uid="second")], "False"),
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_pods_that_have_not_terminated_use_a_claim(users: list[Object], expected: str, cached: bool) -> None:
    scene = Scene([claim()], users if cached else (), users, tracks_unused=True)
    for _ in range(2):
        enqueued = scene.reconcile().enqueued
        assert enqueued == (
            [] if cached or expected == "True" else [Enqueue(QUEUE, "default/claim", after=UNSEEN_CHECK)]
        )
    found = scene.bench.tables[PERSISTENT_VOLUME_CLAIMS].get("default/claim")
    assert found is not None
    assert [each["status"] for each in found["status"]["conditions"]] == [expected]
    assert scene.reconcile().of(Update) == []


def test_one_list_serves_all_claims_that_become_unused() -> None:
    scene = Scene([claim("a"), claim("b"), claim("c", deleted=True, finalizers=("other",))], tracks_unused=True)
    commands = scene.reconcile("a").commands
    assert [type(command) for command in commands] == [List, Update, Update]
    assert scene.reconcile("b").commands == []


def test_without_the_gate_no_condition_is_written() -> None:
    assert Scene([claim()]).reconcile().commands == []


@pytest.mark.parametrize("gate", ["true", "false"])
def test_condition_unused_in_a_cluster(cluster: SimulatedCluster, gate: str) -> None:
    options = read_options([f"--feature-gates=PersistentVolumeClaimUnusedSinceTime={gate}"], controllers=[SPEC])
    cluster.manager(controllers=[SPEC], options=options)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "claim"}, "spec": spec})
    seen = []
    for step in range(3):
        cluster.run_for(5.0)
        found = cluster.get(PERSISTENT_VOLUME_CLAIMS, "default/claim") or {}
        seen += [(each["status"], each["lastTransitionTime"]) for each in found["status"].get("conditions") or ()]
        if step == 0:
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}
            containers = [{"name": "c", "image": "i"}]
            made = {"metadata": {"name": "user"}, "spec": {"containers": containers, "volumes": [volume]}}
            cluster.create(PODS, made)
        elif step == 1:
            cluster.delete(PODS, "default/user", grace_seconds=0)
    times = [f"2026-01-01T00:00:{second:02}Z" for second in (0, 5, 10)]
    expected = list(zip(("True", "False", "True"), times, strict=True))
    assert seen == (expected if gate == "true" else [])


@pytest.mark.parametrize(("phase", "written"), [("Pending", 0), ("Lost", 0), ("Bound", 1)])
def test_condition_waits_for_a_bound_claim_from_the_release_that_fixed_it(phase: str, written: int) -> None:
    found = {**claim(), "status": {"phase": phase}}
    assert len(Scene([found], tracks_unused=True, tracks_unbound=False).reconcile().of(Update)) == written
    assert len(Scene([found], tracks_unused=True).reconcile().of(Update)) == 1
