"""Expansion, ephemeral volumes and SELinux warnings with the real kube-controller-manager and with ours, on one
kube-apiserver: the same claims and volumes with their managedFields, and the same events, after each user action.

The test plays the kubelet: it ends the expansion of a volume with a file system.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer
from tests.e2e.snapshots import Snapshot, assert_equal_after_each, event_lines, texts_of
from tests.e2e.volumes import (
    CLAIMS,
    VOLUMES,
    VolumeScene,
    claim,
    phases,
    pod_with,
    storage_class,
    volume,
    with_each_manager,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = (
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "ephemeral-volume-controller",
    "selinux-warning-controller",
)
SOURCES = ("volume_expand", "ephemeral_volume", "selinux_warning")
PERIOD = "--pvclaimbinder-sync-period=2s"
FLEX: Object = {"flexVolume": {"driver": "example.com/flex"}}
EBS: Object = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
KINDS: dict[str, Object] = {
    "csi": {},
    "ebs": EBS,
    "flex": FLEX,
    "block": {**FLEX, "volumeMode": "Block"},
    "nfs": {"nfs": {"server": "example.com", "path": "/"}},
}


class Scene(VolumeScene):
    def resize(self, size: str, *names: str) -> None:
        body = json.dumps({"spec": {"resources": {"requests": {"storage": size}}}})
        self.kubectl("patch", "pvc", *names, f"--patch={body}")

    def set_status(self, name: str, status: Object) -> None:
        self.kubectl(
            "patch", "pvc", name, "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}"
        )

    def until_events(self, *texts: str) -> None:
        until(lambda: all(text in "\n".join(event_texts(self)) for text in texts), str(texts), why=self.kubectl.state)

    def step(self, name: str) -> str | None:
        steps = self.kubectl.get(CLAIMS, name)["status"].get("allocatedResourceStatuses") or {}
        found: str | None = steps.get("storage")
        return found


def source_of(volume: Object, **spec: Any) -> Object:
    """Replace the CSI source of the volume by another one."""
    rest = {name: value for name, value in volume["spec"].items() if name != "csi"}
    return {**volume, "spec": {**rest, **spec}}


def bound(scene: Scene) -> None:
    grows = {**storage_class(scene.name("grows")), "allowVolumeExpansion": True}
    made = []
    for kind, spec in KINDS.items():
        disk = volume(scene.name(kind), class_=scene.name("grows"))
        made.append(source_of(disk, **spec) if kind != "csi" else disk)
        mode = {"volumeMode": "Block"} if kind == "block" else {}
        made.append(claim(kind, class_=scene.name("grows"), volumeName=scene.name(kind), **mode))
    scene.kubectl.apply(grows, *made)
    until(lambda: phases(scene.kubectl) == dict.fromkeys(KINDS, "Bound"), "bound", why=scene.kubectl.state)


def expanded(scene: Scene) -> None:
    scene.resize("2Gi", *KINDS)
    scene.until_events("waiting for an external controller", "CSI migration enabled", "ExpandVolume succeeded")
    until(lambda: scene.step("flex") == "NodeResizePending", "it waits for the node", why=scene.kubectl.state)


def larger(scene: Scene) -> None:
    """Request more while the node has not resized the file system: the first expansion has to end before."""
    scene.resize("5Gi", "flex", "block")
    until(lambda: scene.kubectl.get(CLAIMS, "block")["status"]["capacity"]["storage"] == "5Gi", "grown")


def resized(scene: Scene) -> None:
    """Play the kubelet: the file system has the size that was allocated. The next expansion begins."""
    done = {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": None, "conditions": None}
    scene.set_status("flex", done)
    until(lambda: scene.step("flex") == "NodeResizePending", "the next one", why=scene.kubectl.state)


def ended(scene: Scene) -> None:
    done = {"capacity": {"storage": "5Gi"}, "allocatedResourceStatuses": None, "conditions": None}
    scene.set_status("flex", done)
    pre_resize = "volume.alpha.kubernetes.io/pre-resize-capacity"
    until(lambda: not any(pre_resize in json.dumps(each) for each in scene.volumes()), "no annotation is left")


def ephemeral(scene: Scene) -> None:
    spec = claim("any", class_="none")["spec"]
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    user, other = pod_with("user"), pod_with("other")
    user["spec"]["volumes"] = [
        {"name": "data", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "more", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}},
    ]
    other["spec"]["volumes"] = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    scene.kubectl.apply(claim("other-data", class_="none"))
    scene.kubectl.apply(user, other)
    until(lambda: {"user-data", "user-more"} <= phases(scene.kubectl).keys(), "created", why=scene.kubectl.state)
    scene.until_events("other-data was not created for pod")


def created_again(scene: Scene) -> None:
    before = scene.kubectl.get(CLAIMS, "user-data")["metadata"]["uid"]
    for name in ("user-data", "other-data"):
        scene.kubectl("delete", "pvc", name, "--wait=false")
        patch = json.dumps({"metadata": {"finalizers": None}})  # of a controller that does not run here
        scene.kubectl("patch", "pvc", name, "--type=merge", f"--patch={patch}")

    def again() -> bool:
        found = {each["metadata"]["name"]: each["metadata"] for each in scene.kubectl.items(CLAIMS)}
        owned = "ownerReferences" in found.get("other-data", {})
        return owned and found.get("user-data", {}).get("uid") not in (None, before)

    until(again, "created again", why=scene.kubectl.state)


def labelled(scene: Scene) -> None:
    driver: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "example.com"},
        "spec": {"attachRequired": False, "seLinuxMount": True},
    }
    scene.kubectl.apply(driver)
    for name, level, policy in (("a", "s0:c1,c2", ""), ("b", "s0:c98,c99", ""), ("c", "s0:c1,c2", "Recursive")):
        labelled = pod_with(f"labelled-{name}", "csi")
        context: Object = {"seLinuxOptions": {"level": level}}
        labelled["spec"]["securityContext"] = {**context, "seLinuxChangePolicy": policy} if policy else context
        labelled["spec"]["containers"][0]["volumeMounts"] = [{"name": "v0", "mountPath": "/data"}]
        scene.kubectl.apply(labelled)
        time.sleep(1.0)
    scene.until_events("pod labelled-a", "pod labelled-b", "pod labelled-c")
    # Without the driver each pod would be evaluated again, in an order that both managers leave to chance.
    scene.kubectl("delete", "pods", "labelled-a", "labelled-b", "labelled-c", "--force", "--grace-period=0")
    time.sleep(1.0)
    scene.kubectl("delete", "csidriver", "example.com")


STAGES: tuple[Callable[[Scene], None], ...] = (
    bound,
    expanded,
    larger,
    resized,
    ended,
    ephemeral,
    created_again,
    labelled,
)


def found(scene: Scene) -> Snapshot:
    objects: Snapshot = {}
    for what, items in ((VOLUMES, scene.volumes()), (CLAIMS, scene.kubectl.items(CLAIMS))):
        for item in items:
            item["metadata"].pop("resourceVersion")
        objects[what] = texts_of(items, scene.run)
    return objects


def event_texts(scene: Scene) -> list[str]:
    """Return the events of the compared controllers."""
    events = json.loads(scene.kubectl("get", "events", "-o", "json"))["items"]
    return event_lines((event for event in events if event["source"].get("component") in SOURCES), scene.run)


def after_each_stage(kubectl: Kubectl) -> list[Snapshot]:
    scene, snapshots = Scene(kubectl), []
    for stage in STAGES:
        stage(scene)
        time.sleep(3.0)
        snapshots.append({**found(scene), "events": event_texts(scene)})
    return snapshots


def test_claims_volumes_and_events_are_equal_after_each_action(real: RealServer) -> None:
    theirs, ours = with_each_manager(real, "sizes", NAMES, after_each_stage, PERIOD)
    assert_equal_after_each(STAGES, theirs, ours)
