"""Blind scenarios that vary the ones that were wrong at first sight, to see whether their corrections generalise."""

from __future__ import annotations

from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    annotate,
    change_image,
    claim,
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

THIRD: list[BlindScenario] = []
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FAILS = {"image": "busybox:1.36", "command": ["sh", "-c", "sleep 1; exit 9"]}
REPORTS = "unreachable|not ready|notready|lost|silent|heartbeat|stopped posting|not respond"


@scenario(
    THIRD,
    "StatefulSet of a Service was scaled to zero",
    cause="StatefulSet couch, whose pods the Service selects, is scaled to 0.",
    facts=(
        "couch",
        "scaled to 0|0 replicas|replicas is 0|replicas 0|replicas: 0|replicas=0|to zero",
    ),
    code="service-no-pods",
)
def stateful_zero(scene: Scene) -> tuple[str, str]:
    workload(scene, "couch", "StatefulSet", replicas=2)
    workload(scene, "couch-exporter", replicas=1)
    service(scene, "couch-headless", {"app": "couch"}, clusterIP="None")
    scene.run(10.0)
    scene.merge("StatefulSet", "couch", {"spec": {"replicas": 0}})
    return "Service", "couch-headless"


@scenario(
    THIRD,
    "StatefulSet does not apply the repaired command",
    cause="Pod broker-0 crashes with the command of an old revision, and must be deleted before the repaired "
    "one is used.",
    facts=("broker-0", "template|revision|up to date|update", "delete"),
    wait=90.0,
)
def repaired_command(scene: Scene) -> tuple[str, str]:
    crashes = {"image": "busybox:1.36", "command": ["sh", "-c", "exit 9"]}
    workload(scene, "broker", "StatefulSet", replicas=3, container=crashes)
    scene.run(90.0)
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "infinity"],
    }
    scene.merge(
        "StatefulSet",
        "broker",
        {"spec": {"template": {"spec": {"containers": [container]}}}},
    )
    return "StatefulSet", "broker"


@scenario(
    THIRD,
    "rollout of a DaemonSet waits for a pod that takes an hour to stop",
    cause="The rollout waits for an old pod of the DaemonSet, which is terminating with a grace period of 3600 s.",
    facts=("cni-", "terminating|being deleted|stop", "3600|1h|60m"),
    wait=120.0,
)
def slow_daemon(scene: Scene) -> tuple[str, str]:
    slow = {"hollow.kcm.dev/terminate-after-seconds": "3500"}
    workload(scene, "cni", "DaemonSet", annotations=slow, terminationGracePeriodSeconds=3600)
    scene.run(15.0)
    change_image(scene, "DaemonSet", "cni", "nginx:1.28")
    return "DaemonSet", "cni"


@scenario(
    THIRD,
    "request is larger than the free part of each node",
    cause="The pod requests 20 CPUs, and each node has 16 of its 32 free, although 48 are free in sum.",
    facts=("cpu", "20", "16|32"),
    alone=True,
    code="insufficient-resources",
)
def fragmented(scene: Scene) -> tuple[str, str]:
    labels = {"matchLabels": {"app": "render"}}
    term = {"labelSelector": labels, "topologyKey": HOSTNAME}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    half = {"resources": {"requests": {"cpu": "16"}}}
    workload(scene, "render", replicas=3, affinity=affinity, container=half)
    scene.run(10.0)
    return workload(scene, "solver", container={"resources": {"requests": {"cpu": "20"}}})


@scenario(
    THIRD,
    "node affinity names a zone that does not exist",
    cause="The pods must run in zone-c, and the nodes are in zone-a and zone-b.",
    facts=("zone-c",),
    code="node-affinity",
)
def unknown_zone(scene: Scene) -> tuple[str, str]:
    expression = {"key": ZONE, "operator": "In", "values": ["zone-c"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return workload(scene, "geo-dns", replicas=2, affinity=affinity)


@scenario(
    THIRD,
    "toleration does not cover the second taint of the pool",
    cause="The pod tolerates the taint of its pool, but not maintenance=true on its only node hollow-node-2.",
    facts=("maintenance",),
    untrue=("pool=ml:",),
    alone=True,
    code="untolerated-taint",
)
def second_taint(scene: Scene) -> tuple[str, str]:
    taints = [
        {"key": "pool", "value": "ml", "effect": "NoSchedule"},
        {"key": "maintenance", "value": "true", "effect": "NoSchedule"},
    ]
    scene.merge(
        "Node",
        "hollow-node-2",
        {"metadata": {"labels": {"pool": "ml"}}, "spec": {"taints": taints}},
    )
    scene.run(3.0)
    toleration = {
        "key": "pool",
        "operator": "Equal",
        "value": "ml",
        "effect": "NoSchedule",
    }
    return workload(scene, "embedder", nodeSelector={"pool": "ml"}, tolerations=[toleration])


@scenario(
    THIRD,
    "registry limits the rate of pulls",
    cause="The image cannot be pulled, because the registry answers toomanyrequests: its rate limit is reached.",
    facts=("toomanyrequests|rate limit", "docker.io/library/redis:7"),
    flags=BY_HAND,
    code="image-pull",
)
def rate_limit(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-rate")
    image = "docker.io/library/redis:7"
    workload(scene, "cart-cache", container={"image": image}, **pool)
    scene.run(10.0)
    (pod,) = pods_of(scene, "cart-cache")
    why = f'failed to pull and unpack image "{image}": 429 Too Many Requests - toomanyrequests: rate limit reached'
    report(scene, pod, {"state": {"waiting": {"reason": "ErrImagePull", "message": why}}})
    event(scene, pod, "Failed", f'Failed to pull image "{image}": {why}', count=3)
    return "Deployment", "cart-cache"


@scenario(
    THIRD,
    "default CPU limit is lower than the request of a Job",
    cause="The container requests 700m, and the LimitRange cpu-defaults gives it a limit of 500m, so its pods "
    "are invalid.",
    facts=("700m", "limitrange|limits cpu-defaults"),
    wait=100.0,
    code="limit-range|invalid-template",
)
def default_cpu(scene: Scene) -> tuple[str, str]:
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m"},
            "defaultRequest": {"cpu": "100m"},
        }
    ]
    kind = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "cpu-defaults"},
    }
    scene.apply({**kind, "spec": {"limits": limits}})
    scene.run(3.0)
    return job(scene, "rebuild-index", container={"resources": {"requests": {"cpu": "700m"}}})


@scenario(
    THIRD,
    "every run of a CronJob fails",
    cause="Each Job of CronJob sync-users fails: its container exits with 9 until its backoffLimit of 1 is reached.",
    facts=("sync-users", "9", "exit|failed"),
    wait=400.0,
    code="pod-failed|job-failed",
)
def failing_runs(scene: Scene) -> tuple[str, str]:
    cron_job(scene, "sync-users", "*/2 * * * *", container=FAILS)
    scene.merge(
        "CronJob",
        "sync-users",
        {"spec": {"jobTemplate": {"spec": {"backoffLimit": 1}}}},
    )
    return "CronJob", "sync-users"


@scenario(
    THIRD,
    "replacement needs a volume that is attached to a lost node",
    cause="The node of the old pod is lost, so its volume stays attached there, and the new pod cannot attach it.",
    facts=("hollow-node-", REPORTS),
    stage={"attach": True},
    alone=True,
    wait=450.0,
    code="node-lost|volume-attach",
)
def attached_to_lost_node(scene: Scene) -> tuple[str, str]:
    claim(scene, "erp-data")
    workload(scene, "erp", **mounts("erp-data"))
    scene.run(30.0)
    (pod,) = pods_of(scene, "erp")
    annotate(scene, "Node", pod["spec"]["nodeName"], silent="true")
    return "Deployment", "erp"


@scenario(
    THIRD,
    "claim names a volume that a deleted claim of another namespace had",
    cause="Volume shared-reports is Released: it still refers to the deleted claim quarterly of namespace finance-old.",
    facts=("shared-reports", "finance-old", "released|deleted|uid"),
    code="volume-taken|volume-released",
    added=("released|deleted",),
)
def released_elsewhere(scene: Scene) -> tuple[str, str]:
    scene.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "finance-old"}})
    static_volume(scene, "shared-reports", "15Gi", storageClassName="")
    claimed = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "15Gi"}},
    }
    scene.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "quarterly", "namespace": "finance-old"},
            "spec": {**claimed, "storageClassName": "", "volumeName": "shared-reports"},
        }
    )
    scene.run(10.0)
    scene.delete("Namespace", "finance-old")
    scene.run(20.0)
    return claim(scene, "quarterly", "15Gi", storageClassName="", volumeName="shared-reports")


@scenario(
    THIRD,
    "namespace waits for a pod with a long grace period",
    cause="The namespace contains a pod of Deployment batch-door that is terminating with a grace period of 1800 s.",
    facts=("batch-door-", "terminating|being deleted|stop|grace|deletion"),
)
def slow_namespace(scene: Scene) -> tuple[str, str]:
    slow = {"hollow.kcm.dev/terminate-after-seconds": "1700"}
    workload(scene, "batch-door", annotations=slow, terminationGracePeriodSeconds=1800)
    scene.run(15.0)
    scene.delete("Namespace", scene.namespace)
    return "Namespace", scene.namespace


@scenario(
    THIRD,
    "Recreate waits for a pod on a lost node",
    cause="The strategy Recreate waits for the old pod, which is terminating on a node that is lost.",
    facts=("hollow-node-", REPORTS, "crm-"),
    alone=True,
    wait=120.0,
    code="node-lost|rollout-limits",
)
def recreate_on_lost_node(scene: Scene) -> tuple[str, str]:
    workload(scene, "crm", more={"strategy": {"type": "Recreate"}})
    scene.run(15.0)
    (pod,) = pods_of(scene, "crm")
    annotate(scene, "Node", pod["spec"]["nodeName"], silent="true")
    scene.run(60.0)
    change_image(scene, "Deployment", "crm", "nginx:1.28")
    return "Deployment", "crm"


@scenario(
    THIRD,
    "one of two ports has no match",
    cause="The port grpc of the Service has the targetPort grpc, which no container names, so this port has no "
    "endpoint.",
    facts=("grpc",),
    code="target-port-missing",
)
def second_port(scene: Scene) -> tuple[str, str]:
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "rpc", "containerPort": 9000},
    ]
    workload(scene, "ledger-api", replicas=2, container={"ports": ports})
    wanted = [
        {"name": "http", "port": 80, "targetPort": "http"},
        {"name": "grpc", "port": 90, "targetPort": "grpc"},
    ]
    return service(scene, "ledger-api", ports=wanted)


@scenario(
    THIRD,
    "quota has less memory left than the pod requests",
    cause="ResourceQuota mem-quota has 2Gi of its 8Gi requests.memory left, and the second pod requests 4Gi.",
    facts=("mem-quota", "requests.memory", "4Gi"),
    code="quota-exceeded",
)
def remaining_quota(scene: Scene) -> tuple[str, str]:
    quota(scene, "mem-quota", requests_memory="8Gi")
    scene.run(3.0)
    workload(scene, "heater", container={"resources": {"requests": {"memory": "2Gi"}}})
    scene.run(5.0)
    return workload(
        scene,
        "cooler",
        "StatefulSet",
        replicas=2,
        container={"resources": {"requests": {"memory": "4Gi"}}},
    )


@scenario(
    THIRD,
    "schedule names the 30th of February",
    cause="The schedule 30 6 30 2 * never occurs, because February has no 30th day.",
    facts=("30 6 30 2 *", "never|no next|no time|not occur|no date|does not occur"),
    wait=120.0,
    code="schedule-invalid",
)
def thirtieth_of_february(scene: Scene) -> tuple[str, str]:
    return cron_job(
        scene,
        "leap-check",
        "30 6 30 2 *",
        more={"timeZone": "Europe/Berlin"},
        container=FAILS,
    )
