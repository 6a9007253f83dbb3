"""Test of a volume that is bound, released and recycled in a simulated cluster."""

from __future__ import annotations

from kcm.actors.controllers.storage.persistentvolume_binder.spec import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import phase_of

DISK = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"}}
WISH = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}


def about(name: str, uid: str) -> Object:
    involved = {"kind": "Pod", "namespace": "default", "name": "recycler-for-disk", "uid": uid}
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "involvedObject": involved, "message": name, "type": "Normal", "reason": "Pulled"}


def test_volume_is_bound_recycled_and_available_again(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    spec = {**DISK, "persistentVolumeReclaimPolicy": "Recycle"}
    cluster.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": spec})
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": WISH})
    cluster.run_for(20.0)
    assert phase_of(cluster.get(PERSISTENT_VOLUME_CLAIMS, "default/data") or {}) == "Bound"
    cluster.merge(PERSISTENT_VOLUME_CLAIMS, "default/data", {"metadata": {"finalizers": None}})
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default/data")
    cluster.run_for(5.0)
    [pod] = cluster.list(PODS)
    cluster.create(EVENTS, about("pulled", uid_of(pod)))
    cluster.create(EVENTS, about("of-a-former-one", "former"))
    cluster.merge(PODS, "default/recycler-for-disk", {"status": {"phase": "Succeeded"}}, subresource="status")
    cluster.run_for(5.0)
    texts = [event["message"] for event in cluster.list(EVENTS) if event["involvedObject"]["name"] == "disk"]
    assert sorted(texts) == ["Recycler pod: pulled", "Volume recycled"]
    assert phase_of(cluster.get(PERSISTENT_VOLUMES, "disk") or {}) == "Available"
    assert cluster.list(PODS) == []
