"""Claims, volumes and devices."""

from __future__ import annotations

from typing import Any

from kcm.protocols import resources as r
from kcm.protocols.objects import Object
from tests.actors.explanation.scenario import Scenario, Scene

HOLLOW = "hollow.kcm.dev"


def claim(scene: Scene, name: str = "data", **spec: Any) -> tuple[str, str]:
    kind = "PersistentVolumeClaim"
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    scene.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": body})
    return kind, name


def volume(scene: Scene, name: str, size: str = "1Gi", **spec: Any) -> Object:
    body = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
        **spec,
    }
    kind = "PersistentVolume"
    return scene.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": body})


def storage_class(scene: Scene, name: str, provisioner: str, **fields: Any) -> None:
    body = {"provisioner": provisioner, "volumeBindingMode": "Immediate", **fields}
    scene.apply({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **body})


def user(scene: Scene, name: str, claim_name: str = "data", *, kind: str = "Pod", **template: Any) -> tuple[str, str]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return scene.pod_owner(name, kind=kind, volumes=volumes, container=mounts, **template)


def no_class(scene: Scene) -> tuple[str, str]:
    found = claim(scene, storageClassName="absent")
    return found if scene.chance.random() < 0.5 else user(scene, "web")


def no_provisioner(scene: Scene) -> tuple[str, str]:
    storage_class(scene, f"{scene.namespace}-remote", "csi.example.com")
    found = claim(scene, storageClassName=f"{scene.namespace}-remote")
    return found if scene.chance.random() < 0.5 else user(scene, "web")


def too_small(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-local"
    storage_class(scene, name, "kubernetes.io/no-provisioner")
    volume(scene, f"{scene.namespace}-small", storageClassName=name)
    return claim(scene, storageClassName=name, resources={"requests": {"storage": "5Gi"}})


def modes(scene: Scene) -> tuple[str, str]:
    volume(scene, f"{scene.namespace}-single")
    return claim(scene, storageClassName="", accessModes=["ReadWriteMany"])


def named_volume(scene: Scene) -> tuple[str, str]:
    return claim(scene, storageClassName="", volumeName=f"{scene.namespace}-absent")


def mismatched(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-named"
    volume(scene, name)
    return claim(scene, storageClassName="", volumeName=name, resources={"requests": {"storage": "5Gi"}})


def taken(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-taken"
    volume(scene, name)
    claim(scene, "first", storageClassName="", volumeName=name)
    scene.run(30.0)
    return claim(scene, "second", storageClassName="", volumeName=name)


def waits_for_pod(scene: Scene) -> tuple[str, str]:
    return claim(scene, storageClassName="hollow-wait")


def waits_for_unschedulable_pod(scene: Scene) -> tuple[str, str]:
    claim(scene, storageClassName="hollow-wait")
    user(scene, "web", nodeSelector={"disk": "ssd"})
    return "PersistentVolumeClaim", "data"


def lost(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-lost"
    volume(scene, name)
    found = claim(scene, storageClassName="", volumeName=name)
    scene.run(30.0)
    assert scene.get("pvc", "data")["status"]["phase"] == "Bound"
    scene.merge("pv", name, {"metadata": {"finalizers": None}})
    scene.delete("pv", name)
    scene.run(2.0)
    if scene.cluster.get(r.PERSISTENT_VOLUMES, name) is not None:
        scene.merge("pv", name, {"metadata": {"finalizers": None}})
    return found


def released(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-kept"
    volume(scene, name)
    claim(scene, storageClassName="", volumeName=name)
    scene.run(10.0)
    scene.delete("pvc", "data")
    return "PersistentVolume", name


def attach(scene: Scene) -> tuple[str, str]:
    claim(scene)
    scene.run(10.0)
    bound = scene.get("pvc", "data")["spec"]["volumeName"]
    scene.merge("pv", bound, {"metadata": {"annotations": {f"{HOLLOW}/attach-error": "no free slot"}}})
    return user(scene, "web", kind=scene.chance.choice(("Pod", "Deployment")))


def expansion(scene: Scene) -> tuple[str, str]:
    kind, name = claim(scene)
    user(scene, "web")
    scene.run(20.0)
    scene.merge(kind, name, {"metadata": {"annotations": {f"{HOLLOW}/largest-size": "2Gi"}}})
    scene.merge(kind, name, {"spec": {"resources": {"requests": {"storage": "10Gi"}}}})
    return kind, name


def failed_volume(scene: Scene) -> tuple[str, str]:
    """Release a volume that its plugin cannot delete or recycle."""
    name = f"{scene.namespace}-failed"
    policy, source = scene.chance.choice(
        (
            ("Delete", {"hostPath": {"path": "/data"}}),
            ("Delete", {"hostPath": None, "nfs": {"server": "nfs.example.com", "path": "/data"}}),
        )
    )
    volume(scene, name, persistentVolumeReclaimPolicy=policy, **source)
    claim(scene, storageClassName="", volumeName=name)
    scene.run(20.0)
    scene.delete("pvc", "data")
    return "PersistentVolume", name


def undeleted_volume(scene: Scene) -> tuple[str, str]:
    """Release a volume whose provisioner does not run."""
    name = f"{scene.namespace}-released"
    csi = {"csi": {"driver": "csi.example.com", "volumeHandle": name}, "hostPath": None}
    volume(scene, name, persistentVolumeReclaimPolicy="Delete", **csi)
    if scene.chance.random() < 0.5:
        annotations = {"pv.kubernetes.io/provisioned-by": "csi.example.com"}
        scene.merge("pv", name, {"metadata": {"annotations": annotations}})
    claim(scene, storageClassName="", volumeName=name)
    scene.run(20.0)
    scene.delete("pvc", "data")
    return "PersistentVolume", name


def no_plugin(scene: Scene) -> tuple[str, str]:
    storage_class(scene, f"{scene.namespace}-old", "kubernetes.io/glusterfs")
    found = claim(scene, storageClassName=f"{scene.namespace}-old")
    return found if scene.chance.random() < 0.5 else user(scene, "web")


def silent_attacher(scene: Scene) -> tuple[str, str]:
    claim(scene)
    scene.run(10.0)
    assert scene.stage.hollow is not None
    scene.stage.hollow.disable("hollow-attacher-controller")
    scene.run(5.0)
    return user(scene, "web", kind=scene.chance.choice(("Pod", "Deployment")))


# Devices.


def devices(scene: Scene, *, class_: str, driver: str = "") -> None:
    if driver:
        expression = f'device.driver == "{driver}"'
        scene.create(r.DEVICE_CLASSES, class_, {"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    request = {"name": "gpu", "exactly": {"deviceClassName": class_}}
    scene.create(r.RESOURCE_CLAIMS, "gpu", {"spec": {"devices": {"requests": [request]}}})


def device_user(scene: Scene, node: str = "", **reference: str) -> tuple[str, str]:
    claims = [{"name": "gpu", **reference}]
    uses = {"resources": {"claims": [{"name": "gpu"}]}}
    bound = {"nodeName": node} if node else {}
    return scene.pod_owner("train", kind="Pod", resourceClaims=claims, container=uses, **bound)


def no_device(scene: Scene) -> tuple[str, str]:
    devices(scene, class_=f"{scene.namespace}.example.com", driver="gpu.example.com")
    return device_user(scene, resourceClaimName="gpu")


def no_device_class(scene: Scene) -> tuple[str, str]:
    devices(scene, class_="absent.example.com")
    found = device_user(scene, resourceClaimName="gpu")
    return found if scene.chance.random() < 0.5 else ("ResourceClaim", "gpu")


def unused_device_claim(scene: Scene) -> tuple[str, str]:
    devices(scene, class_=f"{scene.namespace}.example.com", driver="gpu.example.com")
    return "ResourceClaim", "gpu"


def unprepared_devices(scene: Scene) -> tuple[str, str]:
    """Bind a pod to a node without a scheduler, so that no devices are allocated to its claim."""
    devices(scene, class_=f"{scene.namespace}.example.com", driver="gpu.example.com")
    return device_user(scene, resourceClaimName="gpu", node="hollow-node-0")


def no_template(scene: Scene) -> tuple[str, str]:
    return device_user(scene, resourceClaimTemplateName="absent")


def no_device_claim(scene: Scene) -> tuple[str, str]:
    return device_user(scene, resourceClaimName="absent")


def one_pod_only(scene: Scene) -> tuple[str, str]:
    claim(scene, accessModes=["ReadWriteOncePod"])
    user(scene, "first")
    scene.run(10.0)
    return user(scene, "second", kind=scene.chance.choice(("Deployment", "Pod")))


def bypassed_scheduler(scene: Scene) -> tuple[str, str]:
    claim(scene, storageClassName="hollow-wait")
    return user(scene, "pinned", nodeName=scene.chance.choice(("hollow-node-0", "hollow-node-1")))


def attributes(scene: Scene) -> tuple[str, str]:
    kind, name = claim(scene)
    scene.run(5.0)
    scene.merge(kind, name, {"spec": {"volumeAttributesClassName": "absent"}})
    return kind, name


SCENARIOS = (
    Scenario(name="storage class does not exist", code="storage-class-missing", act=no_class),
    Scenario(name="provisioner does not respond", code="provisioner-silent", act=no_provisioner),
    Scenario(name="volume is too small", code="claim-no-volume", act=too_small),
    Scenario(name="access modes of volumes do not fit", code="claim-no-volume", act=modes),
    Scenario(name="named volume does not exist", code="volume-missing", act=named_volume),
    Scenario(name="named volume does not fit", code="volume-mismatch", act=mismatched),
    Scenario(name="named volume belongs to another claim", code="volume-taken", act=taken),
    Scenario(name="claim waits for a pod", code="claim-waits-for-pod", act=waits_for_pod),
    Scenario(name="claim waits for a pod without a node", code="node-affinity", act=waits_for_unschedulable_pod),
    Scenario(name="volume of a claim was lost", code="volume-lost", act=lost),
    Scenario(name="volume is retained", code="volume-released", act=released),
    Scenario(name="another pod uses a claim of one pod", code="claim-in-use", act=one_pod_only),
    Scenario(name="pod that names its node has an unbound claim", code="scheduler-bypassed", act=bypassed_scheduler),
    Scenario(name="attributes class of a claim does not exist", code="volume-attributes", act=attributes),
    Scenario(name="volume cannot be attached", code="volume-attach", act=attach, stage={"attach": True}),
    Scenario(name="volume cannot be expanded", code="volume-expansion", act=expansion),
    Scenario(name="volume cannot be deleted by its plugin", code="volume-failed", act=failed_volume),
    Scenario(name="provisioner does not delete a volume", code="volume-not-deleted", act=undeleted_volume),
    Scenario(name="plugin of the class does not exist", code="provisioning-failed", act=no_plugin),
    Scenario(
        name="attacher does not respond",
        code="attacher-silent",
        act=silent_attacher,
        stage={"attach": True},
        alone=True,
    ),
    Scenario(
        name="devices of a pod are not allocated",
        code="device-preparation",
        act=unprepared_devices,
        stage={"devices": True},
    ),
    Scenario(
        name="device claim has no pod",
        code="device-claim-waits-for-pod",
        act=unused_device_claim,
        stage={"devices": True},
    ),
    Scenario(name="no device is free", code="device-unavailable", act=no_device, stage={"devices": True}),
    Scenario(
        name="device class does not exist", code="device-class-missing", act=no_device_class, stage={"devices": True}
    ),
    Scenario(
        name="template of a device claim does not exist",
        code="device-template-missing",
        act=no_template,
        stage={"devices": True},
    ),
    Scenario(
        name="device claim does not exist", code="device-claim-missing", act=no_device_claim, stage={"devices": True}
    ),
)
