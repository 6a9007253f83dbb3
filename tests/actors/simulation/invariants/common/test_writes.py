"""Detection of hot loops, and of writes in a settled system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.common.writes import MOST_CALLS, WINDOW, NoHotLoop, Quiet
from kcm.actors.simulation.invariants.observer import Committed, Sent
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.protocols.objects import encode_object
from kcm.protocols.resources import CSI_DRIVERS, NODES, PODS, VOLUME_ATTACHMENTS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request
from tests.support.objects import node, owned_by, pod, running_pod

BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b/status"
REPLICA_SET = "/apis/apps/v1/namespaces/default/replicasets/r/status"


def changed(
    namespace: str = "default", *, ready: tuple[bool, bool] = (False, True), type: str = MODIFIED, owner: str = ""
) -> StoreChange:
    """Return a change of a pod's readiness. owner: name of its ReplicaSet."""
    whose = owned_by("u", name=owner) if owner else None
    before, after = (
        encode_object(running_pod("p", namespace=namespace, ready=is_ready, owner=whose)) for is_ready in ready
    )
    return StoreChange(type, "pods", f"{namespace}/p", 8, after, before if type == MODIFIED else b"")


@pytest.mark.parametrize(
    ("path", "changes", "loops"),
    [
        (BUDGET, [], True),
        (BUDGET, [changed()], False),  # A false alarm: half of the writes failed while pods were evicted and recreated.
        (BUDGET, [changed(type=ADDED)], False),
        (BUDGET, [changed("other")], True),
        (BUDGET, [changed(ready=(True, True))], True),
        (REPLICA_SET, [changed()], True),
        (REPLICA_SET, [changed(owner="r")], False),  # A false alarm, seed 91002999 of swarm: see below.
        (REPLICA_SET, [changed(owner="s")], True),
        (REPLICA_SET, [changed("other", owner="r")], True),
        (REPLICA_SET.replace("replicasets", "daemonsets"), [changed(owner="r")], True),
    ],
    ids=[
        *("nothing", "ready", "new", "elsewhere", "the same"),
        *("of nobody", "its own", "of another one", "its own elsewhere", "of another kind"),
    ],
)
def test_a_pod_that_counts_otherwise_is_a_reason_to_write_a_status(
    log: FilteringBoundLogger, path: str, changes: Sequence[StoreChange], *, loops: bool
) -> None:
    invariant, failures = NoHotLoop(SimulatedCluster(log=log)), list[str]()
    invariant.observe(Committed(changes), failures.append)
    for _ in range(MOST_CALLS + 1):
        invariant.observe(Sent("manager", "me", Request(method="PUT", path=path), by_fenced=False), failures.append)
    assert bool(failures) is loops


def test_each_reason_justifies_one_write_and_expires(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log)
    invariant, failures = NoHotLoop(cluster), list[str]()
    write = Sent("manager", "me", Request(method="PUT", path=BUDGET), by_fenced=False)
    invariant.observe(Committed([changed(), changed()]), failures.append)
    for _ in range(MOST_CALLS + 2):
        invariant.observe(write, failures.append)
    assert not failures
    invariant.observe(write, failures.append)
    assert failures
    failures.clear()
    cluster.run_for(WINDOW + 1.0)
    for _ in range(MOST_CALLS + 1):
        invariant.observe(write, failures.append)
    assert failures


@pytest.mark.parametrize(("gone", "loops"), [("db-3", False), ("db-30", True), ("db", True)])
def test_recreated_pod_counts_as_another_object(log: FilteringBoundLogger, gone: str, *, loops: bool) -> None:
    """False alarm, seed 91002999 of swarm: a table of nodes was behind, so that each new db-3 was evicted at once."""
    invariant, failures = NoHotLoop(SimulatedCluster(log=log)), list[str]()
    path = "/api/v1/namespaces/default/pods/db-3/status"
    write = Sent("hollow", "me", Request(method="PATCH", path=path), by_fenced=False)
    for _ in range(MOST_CALLS):
        invariant.observe(write, failures.append)
    change = StoreChange(DELETED, "pods", f"default/{gone}", 8, encode_object(running_pod(gone)), b"")
    invariant.observe(Committed([change]), failures.append)
    invariant.observe(write, failures.append)
    assert bool(failures) is loops


@pytest.mark.parametrize(
    ("other", "quiet"),
    [
        ({}, True),
        ({"silent": False}, False),
        ({"goes": False}, False),
        ({"owner": "new"}, False),
        ({"kind": "ReplicaSet"}, False),
        ({"name": "db-1"}, False),
    ],
    ids=["kept", "on a node that is well", "staying", "its own", "of another kind", "free"],
)
def test_stateful_set_may_retry_creation_while_the_name_is_in_use(
    log: FilteringBoundLogger, other: dict[str, Any], *, quiet: bool
) -> None:
    """False alarm, seeds 54000030 and 90000028: a set was recreated while a silent node kept a pod of the old one."""
    cluster = SimulatedCluster(log=log, collect_garbage=False)
    cluster.create(NODES, node("n1"))
    cluster.merge(NODES, "n1", silence_patch(other.get("silent", True)))
    name, kind = other.get("name", "db-0"), other.get("kind", "StatefulSet")
    cluster.create(PODS, running_pod(name, node="n1", owner=owned_by(other.get("owner", "old"), kind=kind, name="db")))
    if other.get("goes", True):
        cluster.delete(PODS, f"default/{name}")
    invariant, failures = Quiet(cluster), list[str]()
    invariant.on = True
    asked = encode_object(pod("db-0", owner=owned_by("new", kind=kind, name="db")))
    request = Request(method="POST", path="/api/v1/namespaces/default/pods", body=asked)
    invariant.observe(Sent("manager", "statefulset-controller", request, by_fenced=False), failures.append)
    assert (failures == []) is quiet


@pytest.mark.parametrize(
    ("attach_required", "wrong"),
    [
        (None, True),
        (True, True),
        (False, False),  # A false alarm, seed 281128070057 of swarm: the CSIDriver was created after the attachment.
    ],
)
def test_attachment_that_its_driver_does_not_require_may_be_deleted_late(
    log: FilteringBoundLogger, attach_required: bool | None, *, wrong: bool
) -> None:
    cluster = SimulatedCluster(log=log)
    if attach_required is not None:
        driver = {"metadata": {"name": "disks"}, "spec": {"attachRequired": attach_required}}
        cluster.create(CSI_DRIVERS, driver)
    spec = {"attacher": "disks", "nodeName": "n", "source": {"persistentVolumeName": "disk"}}
    cluster.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "csi-1"}, "spec": spec})
    quiet, failures = Quiet(cluster), list[str]()
    quiet.on = True
    request = Request(method="DELETE", path="/apis/storage.k8s.io/v1/volumeattachments/csi-1")
    quiet.observe(Sent("manager", "attachdetach-controller", request, by_fenced=False), failures.append)
    assert bool(failures) is wrong
