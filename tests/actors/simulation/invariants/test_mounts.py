from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation.invariants.mounts import ATTACHER, ATTACHMENTS, KUBELET, MountedWhileUsed
from kcm.actors.simulation.invariants.observer import Committed, Handled
from kcm.protocols.objects import Object, encode_object
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request, Response

UNIQUE = "kubernetes.io/csi/hollow.kcm.dev^v"


def change(storage: str, new: Object, old: Object | None = None, *, type: str = "") -> StoreChange:
    key = "/".join(filter(None, (new["metadata"].get("namespace"), new["metadata"]["name"])))
    kind = type or (ADDED if old is None else MODIFIED)
    return StoreChange(kind, storage, key, 1, encode_object(new), b"" if old is None else encode_object(old))


def pod(*, begun: bool) -> Object:
    statuses = [{"name": "c", "containerID": "hollow://1"}] if begun else []
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "p-uid"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "volumeMounts": [{"name": "data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
        "status": {"phase": "Running" if begun else "Pending", "containerStatuses": statuses},
    }


def node(*, in_use: bool = False, attached: bool = False) -> Object:
    status: Object = {"volumesInUse": [UNIQUE] if in_use else []}
    status["volumesAttached"] = [{"name": UNIQUE}] if attached else []
    return {"metadata": {"name": "n"}, "status": status}


CLAIM = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "v"}}
VOLUME = {"metadata": {"name": "v"}, "spec": {"csi": {"driver": "hollow.kcm.dev", "volumeHandle": "v"}}}


class Observed:
    """Invariant of a cluster with a pod that is bound to the node, and has not started."""

    def __init__(self, first: Object) -> None:
        self.invariant = MountedWhileUsed()
        self.failures: list[str] = []
        objects = (("nodes", first), ("persistentvolumeclaims", CLAIM), ("persistentvolumes", VOLUME))
        for storage, obj in (*objects, ("pods", pod(begun=False))):
            self.commit(change(storage, obj))

    def commit(self, *changes: StoreChange) -> None:
        self.invariant.observe(Committed(changes), self.failures.append)

    def write(self, client: str, *changes: StoreChange) -> None:
        self.commit(*changes)
        request, response = Request(method="PATCH", path="/"), Response(status=200, body=b"")
        self.invariant.observe(Handled("hollow", client, request, response, changes), self.failures.append)


@pytest.mark.parametrize(
    ("on", "failures"),
    [
        (node(in_use=True, attached=True), []),
        (node(attached=True), [f"pod default/p starts, but its node does not report {UNIQUE} in use"]),
        (node(in_use=True), [f"pod default/p starts, but {UNIQUE} was not attached to its node"]),
    ],
)
def test_pod_starts_with_attached_volumes_that_are_in_use(on: Object, failures: list[str]) -> None:
    observed = Observed(on)
    observed.write(KUBELET, change("pods", pod(begun=True), pod(begun=False)))
    assert observed.failures == failures


def test_volume_that_was_attached_since_the_binding_counts() -> None:
    observed = Observed(node(in_use=True))
    observed.commit(change("nodes", node(in_use=True, attached=True), node(in_use=True)))
    observed.commit(change("nodes", node(in_use=True), node(in_use=True, attached=True)))
    observed.write(KUBELET, change("pods", pod(begun=True), pod(begun=False)))
    assert observed.failures == []


def test_used_volume_is_reported_in_use() -> None:
    reported = node(in_use=True, attached=True)
    observed = Observed(reported)
    observed.write(KUBELET, change("pods", pod(begun=True), pod(begun=False)))
    observed.write(KUBELET, change("nodes", node(attached=True), reported))
    assert observed.failures == [f"node n no longer reports {UNIQUE}, which pod default/p uses"]
    observed.failures.clear()
    observed.commit(change("pods", pod(begun=True), pod(begun=True), type=DELETED))
    observed.write(KUBELET, change("nodes", node(attached=True), reported))
    assert observed.failures == []


def attachment(*, attached: bool, **meta: Any) -> Object:
    return {"metadata": {"name": "a", **meta}, "spec": {}, "status": {"attached": attached}}


LATER, PROTECTED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"finalizers": ["external-attacher/hollow-kcm-dev"]}


@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        (attachment(attached=False, **LATER, **PROTECTED), True),
        (attachment(attached=True, **LATER, **PROTECTED), False),
        (attachment(attached=False, **PROTECTED), False),
    ],
)
def test_finalizer_of_an_attached_volume_is_kept(before: Object, allowed: bool) -> None:
    observed = Observed(node())
    observed.write(ATTACHER, change(ATTACHMENTS, attachment(attached=False), before))
    assert (observed.failures == []) is allowed
