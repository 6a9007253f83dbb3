"""The finalizer of claims. Source of the cases: kubernetes v1.36 pkg/controller/volume/pvcprotection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from actors.controllers.storage.claim_protection import SPEC, ClaimProtection, claims_of_pod
from actors.reconciliation import Change
from actors.simulation.driving import Answer, Bench, Driven, drive
from protocols.messages.commands import Command, List, Update
from protocols.messages.outcomes import CommandFailed, Done, Outcome, ServerFailure
from protocols.objects import Object, encode_object, finalizers_of, make_key
from protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS

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
    """live: the pods that the server has, where they differ from those of the table."""

    def __init__(
        self, claims: Iterable[Object], pods: Iterable[Object] = (), live: Iterable[Object] | None = None
    ) -> None:
        cached = list(pods)
        self._live = cached if live is None else list(live)
        self.bench = Bench({PERSISTENT_VOLUME_CLAIMS: claims, PODS: cached}, indexes=SPEC.indexes)
        self._protection = ClaimProtection(tables=self.bench.tables, log=CapturingLogger())  # type: ignore[arg-type]

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


def test_a_claim_is_given_the_finalizer_once() -> None:
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
        ([pod(phase="Succeeded")], True),  # it is still there
        ([pod(**SHUT_DOWN)], True),
        ([pod(of="other")], False),
        ([pod(node="")], False),
        ([pod(namespace="elsewhere")], False),
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_a_claim_that_is_deleted_is_held_while_pods_use_it(pods: list[Object], held: bool, cached: bool) -> None:
    scene = Scene([claim(deleted=True)], pods if cached else (), pods)
    scene.reconcile()
    assert scene.held() is held


@pytest.mark.parametrize(
    ("owner", "used_by", "held"),
    [
        ("pod", pod(ephemeral="data"), True),
        ("other", pod(ephemeral="data"), False),
        ("", pod(ephemeral="data"), False),
        ("pod", pod(ephemeral="data", **SHUT_DOWN), False),
    ],
)
def test_a_claim_of_a_pod_s_own_is_held_by_that_pod(owner: str, used_by: Object, held: bool) -> None:
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
    assert scene.reconcile("c").commands == []


def test_without_a_list_nothing_is_let_go() -> None:
    scene = Scene([claim(deleted=True)])
    scene.reconcile(answer=lambda _: ServerFailure(), raises=CommandFailed)
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
def test_a_pod_wakes_the_claims_that_it_may_have_let_go(happened: Change, keys: list[str]) -> None:
    scene = Scene([])
    assert list(claims_of_pod(happened, scene.bench.tables)) == keys
