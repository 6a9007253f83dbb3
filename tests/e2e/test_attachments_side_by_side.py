"""Attached volumes with the real kube-controller-manager and with ours, on one kube-apiserver.

The test is the external attacher and the kubelet of two nodes, on both sides. It compares the VolumeAttachments, the
volumes in the status of the nodes, and the events of the pods after each stage.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer
from tests.e2e.snapshots import Snapshot, assert_equal_after_each, texts_of
from tests.e2e.volumes import with_each_manager

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

ATTACH_DETACH = "persistentvolume-attach-detach-controller"
MERGE = "application/merge-patch+json"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
DRIVER, FINALIZER = "disk.example.com", "external-attacher/disk-example-com"
SUCCEEDED, FAILED = "SuccessfulAttachVolume", "FailedAttachVolume"


class Scene:
    """Two nodes, and volumes that are bound to claims of their name. Names begin with that of the run."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl, self.api, self.run = kubectl, kubectl.api, kubectl.namespace

    def name(self, what: str) -> str:
        return f"{self.run}-{what}"

    def node(self, name: str) -> None:
        annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        meta = {"name": self.name(name), "annotations": annotations}
        self.api.request("POST", "/api/v1/nodes", {"metadata": meta})
        self.node_status(name, {"conditions": [{"type": "Ready", "status": "True"}]})

    def node_status(self, name: str, status: Object) -> None:
        self.api.request("PATCH", f"/api/v1/nodes/{self.name(name)}/status", {"status": status}, type=MERGE)

    def volume(self, name: str, mode: str = "ReadWriteOnce", **source: Any) -> None:
        """Create a volume and its claim, and bind them as the volume binder does."""
        size, modes = {"storage": "1Gi"}, [mode]
        spec: Object = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": ""}
        spec["volumeName"] = self.name(name)
        claim = self.api.request("POST", self.kubectl.path("persistentvolumeclaims"), _named(name, spec))
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "name": name, "namespace": self.run}
        source = source or {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}
        body: Object = {"capacity": size, "accessModes": modes, "claimRef": reference, **source}
        reference["uid"] = claim["metadata"]["uid"]
        self.api.request("POST", "/api/v1/persistentvolumes", _named(self.name(name), body))
        status = {"status": {"phase": "Bound", "capacity": size, "accessModes": modes}}
        path = f"{self.kubectl.path('persistentvolumeclaims', name)}/status"
        self.api.request("PATCH", path, status, type=MERGE)

    def pod(self, name: str, node: str, claim: str) -> None:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        container = {"name": "main", "image": "web:1"}
        spec = {"nodeName": self.name(node), "containers": [container], "volumes": volumes}
        self.api.request("POST", self.kubectl.path("pods"), _named(name, spec))

    def delete_pod(self, name: str) -> None:
        self.kubectl("delete", "pod", name, "--grace-period=0", "--force")

    def attachments(self) -> list[Object]:
        items: list[Object] = self.api.get(ATTACHMENTS)["items"]
        return [item for item in items if item["spec"]["nodeName"].startswith(self.run)]

    def attachment(self, volume: str, node: str) -> Object | None:
        for item in self.attachments():
            named = item["spec"]["source"].get("persistentVolumeName")
            if (named, item["spec"]["nodeName"]) == (self.name(volume), self.name(node)):
                return item
        return None

    def requested(self, volume: str, node: str) -> Object:
        return until(lambda: self.attachment(volume, node), f"{volume} is requested for {node}", why=self.state)

    def attach(self, volume: str, node: str, **status: Any) -> None:
        """Acknowledge a VolumeAttachment as the external attacher does, or write an error."""
        path = f"{ATTACHMENTS}/{self.requested(volume, node)['metadata']['name']}"
        self.api.request("PATCH", path, {"metadata": {"finalizers": [FINALIZER]}}, type=MERGE)
        self.api.request("PATCH", f"{path}/status", {"status": status or {"attached": True}}, type=MERGE)

    def detach(self, volume: str, node: str) -> None:
        """Complete the deletion of a VolumeAttachment as the external attacher does."""

        def is_deleting() -> bool:
            attachment = self.attachment(volume, node)
            return attachment is not None and "deletionTimestamp" in attachment["metadata"]

        until(is_deleting, f"{volume} is detached from {node}", why=self.state)
        name = self.requested(volume, node)["metadata"]["name"]
        self.api.request("PATCH", f"{ATTACHMENTS}/{name}", {"metadata": {"finalizers": None}}, type=MERGE)

    def reported(self, node: str) -> list[str]:
        status = self.api.get(f"/api/v1/nodes/{self.name(node)}")["status"]
        return sorted(each["name"] for each in status.get("volumesAttached") or ())

    def until_reported(self, node: str, *names: str) -> None:
        wanted = sorted(names)
        until(lambda: self.reported(node) == wanted, f"{node} reports {wanted}", why=self.state)

    def until_event(self, pod: str, reason: str, text: str = "") -> None:
        def is_recorded() -> bool:
            return any(f"Pod {pod} " in line and reason in line and text in line for line in self.events())

        until(is_recorded, f"{reason} {text} of {pod}", why=self.state)

    def events(self) -> list[str]:
        """Return the events about volumes with their sources, without their counts."""
        return sorted(
            {
                f"{event['involvedObject']['kind']} {event['involvedObject']['name']} "
                f"{event['source'].get('component')} {event['type']} {event['reason']} {event['message']}"
                for event in self.kubectl.items("events")
                if event["reason"] in (SUCCEEDED, FAILED)
            }
        )

    def state(self) -> str:
        return json.dumps([self.attachments(), self.reported("n1"), self.reported("n2"), self.events()], indent=1)


def _named(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def unique(volume: str) -> str:
    return f"kubernetes.io/csi/{DRIVER}^handle-{volume}"


def attached(scene: Scene) -> None:
    """Attach a volume for a pod, and one of an in-tree plugin that is migrated to CSI."""
    for name in ("n1", "n2"):
        scene.node(name)
    scene.volume("data")
    scene.volume("shared", "ReadWriteMany")
    scene.volume("cinder", cinder={"volumeID": "vol-1"})
    scene.pod("first", "n1", "data")
    scene.pod("legacy", "n2", "cinder")
    scene.attach("data", "n1")
    scene.attach("cinder", "n2")
    scene.until_reported("n1", unique("data"))
    scene.until_reported("n2", "kubernetes.io/csi/cinder.csi.openstack.org^vol-1")
    scene.until_event("first", SUCCEEDED)
    scene.until_event("legacy", SUCCEEDED)


def shared(scene: Scene) -> None:
    """Attach a volume to two nodes, after a failure on one of them."""
    scene.pod("one", "n1", "shared")
    scene.pod("two", "n2", "shared")
    scene.attach("shared", "n1")
    scene.attach("shared", "n2", attachError={"message": "no such disk", "time": "2026-01-01T00:00:00Z"})
    scene.until_event("two", FAILED, "no such disk")
    scene.attach("shared", "n2", attached=True, attachError=None)
    scene.until_event("two", SUCCEEDED)
    scene.until_reported("n1", unique("data"), unique("shared"))


def conflicting(scene: Scene) -> None:
    """Use a volume on a second node while the first one has mounted it."""
    scene.node_status("n1", {"volumesInUse": [unique("data"), unique("shared")]})
    scene.pod("second", "n2", "data")
    scene.until_event("second", FAILED, "Multi-Attach error")
    scene.delete_pod("first")
    time.sleep(3.0)  # it stays attached, because n1 uses it


def moved(scene: Scene) -> None:
    scene.node_status("n1", {"volumesInUse": [unique("shared")]})
    scene.until_reported("n1", unique("shared"))
    scene.detach("data", "n1")
    scene.attach("data", "n2")
    scene.until_event("second", SUCCEEDED)


def out_of_service(scene: Scene) -> None:
    """Lose node n2 while it has mounted volumes, and detach them by force."""
    used = [unique("data"), unique("shared")]
    scene.node_status("n2", {"volumesInUse": used, "conditions": [{"type": "Ready", "status": "Unknown"}]})
    scene.delete_pod("second")
    time.sleep(3.0)
    assert scene.attachment("data", "n2"), "it stays attached until the taint"
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    path = f"/api/v1/nodes/{scene.name('n2')}"
    scene.api.request("PATCH", path, {"spec": {"taints": [taint]}}, type=MERGE)
    scene.detach("data", "n2")
    scene.pod("third", "n1", "data")
    scene.attach("data", "n1")
    scene.until_event("third", SUCCEEDED)


STAGES: tuple[Callable[[Scene], None], ...] = (attached, shared, conflicting, moved, out_of_service)


def found(scene: Scene) -> Snapshot:
    attachments = scene.attachments()
    for item in attachments:
        item["metadata"].pop("resourceVersion")
        item["metadata"]["name"] = "csi-<digest>"  # of the name of the node as well
    nodes = [scene.api.get(f"/api/v1/nodes/{scene.name(name)}") for name in ("n1", "n2")]
    return {
        "volumeattachments": texts_of(attachments, scene.run),
        "nodes": texts_of(
            (
                {
                    "name": node["metadata"]["name"],
                    "reports": sorted(each["name"] for each in node["status"].get("volumesAttached") or ()),
                    "written by": sorted(_writers(node)),
                }
                for node in nodes
            ),
            scene.run,
        ),
        "events": [event.replace(scene.run, "RUN") for event in scene.events()],
    }


def _writers(node: Object) -> Iterable[str]:
    """Yield the field managers of volumesAttached."""
    for entry in node["metadata"]["managedFields"]:
        if "f:volumesAttached" in (entry["fieldsV1"].get("f:status") or {}):
            yield f"{entry['manager']} {entry['operation']} {entry.get('subresource', '')}"


def after_each_stage(kubectl: Kubectl) -> list[Snapshot]:
    scene, snapshots = Scene(kubectl), []
    for stage in STAGES:
        stage(scene)
        time.sleep(2.0)
        snapshots.append(found(scene))
    _clean_up(scene)
    return snapshots


def _clean_up(scene: Scene) -> None:
    for name in ("n1", "n2"):
        scene.api.request("DELETE", f"/api/v1/nodes/{scene.name(name)}")
    for item in scene.attachments():
        path = f"{ATTACHMENTS}/{item['metadata']['name']}"
        scene.api.request("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE)
        with contextlib.suppress(urllib.error.HTTPError):  # without the finalizer it may be deleted already
            scene.api.request("DELETE", path)


def test_volumes_are_attached_as_by_the_real_manager(real: RealServer) -> None:
    theirs, ours = with_each_manager(real, "attach", [ATTACH_DETACH], after_each_stage)
    assert_equal_after_each(STAGES, theirs, ours)
