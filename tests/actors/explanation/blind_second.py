"""Blind scenarios of all domains, in addition to those of the other files."""

from __future__ import annotations

from kcm.protocols.resources import VALIDATING_ADMISSION_POLICIES, Resource
from tests.actors.explanation.blind_refusals import autoscaler
from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    annotate,
    change_image,
    claim,
    crashing_neighbour,
    cron_job,
    event,
    job,
    mounts,
    pods_of,
    quota,
    report,
    scenario,
    service,
    static_volume,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

SECOND: list[BlindScenario] = []
BACKUPS = Resource(group="velero.example", version="v1", plural="backups", kind="Backup")
BINDINGS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
ZONE = "topology.kubernetes.io/zone"
ENDS = {"image": "busybox:1.36", "command": ["true"]}


# Containers and Services.


@scenario(
    SECOND,
    "Secret of a volume does not exist",
    cause="The pods mount Secret web-tls, which does not exist, so their containers are not created.",
    facts=("web-tls", "not found|does not exist|missing"),
    flags=BY_HAND,
    code="config-missing",
)
def missing_volume(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-tls")
    volume = {"name": "tls", "secret": {"secretName": "web-tls"}}
    mounted = {"volumeMounts": [{"name": "tls", "mountPath": "/tls"}]}
    workload(scene, "landing-page", replicas=2, volumes=[volume], container=mounted, **pool)
    scene.run(10.0)
    for pod in pods_of(scene, "landing-page"):
        report(scene, pod, {"state": {"waiting": {"reason": "ContainerCreating"}}})
        event(
            scene, pod, "FailedMount", 'MountVolume.SetUp failed for volume "tls" : secret "web-tls" not found', count=9
        )
    return "Deployment", "landing-page"


@scenario(
    SECOND,
    "pods of a Service crash",
    cause="The pod of Deployment auth crashes with exit code 2 again and again, so its Service has no ready endpoint.",
    facts=("auth-", "2", "exit|crash"),
    wait=150.0,
    code="crash-loop",
)
def crashing_backend(scene: Scene) -> tuple[str, str]:
    workload(scene, "auth", container={"image": "busybox:1.36", "command": ["sh", "-c", "sleep 3; exit 2"]})
    workload(scene, "session", replicas=2)
    return service(scene, "auth", port=443)


@scenario(
    SECOND,
    "startup probe gives up too early",
    cause="The startup probe allows 30 s, the application needs 300 s, so the container is killed before it "
    "has started.",
    facts=("startup", "graph-db|probe"),
    wait=200.0,
    code="startup-probe",
)
def startup_probe(scene: Scene) -> tuple[str, str]:
    probe = {"tcpSocket": {"port": 7687}, "periodSeconds": 10, "failureThreshold": 3}
    slow = {"hollow.kcm.dev/start-seconds": "300"}
    return workload(scene, "graph-db", "StatefulSet", annotations=slow, container={"startupProbe": probe})


@scenario(
    SECOND,
    "deleted load balancer is never cleaned up",
    cause="The Service is being deleted, and no cloud controller removes its finalizer for the load balancer.",
    facts=("service.kubernetes.io/load-balancer-cleanup", "finalizer"),
    code="finalizer-controller|finalizer",
)
def undeleted_service(scene: Scene) -> tuple[str, str]:
    workload(scene, "public-api", replicas=2)
    service(scene, "public-api", type="LoadBalancer")
    cleanup = ["service.kubernetes.io/load-balancer-cleanup"]
    scene.merge("Service", "public-api", {"metadata": {"finalizers": cleanup}})
    scene.run(10.0)
    scene.delete("Service", "public-api")
    return "Service", "public-api"


@scenario(
    SECOND,
    "backend of an Ingress does not exist",
    cause="The Ingress sends requests to Service shop-backend, which does not exist; the Service is named shop.",
    facts=("shop-backend", "not found|does not exist|missing|no service"),
    code="backend-missing",
)
def ingress_backend(scene: Scene) -> tuple[str, str]:
    workload(scene, "shop", replicas=2)
    service(scene, "shop")
    backend = {"service": {"name": "shop-backend", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    body = {"rules": [{"host": "shop.example.com", "http": {"paths": paths}}]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    scene.apply({**kind, "metadata": {"name": "shop"}, "spec": body})
    return "Ingress", "shop"


# Rollouts.


@scenario(
    SECOND,
    "partition keeps the old version",
    cause="The partition 3 of the StatefulSet's update strategy keeps all of its 3 pods at the old version.",
    facts=("partition", "3"),
    code="manual-update",
)
def partition(scene: Scene) -> tuple[str, str]:
    strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}}
    workload(scene, "queue", "StatefulSet", replicas=3, more=strategy)
    scene.run(20.0)
    change_image(scene, "StatefulSet", "queue", "nginx:1.28")
    return "StatefulSet", "queue"


@scenario(
    SECOND,
    "first updated pod of a DaemonSet crashes",
    cause="The first pod of the new version exits with code 78 again and again, and maxUnavailable 1 keeps the "
    "others old.",
    facts=("78", "csi-agent-"),
    wait=150.0,
    code="crash-loop",
)
def crashing_daemon(scene: Scene) -> tuple[str, str]:
    workload(scene, "csi-agent", "DaemonSet")
    scene.run(20.0)
    change_image(scene, "DaemonSet", "csi-agent", "nginx:1.28", exit_code="78")
    return "DaemonSet", "csi-agent"


@scenario(
    SECOND,
    "no node has the label of a DaemonSet",
    cause="The DaemonSet's node selector role=storage matches no node, so it has no pod.",
    facts=("role", "storage", "node"),
    code="no-matching-nodes",
)
def daemon_without_nodes(scene: Scene) -> tuple[str, str]:
    return workload(scene, "ceph-osd", "DaemonSet", nodeSelector={"role": "storage"})


# Refusals.


@scenario(
    SECOND,
    "runtime class does not exist",
    cause="The pods name the RuntimeClass gvisor, which does not exist, so they are refused.",
    facts=("gvisor", "runtimeclass|runtime class"),
    code="runtime-class-missing",
)
def runtime_class(scene: Scene) -> tuple[str, str]:
    return workload(scene, "sandbox", replicas=2, runtimeClassName="gvisor")


@scenario(
    SECOND,
    "priority class does not exist",
    cause="The pods name the PriorityClass business-critical, which does not exist, so they are refused.",
    facts=("business-critical", "priorityclass|priority class"),
    code="priority-class-missing",
)
def priority_class(scene: Scene) -> tuple[str, str]:
    return workload(scene, "pricing", "StatefulSet", replicas=2, priorityClassName="business-critical")


@scenario(
    SECOND,
    "admission policy refuses the tag latest",
    cause="The admission policy no-latest-tag refuses pods whose image has the tag latest, as that of "
    "Deployment blog has.",
    facts=("no-latest-tag", "latest"),
    code="policy-denied",
)
def admission_policy(scene: Scene) -> tuple[str, str]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    check = "object.spec.containers.all(c, !c.image.endsWith(':latest'))"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": check, "message": "images must not have the tag latest"}],
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}}
    binding = {"policyName": "no-latest-tag", "validationActions": ["Deny"], "matchResources": where}
    scene.create(VALIDATING_ADMISSION_POLICIES, "no-latest-tag", {"spec": policy})
    scene.create(BINDINGS, "no-latest-tag", {"spec": binding})
    scene.run(5.0)
    return workload(scene, "blog", replicas=2, container={"image": "ghost:latest"})


@scenario(
    SECOND,
    "quota of storage refuses the claims of a StatefulSet",
    cause="ResourceQuota storage-quota allows 50Gi of requests.storage, so the claim of 100Gi for influx-0 is refused.",
    facts=("storage-quota", "requests.storage"),
    code="quota-exceeded",
)
def quota_of_storage(scene: Scene) -> tuple[str, str]:
    quota(scene, "storage-quota", requests_storage="50Gi")
    scene.run(3.0)
    requests = {"resources": {"requests": {"storage": "100Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"metadata": {"name": "data"}, "spec": requests}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    more = {"volumeClaimTemplates": [template]}
    return workload(scene, "influx", "StatefulSet", replicas=2, more=more, container=mounted)


# Placement and volumes.


@scenario(
    SECOND,
    "queueing system never opens the gate",
    cause="The pod has the scheduling gate kueue.x-k8s.io/admission, which nothing removes, so it is not scheduled.",
    facts=("kueue.x-k8s.io/admission", "gate"),
    wait=300.0,
    code="scheduling-gates",
)
def closed_gate(scene: Scene) -> tuple[str, str]:
    return job(scene, "simulate-42", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])


@scenario(
    SECOND,
    "all nodes of the pool have a taint",
    cause="The pods may only run on the pool spot, whose nodes have the taint dedicated=ci, which they do not "
    "tolerate.",
    facts=("dedicated", "taint"),
    alone=True,
    code="untolerated-taint",
)
def tainted_pool(scene: Scene) -> tuple[str, str]:
    taint = {"key": "dedicated", "value": "ci", "effect": "NoSchedule"}
    for name in ("hollow-node-0", "hollow-node-1"):
        scene.merge("Node", name, {"metadata": {"labels": {"pool": "spot"}}, "spec": {"taints": [taint]}})
    scene.run(3.0)
    return workload(scene, "crawler", replicas=3, nodeSelector={"pool": "spot"})


@scenario(
    SECOND,
    "more replicas than zones with anti-affinity",
    cause="Each pod must be in a zone of its own, there are 2 zones, and so es-2 fits no node.",
    facts=("es-2", "anti-affinity|antiaffinity"),
    code="pod-affinity",
)
def zones_used_up(scene: Scene) -> tuple[str, str]:
    term = {"labelSelector": {"matchLabels": {"app": "es"}}, "topologyKey": ZONE}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    crashing_neighbour(scene, "kibana-old")
    return workload(scene, "es", "StatefulSet", replicas=3, affinity=affinity)


@scenario(
    SECOND,
    "nodes have no free attachments",
    cause="Each of the 3 nodes can attach 1 volume, all of which are used, so shard-3 fits no node.",
    facts=("shard-3", "volume"),
    stage={"attach": True},
    alone=True,
    wait=120.0,
    code="too-many-volumes",
)
def attachments_used_up(scene: Scene) -> tuple[str, str]:
    for number in range(3):
        annotate(scene, "Node", f"hollow-node-{number}", attach_limit="1")
    scene.run(10.0)
    requests = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"metadata": {"name": "data"}, "spec": requests}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    more = {"volumeClaimTemplates": [template]}
    return workload(scene, "shard", "StatefulSet", replicas=4, more=more, container=mounted)


@scenario(
    SECOND,
    "file server refuses the mount",
    cause="The volume nfs-reports cannot be mounted: the server answers access denied.",
    facts=("access denied", "reporting|nfs-reports"),
    stage={"attach": True},
    wait=120.0,
    code="volume-mount",
)
def mount_error(scene: Scene) -> tuple[str, str]:
    driver = {"csi": {"driver": "hollow.kcm.dev", "volumeHandle": "reports"}}
    static_volume(scene, "nfs-reports", "5Gi", source=driver, storageClassName="")
    why = "mount.nfs: access denied by server while mounting 10.0.0.5:/export/reports"
    annotate(scene, "PersistentVolume", "nfs-reports", mount_error=why)
    claim(scene, "reports", "5Gi", storageClassName="", volumeName="nfs-reports")
    return workload(scene, "reporting", **mounts("reports"))


@scenario(
    SECOND,
    "deleted volume is still bound",
    cause="The volume ledger-disk is being deleted, but it is still bound to claim finance-db.",
    facts=("finance-db", "bound|claim"),
    code="in-use",
)
def bound_volume(scene: Scene) -> tuple[str, str]:
    static_volume(scene, "ledger-disk", "80Gi", storageClassName="")
    claim(scene, "finance-db", "80Gi", storageClassName="", volumeName="ledger-disk")
    workload(scene, "finance", "StatefulSet", **mounts("finance-db"))
    scene.run(15.0)
    scene.delete("PersistentVolume", "ledger-disk")
    return "PersistentVolume", "ledger-disk"


# Jobs and autoscaling.


@scenario(
    SECOND,
    "Job exceeds its deadline because its pod is never scheduled",
    cause="Job nightly-report has failed: its deadline of 60 s passed before its pod was scheduled.",
    facts=("60", "deadline"),
    wait=180.0,
    code="job-deadline",
)
def job_deadline(scene: Scene) -> tuple[str, str]:
    more = {"activeDeadlineSeconds": 60}
    return job(scene, "nightly-report", more=more, nodeSelector={"pool": "batch"}, container=ENDS)


@scenario(
    SECOND,
    "failure policy ends a Job at once",
    cause="Job validate-data has failed: a container exited with 42, for which its podFailurePolicy says FailJob.",
    facts=("42", "policy|FailJob"),
    wait=60.0,
    code="pod-failed|job-failed",
)
def failure_policy(scene: Scene) -> tuple[str, str]:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
    more = {"podFailurePolicy": {"rules": [rule]}, "backoffLimit": 6}
    fails = {"image": "busybox:1.36", "command": ["sh", "-c", "sleep 1; exit 42"]}
    return job(scene, "validate-data", more=more, container=fails)


@scenario(
    SECOND,
    "schedule of a CronJob never occurs",
    cause="The schedule 0 3 31 2 * names the 31st of February, so it never runs.",
    facts=("0 3 31 2 *", "never|no next|no time|not occur"),
    wait=200.0,
)
def impossible_date(scene: Scene) -> tuple[str, str]:
    return cron_job(scene, "monthly-close", "0 3 31 2 *", container=ENDS)


@scenario(
    SECOND,
    "autoscaler names a Deployment that does not exist",
    cause="The HorizontalPodAutoscaler scales Deployment checkout-api, which does not exist.",
    facts=("checkout-api", "not found|does not exist|missing"),
    wait=90.0,
    code="scale-target-missing",
)
def missing_target(scene: Scene) -> tuple[str, str]:
    workload(scene, "checkout", replicas=2, container={"resources": {"requests": {"cpu": "100m"}}})
    return autoscaler(scene, "checkout", "checkout-api")


# Deletion and API servers.


@scenario(
    SECOND,
    "definition keeps an object with a finalizer",
    cause="The definition is being deleted, but Backup full-2024 keeps the finalizer velero.example/storage.",
    facts=("full-2024|velero.example/storage", "finalizer"),
    code="finalizer|instances-remain",
)
def deleted_definition(scene: Scene) -> tuple[str, str]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "group": "velero.example",
        "scope": "Namespaced",
        "names": {"plural": "backups", "singular": "backup", "kind": "Backup", "listKind": "BackupList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    scene.apply({**kind, "metadata": {"name": "backups.velero.example"}, "spec": body})
    scene.run(20.0)
    scene.create(BACKUPS, "full-2024", {"spec": {}}, finalizers=["velero.example/storage"])
    scene.run(5.0)
    scene.delete("CustomResourceDefinition", "backups.velero.example")
    return "CustomResourceDefinition", "backups.velero.example"


@scenario(
    SECOND,
    "Service of an APIService has no endpoints",
    cause="The APIService is not available, because the pods of its Service metrics-adapter cannot pull their image.",
    facts=("metrics-adapter", "endpoints|pull|registry.invalid"),
    alone=True,
    code="image-pull",
)
def unavailable_api(scene: Scene) -> tuple[str, str]:
    workload(scene, "metrics-adapter", container={"image": "registry.invalid/adapter:1"})
    service(scene, "metrics-adapter", port=443)
    body = {
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": scene.namespace, "name": "metrics-adapter"},
    }
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    scene.apply({**kind, "metadata": {"name": "v1beta1.external.metrics.k8s.io"}, "spec": body})
    return "APIService", "v1beta1.external.metrics.k8s.io"


@scenario(
    SECOND,
    "machine of a node is lost",
    cause="The kubelet of hollow-node-1 has stopped sending heartbeats, so the node is unreachable.",
    facts=("hollow-node-1", "heartbeat|stopped posting|kubelet|lease|silent"),
    alone=True,
    wait=120.0,
    code="node-lost",
)
def silent_node(scene: Scene) -> tuple[str, str]:
    workload(scene, "anything", replicas=3)
    scene.run(10.0)
    annotate(scene, "Node", "hollow-node-1", silent="true")
    return "Node", "hollow-node-1"
