"""Blind scenarios of placement and volumes."""

from __future__ import annotations

from kcm.protocols.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES
from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    annotate,
    change_image,
    claim,
    crashing_neighbour,
    job,
    mounts,
    scenario,
    static_volume,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

PLACEMENT: list[BlindScenario] = []
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


# Placement.


@scenario(
    PLACEMENT,
    "more replicas with a host port than nodes",
    cause="Host port 443 is already used on each of the 3 nodes, so the fourth pod of the ingress proxy fits "
    "none of them.",
    facts=("443|host port|hostport|free ports", "node"),
    code="host-port",
)
def host_port(scene: Scene) -> tuple[str, str]:
    ports = [{"name": "https", "containerPort": 8443, "hostPort": 443}]
    return workload(scene, "ingress-proxy", replicas=4, container={"ports": ports})


@scenario(
    PLACEMENT,
    "topology spread with one zone cordoned",
    cause="The pods must be spread over the zones with a skew of at most 1, and all nodes of zone-b are cordoned.",
    facts=("spread|topology", "zone"),
    stage={"nodes": 4},
    alone=True,
    code="topology-spread|nodes-unschedulable",
)
def spread(scene: Scene) -> tuple[str, str]:
    for name in ("hollow-node-1", "hollow-node-3"):
        scene.merge("Node", name, {"spec": {"unschedulable": True}})
    scene.run(3.0)
    labels = {"matchLabels": {"app": "session-store"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
    return workload(scene, "session-store", replicas=4, topologySpreadConstraints=[rule])


@scenario(
    PLACEMENT,
    "request is larger than any node",
    cause="Each pod requests 200Gi of memory, and no node has more than 128Gi.",
    facts=("memory", "200Gi|128Gi"),
    code="insufficient-resources",
)
def too_large(scene: Scene) -> tuple[str, str]:
    workload(scene, "warehouse-ui", replicas=2)
    requests = {"requests": {"memory": "200Gi", "cpu": "4"}}
    return workload(scene, "warehouse", "StatefulSet", replicas=2, container={"resources": requests})


@scenario(
    PLACEMENT,
    "node selector names a label that no node has",
    cause="The node selector disktype=ssd matches no node.",
    facts=("disktype", "ssd"),
    code="node-affinity",
)
def unmatched_selector(scene: Scene) -> tuple[str, str]:
    crashing_neighbour(scene, "old-importer")
    return workload(scene, "timeseries", replicas=2, nodeSelector={"disktype": "ssd"})


@scenario(
    PLACEMENT,
    "DaemonSet does not fit on a full node",
    cause="The pod of DaemonSet log-agent for hollow-node-1 is pending, because that node has too little CPU left.",
    facts=("hollow-node-1", "cpu"),
    alone=True,
    code="insufficient-resources",
)
def full_node(scene: Scene) -> tuple[str, str]:
    hog = {"resources": {"requests": {"cpu": "31500m"}}}
    workload(scene, "batch-hog", nodeSelector={HOSTNAME: "hollow-node-1"}, container=hog)
    scene.run(10.0)
    agent = {"resources": {"requests": {"cpu": "1", "memory": "200Mi"}}}
    return workload(scene, "log-agent", "DaemonSet", container=agent)


@scenario(
    PLACEMENT,
    "only node of the pool is cordoned",
    cause="The pods may only run on the pool gpu, whose only node hollow-node-2 is cordoned.",
    facts=("hollow-node-2", "cordon|unschedulable"),
    alone=True,
    code="nodes-unschedulable|node-cordoned",
)
def cordoned_pool(scene: Scene) -> tuple[str, str]:
    scene.merge("Node", "hollow-node-2", {"metadata": {"labels": {"pool": "gpu"}}, "spec": {"unschedulable": True}})
    scene.run(3.0)
    return workload(scene, "transcoder", replicas=2, nodeSelector={"pool": "gpu"})


@scenario(
    PLACEMENT,
    "node of the pool has disk pressure",
    cause="The only node of the pool, worker-disk, has disk pressure, whose taint the pods do not tolerate.",
    facts=("worker-disk", "disk-pressure|diskpressure|disk pressure"),
    flags=BY_HAND,
    code="untolerated-taint|node-pressure",
    untrue=("pool=worker-disk",),
)
def disk_pressure(scene: Scene) -> tuple[str, str]:
    full = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "disk pressure"}
    pool = worker(scene, "worker-disk", conditions=[full])
    return workload(scene, "video-cache", replicas=2, **pool)


@scenario(
    PLACEMENT,
    "scheduler of the pods is not installed",
    cause="The pods name the scheduler volcano, which does not run in this cluster, so nothing schedules them.",
    facts=("volcano", "scheduler"),
    wait=180.0,
    code="no-scheduler",
)
def other_scheduler(scene: Scene) -> tuple[str, str]:
    return job(scene, "mpi-train", more={"parallelism": 4, "completions": 4}, schedulerName="volcano")


@scenario(
    PLACEMENT,
    "all devices are taken by another Job",
    cause="The pod of Job finetune-b waits for a device of gpu.example.com, and the only one is allocated to "
    "Job finetune-a.",
    facts=("gpu.example.com|device|claim", "finetune-b"),
    stage={"devices": True},
    alone=True,
    code="device-unavailable",
)
def no_device(scene: Scene) -> tuple[str, str]:
    annotate(scene, "Node", "hollow-node-0", devices="gpu.example.com=1")
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    scene.create(DEVICE_CLASSES, "gpu", {"spec": {"selectors": [selector]}})
    requests = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    scene.create(RESOURCE_CLAIM_TEMPLATES, "one-gpu", {"spec": {"spec": requests}})
    scene.run(5.0)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    trains = {"image": "acme/trainer:2", "command": ["sleep", "infinity"], "resources": {"claims": [{"name": "gpu"}]}}
    job(scene, "finetune-a", resourceClaims=claims, container=trains)
    scene.run(15.0)
    return job(scene, "finetune-b", resourceClaims=claims, container=trains)


# Volumes.


@scenario(
    PLACEMENT,
    "rollout needs a volume that the old pod holds on another node",
    cause="The volume of claim wiki-data can be attached to one node only, and the old pod on another node "
    "still uses it.",
    facts=("attach", "wiki-data|pvc-|wiki-"),
    report="https://github.com/GoogleCloudPlatform/kubernetes-engine-samples/issues/90",
    stage={"attach": True},
    wait=180.0,
    code="volume-attach",
)
def multi_attach(scene: Scene) -> tuple[str, str]:
    claim(scene, "wiki-data")
    labels = {"matchLabels": {"app": "wiki"}}
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": labels, "topologyKey": HOSTNAME}}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    workload(scene, "wiki", affinity=affinity, **mounts("wiki-data"))
    scene.run(30.0)
    change_image(scene, "Deployment", "wiki", "nginx:1.28")
    return "Deployment", "wiki"


@scenario(
    PLACEMENT,
    "volume is in a zone without nodes",
    cause="The volume of claim data-pg-0 can be reached only from zone-b, whose only node was deleted.",
    facts=("data-pg-0|pvc-", "zone-b|zone|node affinity"),
    alone=True,
    wait=300.0,
    code="volume-not-reachable",
)
def zone_of_volume(scene: Scene) -> tuple[str, str]:
    for name in ("hollow-node-0", "hollow-node-2"):
        scene.merge("Node", name, {"spec": {"unschedulable": True}})
    scene.run(3.0)
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "hollow-wait",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "20Gi"}},
        },
    }
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql"}]}
    workload(scene, "pg", "StatefulSet", more={"volumeClaimTemplates": [template]}, container=mounted)
    scene.run(20.0)
    for name in ("hollow-node-0", "hollow-node-2"):
        scene.merge("Node", name, {"spec": {"unschedulable": None}})
    scene.delete("Node", "hollow-node-1")
    return "StatefulSet", "pg"


@scenario(
    PLACEMENT,
    "storage class does not exist after a migration",
    cause="Claim data-kafka-0 names the storage class gp2, which does not exist in this cluster.",
    facts=("gp2", "data-kafka-0"),
    code="storage-class-missing",
)
def missing_class(scene: Scene) -> tuple[str, str]:
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "gp2",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/kafka"}]}
    more = {"volumeClaimTemplates": [template]}
    return workload(scene, "kafka", "StatefulSet", replicas=3, more=more, container=mounted)


@scenario(
    PLACEMENT,
    "driver of the storage class is not installed",
    cause="Claim grafana-storage waits for the provisioner ebs.csi.aws.com, which is not installed.",
    facts=("ebs.csi.aws.com", "grafana-storage"),
    report="https://github.com/awslabs/cdk-eks-blueprints/issues/561",
    wait=300.0,
    code="provisioner-silent",
)
def missing_driver(scene: Scene) -> tuple[str, str]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    scene.apply({**kind, "metadata": {"name": "ebs-gp3"}, "provisioner": "ebs.csi.aws.com"})
    claim(scene, "grafana-storage", storageClassName="ebs-gp3")
    return workload(scene, "grafana", **mounts("grafana-storage"))


@scenario(
    PLACEMENT,
    "volume has another access mode than the claim",
    cause="The claim asks for ReadWriteMany, but the only volume of its class, nfs-media, offers only ReadWriteOnce.",
    facts=("ReadWriteMany|access mode", "media-library|nfs-media"),
    code="claim-no-volume|volume-mismatch",
)
def access_mode(scene: Scene) -> tuple[str, str]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    scene.apply({**kind, "metadata": {"name": "static-nfs"}, "provisioner": "kubernetes.io/no-provisioner"})
    static_volume(scene, "nfs-media", "50Gi", storageClassName="static-nfs")
    return claim(scene, "media-library", "50Gi", mode="ReadWriteMany", storageClassName="static-nfs")


@scenario(
    PLACEMENT,
    "claim was created again for a released volume",
    cause="Volume archive-disk is Released and still refers to the deleted claim, so the new claim of the same "
    "name cannot be bound to it.",
    facts=("archive-disk", "released|claimref|another claim|previous claim|different claim|deleted claim|uid"),
    report="https://github.com/kubernetes-csi/csi-driver-smb/issues/821",
    code="volume-taken|volume-released",
    added=("released|deleted|uid",),
)
def released_volume(scene: Scene) -> tuple[str, str]:
    static_volume(scene, "archive-disk", "200Gi", storageClassName="")
    claim(scene, "archive", "200Gi", storageClassName="", volumeName="archive-disk")
    scene.run(15.0)
    scene.delete("PersistentVolumeClaim", "archive")
    scene.run(15.0)
    return claim(scene, "archive", "200Gi", storageClassName="", volumeName="archive-disk")


@scenario(
    PLACEMENT,
    "deleted claim is still mounted",
    cause="The claim cms-uploads is being deleted, but a pod of Deployment cms still uses it.",
    facts=("cms-", "use|mount"),
    code="in-use",
)
def claim_in_use(scene: Scene) -> tuple[str, str]:
    claim(scene, "cms-uploads")
    workload(scene, "cms", **mounts("cms-uploads"))
    scene.run(15.0)
    scene.delete("PersistentVolumeClaim", "cms-uploads")
    return "PersistentVolumeClaim", "cms-uploads"


@scenario(
    PLACEMENT,
    "volume was deleted under its claim",
    cause="The claim is Lost, because its volume disk-0042 was deleted.",
    facts=("disk-0042", "lost|does not exist|deleted|missing|not found"),
    code="volume-lost",
)
def lost_claim(scene: Scene) -> tuple[str, str]:
    static_volume(scene, "disk-0042", "30Gi", storageClassName="")
    claim(scene, "customer-files", "30Gi", storageClassName="", volumeName="disk-0042")
    scene.run(15.0)
    scene.delete("PersistentVolume", "disk-0042")
    scene.merge("PersistentVolume", "disk-0042", {"metadata": {"finalizers": None}})
    return "PersistentVolumeClaim", "customer-files"


@scenario(
    PLACEMENT,
    "claim waits for a pod that fits no node",
    cause="The claim is bound when its first pod is scheduled, and that pod fits no node because of its node "
    "selector accelerator=tpu-v5.",
    facts=("accelerator|tpu-v5|node selector|nodeselector|node affinity", "dataset-loader"),
    code="node-affinity",
)
def first_consumer(scene: Scene) -> tuple[str, str]:
    claim(scene, "dataset", "1Ti", storageClassName="hollow-wait")
    workload(scene, "dataset-loader", nodeSelector={"accelerator": "tpu-v5"}, **mounts("dataset"))
    return "PersistentVolumeClaim", "dataset"


@scenario(
    PLACEMENT,
    "cloud refuses to attach the volume",
    cause="The volume vol-jenkins cannot be attached: the cloud answers UnauthorizedOperation.",
    facts=("UnauthorizedOperation", "jenkins"),
    stage={"attach": True},
    wait=120.0,
    code="volume-attach",
)
def attach_error(scene: Scene) -> tuple[str, str]:
    why = 'rpc error: code = Internal desc = Could not attach volume "vol-0a1b2c": UnauthorizedOperation: 403'
    driver = {"csi": {"driver": "hollow.kcm.dev", "volumeHandle": "vol-0a1b2c"}}
    static_volume(scene, "vol-jenkins", "40Gi", source=driver, storageClassName="")
    annotate(scene, "PersistentVolume", "vol-jenkins", attach_error=why)
    claim(scene, "jenkins-home", "40Gi", storageClassName="", volumeName="vol-jenkins")
    return workload(scene, "jenkins", **mounts("jenkins-home"))


@scenario(
    PLACEMENT,
    "volume cannot grow to the requested size",
    cause="The claim asks for 500Gi, more than its driver can provide, so the expansion has failed as infeasible.",
    facts=("500Gi", "infeasible|expan|resiz"),
    wait=120.0,
    code="volume-expansion",
)
def infeasible_size(scene: Scene) -> tuple[str, str]:
    claim(scene, "prometheus-db", "50Gi")
    workload(scene, "prometheus", "StatefulSet", **mounts("prometheus-db"))
    scene.run(15.0)
    annotate(scene, "PersistentVolumeClaim", "prometheus-db", largest_size="100Gi")
    scene.merge("PersistentVolumeClaim", "prometheus-db", {"spec": {"resources": {"requests": {"storage": "500Gi"}}}})
    return "PersistentVolumeClaim", "prometheus-db"
