"""Volumes and claims with the real kube-controller-manager and with ours, on one kube-apiserver: the same objects with
their managedFields, and the same events, after each user action.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer
from tests.e2e.snapshots import Snapshot, assert_equal_after_each, event_lines, texts_of
from tests.e2e.volumes import (
    CLAIMS,
    VOLUMES,
    VolumeScene,
    attributes_class,
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
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "volumeattributesclass-protection-controller",
)
PERIOD = "--pvclaimbinder-sync-period=2s"


class Scene(VolumeScene):
    def attributes_classes(self) -> list[Object]:
        found: list[Object] = self.kubectl.api.get("/apis/storage.k8s.io/v1/volumeattributesclasses")["items"]
        return [class_ for class_ in found if class_["metadata"]["name"].startswith(self.run)]

    def phases(self) -> dict[str, str]:
        return {
            volume["metadata"]["name"].removeprefix(f"{self.run}-"): volume["status"]["phase"]
            for volume in self.volumes()
        }

    def until(self, *, claims: dict[str, str] | None = None, volumes: dict[str, str] | None = None) -> None:
        """These, among others, are of these phases."""

        def is_so() -> bool:
            return (claims or {}).items() <= phases(self.kubectl).items() and (
                volumes or {}
            ).items() <= self.phases().items()

        until(is_so, f"{claims} {volumes}", why=lambda: f"{self.phases()} {phases(self.kubectl)}")


def bound(scene: Scene) -> None:
    name, class_ = scene.name, scene.name("class")
    kept = {"namespace": scene.run, "name": "kept"}
    scene.kubectl.apply(
        storage_class(name("external")),
        storage_class(name("later"), mode="WaitForFirstConsumer"),
        storage_class(name("in-tree"), provisioner="kubernetes.io/no-provisioner"),
        volume(name("small"), class_=class_),
        volume(name("large"), "5Gi", class_=class_),
        volume(name("reserved"), "8Gi", class_=class_, claimRef=kept),
        volume(name("labelled"), "1Gi", class_=name("other")),
        volume(name("nfs"), class_=name("nfs"), policy="Delete", nfs={"server": "example.com", "path": "/"}),
        volume(name("csi"), class_=name("csi"), policy="Delete"),
    )
    available = dict.fromkeys(("small", "large", "reserved", "labelled", "nfs", "csi"), "Available")
    scene.until(volumes=available)
    scene.kubectl.apply(
        claim("fits", class_=class_),
        claim("kept", class_=class_),
        claim("named", "2Gi", class_=class_, volumeName=name("large")),
        claim("misfit", class_=class_, volumeName=name("labelled")),
        claim("classless", class_=""),
        claim("external", class_=name("external")),
        claim("later", class_=name("later")),
        claim("in-tree", class_=name("in-tree")),
        claim("nowhere", class_=name("nowhere")),
        claim("picky", class_=name("other"), selector={"matchLabels": {"a": "b"}}),
        claim("nfs", class_=name("nfs")),
        claim("csi", class_=name("csi")),
    )
    pending = ("misfit", "classless", "external", "later", "in-tree", "nowhere", "picky")
    claims = dict.fromkeys(("fits", "kept", "named", "nfs", "csi"), "Bound") | dict.fromkeys(pending, "Pending")
    scene.until(claims=claims)


def released(scene: Scene) -> None:
    scene.kubectl("delete", "pvc", "fits", "nfs", "csi")
    scene.until(volumes={"small": "Released", "nfs": "Failed", "csi": "Released"})


def held(scene: Scene) -> None:
    """Delete a claim, a volume and a VolumeAttributesClass while they are in use."""
    kubectl = scene.kubectl
    kubectl.apply(pod_with("user", "kept"))
    kubectl.until_pods(1, "app=user")
    tuned = claim("tuned", class_="none", volumeAttributesClassName=scene.name("fast"))
    kubectl.apply(attributes_class(scene.name("fast")), tuned)
    kubectl("delete", "pvc", "kept", "--wait=false")
    kubectl("delete", "pv", scene.name("large"), "--wait=false")
    kubectl("delete", "vac", scene.name("fast"), "--wait=false")
    scene.until(claims={"kept": "Terminating"}, volumes={"large": "Bound"})


def let_go(scene: Scene) -> None:
    scene.kubectl("delete", "pod", "user")
    scene.kubectl("delete", "pvc", "named", "tuned")
    until(lambda: not scene.attributes_classes(), "the attributes class is gone", why=scene.kubectl.state)
    until(lambda: "kept" not in phases(scene.kubectl), "the claim is gone", why=scene.kubectl.state)
    until(lambda: "large" not in scene.phases(), "the volume is gone", why=scene.kubectl.state)
    scene.until(volumes={"reserved": "Released"})


def offered_again(scene: Scene) -> None:
    """An administrator takes the claim away from a released volume; another claim gets it."""
    without = json.dumps({"spec": {"claimRef": None}})
    scene.kubectl("patch", "pv", scene.name("reserved"), "--type=merge", f"--patch={without}")
    scene.until(volumes={"reserved": "Available"})
    scene.kubectl.apply(claim("next", class_=scene.name("class")))
    scene.until(claims={"next": "Bound"}, volumes={"reserved": "Bound"})


def lost(scene: Scene) -> None:
    free = json.dumps({"metadata": {"finalizers": None}})
    scene.kubectl("delete", "pv", scene.name("reserved"), "--wait=false")
    scene.kubectl("patch", "pv", scene.name("reserved"), "--type=merge", f"--patch={free}")
    scene.until(claims={"next": "Lost"})


STAGES: tuple[Callable[[Scene], None], ...] = (bound, released, held, let_go, offered_again, lost)


def found(scene: Scene) -> Snapshot:
    objects: Snapshot = {}
    all_ = ((VOLUMES, scene.volumes()), (CLAIMS, scene.kubectl.items(CLAIMS)), ("vac", scene.attributes_classes()))
    for what, items in all_:
        for item in items:
            item["metadata"].pop("resourceVersion")
        objects[what] = texts_of(items, scene.run)
    return objects


def event_texts(scene: Scene) -> list[str]:
    """Return the events of the run's volumes and claims."""
    events = json.loads(scene.kubectl("get", "events", "--all-namespaces", "-o", "json"))["items"]
    return event_lines((event for event in events if is_of_run(event["involvedObject"], scene.run)), scene.run)


def is_of_run(about: Object, run: str) -> bool:
    return about["kind"].startswith("PersistentVolume") and (about.get("namespace") == run or run in about["name"])


def after_each_stage(kubectl: Kubectl) -> list[Snapshot]:
    scene, snapshots = Scene(kubectl), []
    for stage in STAGES:
        stage(scene)
        time.sleep(3.0)  # another resync
        snapshots.append({**found(scene), "events": event_texts(scene)})
    return snapshots


def test_the_same_comes_of_what_users_do(real: RealServer) -> None:
    theirs, ours = with_each_manager(real, "volumes", NAMES, after_each_stage, PERIOD)
    assert_equal_after_each(STAGES, theirs, ours)
