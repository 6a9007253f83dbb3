"""Blind scenarios of the second blind trial: claims, volumes and what waits for them."""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.protocols.resources import CSI_DRIVERS
from tests.actors.explanation.blind_scenario import (
    BlindScenario,
    admission_policy,
    claim,
    cron_job,
    event,
    mounts,
    scenario,
    static_volume,
    workload,
)
from tests.actors.explanation.scenario import Scene

STORAGE: list[BlindScenario] = []
HELD_BACK_STORAGE: list[BlindScenario] = []
STORAGE_V1 = "storage.k8s.io/v1"


@scenario(
    STORAGE,
    "cluster lost its default storage class",
    cause="Claim uploads names no class, and no StorageClass is the default any more.",
    facts=("uploads", "default StorageClass|default class|no storage class|no class|without a class|is-default-class"),
    alone=True,
    code="claim-no-volume",
)
def no_default_class(scene: Scene) -> tuple[str, str]:
    noted = {"storageclass.kubernetes.io/is-default-class": "false"}
    scene.merge("StorageClass", "hollow", {"metadata": {"annotations": noted}})
    scene.run(5.0)
    claim(scene, "uploads")
    return workload(scene, "gallery", **mounts("uploads"))


@scenario(
    STORAGE,
    "claim selects volumes by a label that none has",
    cause="Claim journal selects volumes with tier=fast, and the only volume has tier=slow.",
    facts=("journal", "tier", "fast"),
    code="claim-no-volume",
)
def claim_with_selector(scene: Scene) -> tuple[str, str]:
    static_volume(scene, "export-17", "20Gi", storageClassName="")
    scene.merge("PersistentVolume", "export-17", {"metadata": {"labels": {"tier": "slow"}}})
    claim(scene, "journal", "5Gi", storageClassName="", selector={"matchLabels": {"tier": "fast"}})
    return workload(scene, "accounts", **mounts("journal"))


@scenario(
    STORAGE,
    "node of a local volume was replaced",
    cause="Volume local-ssd-0001 of claim data-mongo-0 can be reached only from node rack-7, which does not exist.",
    facts=("rack-7", "data-mongo-0|local-ssd-0001", "affinity|no node|not exist|reached|reachable|only from|gone"),
    report="https://github.com/kubernetes/kubernetes/issues/81020",
    code="volume-not-reachable",
)
def local_volume(scene: Scene) -> tuple[str, str]:
    body = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    scene.apply({"apiVersion": STORAGE_V1, "kind": "StorageClass", "metadata": {"name": "local-ssd"}, **body})
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["rack-7"]}]}]
    static_volume(
        scene,
        "local-ssd-0001",
        "50Gi",
        source={"local": {"path": "/mnt/disks/ssd0"}},
        storageClassName="local-ssd",
        nodeAffinity={"required": {"nodeSelectorTerms": terms}},
    )
    claim(scene, "data-mongo-0", "50Gi", storageClassName="local-ssd", volumeName="local-ssd-0001")
    scene.run(10.0)
    return _with_template(scene, "mongo", storageClassName="local-ssd", size="50Gi")


def _with_template(scene: Scene, name: str, *, size: str = "10Gi", **spec: object) -> tuple[str, str]:
    """Create a StatefulSet of one pod whose volume `data` has a claim template."""
    requested = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    more: Object = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": requested}]}
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return workload(scene, name, "StatefulSet", more=more, container=container)


@scenario(
    STORAGE,
    "pod with a node name waits for a claim that waits for the scheduler",
    cause="Class hollow-wait binds claim warm-data when the scheduler places a pod, which nodeName bypasses.",
    facts=("warm-data", "nodeName|scheduler|selected-node|bypass"),
    report="https://github.com/kubernetes/kubernetes/issues/95767",
    code="scheduler-bypassed",
)
def node_name(scene: Scene) -> tuple[str, str]:
    claim(scene, "warm-data", storageClassName="hollow-wait")
    mounted = mounts("warm-data")
    container = {"name": "main", "image": "nginx:1.27", **mounted["container"]}
    spec = {"nodeName": "hollow-node-0", "containers": [container], "volumes": mounted["volumes"]}
    scene.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cache", "labels": {"app": "c"}}, "spec": spec}
    )
    return "Pod", "cache"


@scenario(
    STORAGE,
    "run of a CronJob needs a claim that only one pod may use",
    cause="Claim search-index is ReadWriteOncePod, and the pod of Deployment indexer uses it.",
    facts=("search-index", "indexer", "ReadWriteOncePod|in use|one pod|already use|mounts|used by"),
    wait=130.0,
    code="claim-in-use",
)
def one_pod_only(scene: Scene) -> tuple[str, str]:
    claim(scene, "search-index", mode="ReadWriteOncePod")
    workload(scene, "indexer", **mounts("search-index"))
    scene.run(20.0)
    more = {"concurrencyPolicy": "Forbid"}
    return cron_job(scene, "compact", "* * * * *", more=more, **mounts("search-index"))


@scenario(
    STORAGE,
    "claim names attributes that do not exist",
    cause="VolumeAttributesClass io8-class does not exist, so the volume is not modified.",
    facts=("io8-class", "not exist|not found|missing|no such"),
    report="https://github.com/kubernetes-csi/external-resizer/issues/427",
    code="volume-attributes",
)
def attributes_class(scene: Scene) -> tuple[str, str]:
    claim(scene, "orders-db")
    workload(scene, "orders", **mounts("orders-db"))
    scene.run(20.0)
    scene.merge("PersistentVolumeClaim", "orders-db", {"spec": {"volumeAttributesClassName": "io8-class"}})
    status = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "io8-class", "status": "Pending"}}
    scene.merge("PersistentVolumeClaim", "orders-db", {"status": status}, subresource="status")
    return "PersistentVolumeClaim", "orders-db"


@scenario(
    STORAGE,
    "claim is to be restored from a snapshot that does not exist",
    cause="The driver cannot provision claim restored, because VolumeSnapshot nightly-0412 was not found.",
    facts=("restored", "nightly-0412", "not found|not exist|missing"),
    code="provisioning-failed",
)
def missing_snapshot(scene: Scene) -> tuple[str, str]:
    driver = "ebs.csi.aws.com"
    scene.create(CSI_DRIVERS, driver, {"spec": {}})
    scene.apply({"apiVersion": STORAGE_V1, "kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": driver})
    scene.run(3.0)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "nightly-0412"}
    claim(scene, "restored", storageClassName="gp3", dataSource=source)
    workload(scene, "restore-check", **mounts("restored"))
    scene.run(10.0)
    found = {**scene.get("PersistentVolumeClaim", "restored"), "kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    why = "error getting handle for DataSource Type VolumeSnapshot by Name nightly-0412: error getting snapshot "
    why += 'nightly-0412 from api server: volumesnapshots.snapshot.storage.k8s.io "nightly-0412" not found'
    text = f'failed to provision volume with StorageClass "gp3": {why}'
    event(scene, found, "ProvisioningFailed", text, count=6, source=f"{driver}_ebs-csi-controller-0")
    return "Deployment", "restore-check"


@scenario(
    STORAGE,
    "expanded volume waits for a pod to resize its file system",
    cause="The volume has 20Gi, and its file system is resized when a pod mounts claim media, which none does.",
    facts=("file system|filesystem", "no pod|a pod|mounted|mounts|next pod|in use"),
    wait=90.0,
    code="claim-waits-for-pod",
)
def file_system(scene: Scene) -> tuple[str, str]:
    claim(scene, "media")
    workload(scene, "transcoder", **mounts("media"))
    scene.run(20.0)
    scene.merge("Deployment", "transcoder", {"spec": {"replicas": 0}})
    scene.run(20.0)
    scene.merge("PersistentVolumeClaim", "media", {"spec": {"resources": {"requests": {"storage": "20Gi"}}}})
    return "PersistentVolumeClaim", "media"


@scenario(
    STORAGE,
    "claim of a StatefulSet is deleted while a debug pod uses it",
    cause="Claim data-queue-0 is being deleted and stays as long as pod inspect uses it, so queue-0 cannot be placed.",
    facts=("data-queue-0", "inspect", "delet|terminat"),
    wait=90.0,
    code="in-use",
)
def debug_pod(scene: Scene) -> tuple[str, str]:
    _with_template(scene, "queue")
    scene.run(20.0)
    pin = {"nodeName": scene.get("Pod", "queue-0")["spec"]["nodeName"]}
    mounted = mounts("data-queue-0")
    container = {"name": "main", "image": "netshoot:1", **mounted["container"]}
    spec = {"containers": [container], "volumes": mounted["volumes"], **pin}
    scene.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inspect"}, "spec": spec})
    scene.run(10.0)
    scene.delete("PersistentVolumeClaim", "data-queue-0")
    scene.delete("Pod", "queue-0")
    return "StatefulSet", "queue"


@scenario(
    STORAGE,
    "admission policy refuses the removal of a finalizer",
    cause="Policy labels-for-billing refuses each update of claim exports, which has no label cost-center, and so also "
    "the one that removes its finalizer.",
    facts=("labels-for-billing", "cost-center"),
    wait=90.0,
    report="https://github.com/kubernetes/kubernetes/issues/62666",
    code="policy-denied",
)
def finalizer_is_kept(scene: Scene) -> tuple[str, str]:
    claim(scene, "exports")
    scene.run(10.0)
    admission_policy(
        scene,
        "labels-for-billing",
        ("", "v1", "persistentvolumeclaims"),
        ["CREATE", "UPDATE"],
        "has(object.metadata.labels) && 'cost-center' in object.metadata.labels",
        "PersistentVolumeClaims must have the label cost-center",
    )
    scene.delete("PersistentVolumeClaim", "exports")
    return "PersistentVolumeClaim", "exports"


@scenario(
    HELD_BACK_STORAGE,
    "claim of an ephemeral volume belongs to nobody",
    cause="Claim report-scratch exists and was not created for the pod, so its ephemeral volume is not used.",
    facts=("report-scratch", "not owned|owner|belong|another|not created for|not its own|not controlled"),
    report="https://github.com/kubernetes/website/pull/22438",
    code="unschedulable",
)
def ephemeral_conflict(scene: Scene) -> tuple[str, str]:
    claim(scene, "report-scratch", "1Gi")
    scene.run(5.0)
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}
    container = {"name": "main", "image": "nginx:1.27", "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}]}
    spec = {"containers": [container], "volumes": [volume]}
    scene.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "report"}, "spec": spec})
    return "Pod", "report"
