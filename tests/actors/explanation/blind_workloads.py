"""Blind scenarios of Services, rollouts and containers."""

from __future__ import annotations

from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    change_image,
    crashing_neighbour,
    event,
    pods_of,
    quota,
    report,
    scenario,
    service,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

WORKLOADS: list[BlindScenario] = []
ISSUES = "https://github.com/kubernetes/kubernetes/issues/"


# Services.


@scenario(
    WORKLOADS,
    "labels of pods were renamed",
    cause="The Service selects tier=frontend, but its pods have the label tier=web, so it selects no pod.",
    facts=("tier", "frontend"),
    code="service-no-pods",
)
def renamed_labels(scene: Scene) -> tuple[str, str]:
    workload(scene, "checkout", replicas=3, labels={"tier": "web"})
    workload(scene, "catalogue", replicas=2, labels={"tier": "frontend"})
    service(scene, "catalogue")
    return service(scene, "checkout", {"app": "checkout", "tier": "frontend"})


@scenario(
    WORKLOADS,
    "name of the target port has no match",
    cause="The Service's targetPort is named http, but the container's port is named web, so no endpoint has a port.",
    facts=("http", "targetport|target port"),
    code="target-port-missing",
)
def port_name(scene: Scene) -> tuple[str, str]:
    ports = [{"name": "web", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}]
    workload(scene, "storefront", replicas=2, container={"ports": ports})
    return service(scene, "storefront", target="http")


@scenario(
    WORKLOADS,
    "no pod of a Service passes its readiness probe",
    cause="Both pods of Deployment payments run but never pass their readiness probe, so the Service has no "
    "ready endpoint.",
    facts=("payments-", "ready"),
    code="readiness-probe",
)
def never_ready(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"path": "/healthz/ready", "port": 8080}, "periodSeconds": 5}
    workload(
        scene,
        "payments",
        replicas=2,
        annotations={"hollow.kcm.dev/ready": "false"},
        container={"readinessProbe": probe},
    )
    crashing_neighbour(scene, "report-mailer")
    return service(scene, "payments")


@scenario(
    WORKLOADS,
    "Deployment of a Service was scaled to zero and forgotten",
    cause="Deployment inventory, whose pods the Service selects, is scaled to 0, so there is no pod to send "
    "traffic to.",
    facts=("inventory", "scaled to 0|0 replicas|replicas is 0|replicas 0|replicas: 0|replicas=0|to zero"),
)
def scaled_to_zero(scene: Scene) -> tuple[str, str]:
    workload(scene, "inventory", replicas=2)
    service(scene, "inventory-api", {"app": "inventory"})
    scene.run(10.0)
    scene.merge("Deployment", "inventory", {"spec": {"replicas": 0}})
    return "Service", "inventory-api"


@scenario(
    WORKLOADS,
    "LoadBalancer without a cloud",
    cause="The Service is of type LoadBalancer, but nothing in this cluster provides load balancers, so its "
    "address stays pending.",
    facts=("load balancer|loadbalancer", "cloud|provider|controller|--cloud-provider"),
    code="load-balancer-missing",
)
def no_load_balancer(scene: Scene) -> tuple[str, str]:
    workload(scene, "edge-proxy", replicas=2)
    return service(scene, "edge-proxy", type="LoadBalancer")


# Rollouts.


@scenario(
    WORKLOADS,
    "tag of the new image does not exist",
    cause="The new version's image registry.corp.example/shop/api:v2.41.0 cannot be pulled, so the rollout "
    "does not go on.",
    facts=("registry.corp.example/shop/api:v2.41.0", "pull"),
    wait=120.0,
    code="image-pull",
)
def bad_tag(scene: Scene) -> tuple[str, str]:
    workload(scene, "api", replicas=3, container={"image": "registry.corp.example/shop/api:v2.40.3"})
    scene.run(20.0)
    change_image(
        scene, "Deployment", "api", "registry.corp.example/shop/api:v2.41.0", unpullable_images="*/shop/api:v2.41.0"
    )
    return "Deployment", "api"


@scenario(
    WORKLOADS,
    "anti-affinity leaves no node for the surge pod",
    cause="Each of the 3 nodes already runs an old pod, and required anti-affinity lets the surge pod of the "
    "rollout on none of them.",
    facts=("anti-affinity|antiaffinity", "node"),
    report=f"{ISSUES}116891",
    code="pod-affinity",
)
def anti_affinity_deadlock(scene: Scene) -> tuple[str, str]:
    term = {"labelSelector": {"matchLabels": {"app": "dns-cache"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workload(scene, "dns-cache", replicas=3, affinity=affinity)
    scene.run(20.0)
    change_image(scene, "Deployment", "dns-cache", "nginx:1.28")
    return "Deployment", "dns-cache"


@scenario(
    WORKLOADS,
    "rollout was paused and never resumed",
    cause="Deployment search is paused, so its new image is not rolled out.",
    facts=("paused", "search"),
    code="rollout-paused",
)
def paused(scene: Scene) -> tuple[str, str]:
    workload(scene, "search", replicas=3)
    scene.run(15.0)
    scene.merge("Deployment", "search", {"spec": {"paused": True}})
    change_image(scene, "Deployment", "search", "nginx:1.29")
    return "Deployment", "search"


@scenario(
    WORKLOADS,
    "StatefulSet does not apply its repaired template",
    cause="Pod ledger-0 still has the image of the broken revision and is never ready, and the StatefulSet "
    "waits for it before it applies the repaired template.",
    facts=("ledger-0", "ledger:9.9"),
    report=f"{ISSUES}67250",
    wait=90.0,
    added=(
        "template|revision|up to date|update",
        "delete",
    ),
)
def repaired_template(scene: Scene) -> tuple[str, str]:
    bad = {"hollow.kcm.dev/unpullable-images": "*ledger:9.9"}
    image = "registry.corp.example/bank/ledger"
    workload(scene, "ledger", "StatefulSet", replicas=2, annotations=bad, container={"image": f"{image}:9.9"})
    scene.run(60.0)
    change_image(scene, "StatefulSet", "ledger", f"{image}:9.8")
    return "StatefulSet", "ledger"


@scenario(
    WORKLOADS,
    "Recreate waits for a pod that takes an hour to stop",
    cause="The strategy Recreate waits until the old pod is gone, which is terminating with a grace period of 3600 s.",
    facts=("legacy-erp-", "terminating|being deleted|stop", "3600|1h|60m"),
)
def slow_recreate(scene: Scene) -> tuple[str, str]:
    workload(
        scene,
        "legacy-erp",
        more={"strategy": {"type": "Recreate"}},
        annotations={"hollow.kcm.dev/terminate-after-seconds": "3500"},
        terminationGracePeriodSeconds=3600,
    )
    scene.run(15.0)
    change_image(scene, "Deployment", "legacy-erp", "nginx:1.28")
    return "Deployment", "legacy-erp"


@scenario(
    WORKLOADS,
    "quota has no room for the surge pod",
    cause="ResourceQuota compute allows 3 pods, all of which are old ones, so the rollout cannot create its surge pod.",
    facts=("compute", "pods", "3"),
    code="quota-exceeded",
)
def quota_stops_surge(scene: Scene) -> tuple[str, str]:
    quota(scene, "compute", pods="3")
    scene.run(3.0)
    workload(scene, "gateway", replicas=3, more={"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})
    scene.run(15.0)
    change_image(scene, "Deployment", "gateway", "nginx:1.28")
    return "Deployment", "gateway"


# Containers.


@scenario(
    WORKLOADS,
    "liveness probe kills a slow starter",
    cause="The application needs 90 s to start, but its liveness probe kills the container after about 40 s, "
    "again and again.",
    facts=("liveness", "importer"),
    wait=300.0,
    code="startup-probe|crash-loop",
)
def slow_start(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"path": "/actuator/health", "port": 8080}, "initialDelaySeconds": 10, "periodSeconds": 10}
    return workload(
        scene,
        "importer",
        annotations={"hollow.kcm.dev/start-seconds": "90"},
        container={"livenessProbe": probe, "readinessProbe": probe},
    )


@scenario(
    WORKLOADS,
    "container exceeds its memory limit",
    cause="The container of Deployment thumbnailer is killed for exceeding its memory limit of 256Mi "
    "(OOMKilled, exit code 137).",
    facts=("oomkilled|out of memory", "256mi|memory"),
    flags=BY_HAND,
    code="out-of-memory",
)
def out_of_memory(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-oom")
    limits = {"limits": {"memory": "256Mi"}, "requests": {"memory": "128Mi"}}
    workload(scene, "thumbnailer", container={"resources": limits}, **pool)
    scene.run(10.0)
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    message = "back-off 2m40s restarting failed container=main pod=thumbnailer"
    (pod,) = pods_of(scene, "thumbnailer")
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    report(scene, pod, {"restartCount": 6, "state": waits, "lastState": ended}, phase="Running")
    event(scene, pod, "BackOff", "Back-off restarting failed container main in pod thumbnailer", count=31)
    return "Deployment", "thumbnailer"


@scenario(
    WORKLOADS,
    "ConfigMap of an environment was not deployed",
    cause="The container takes its environment from ConfigMap billing-config, which does not exist.",
    facts=("billing-config", "not found|does not exist|missing"),
    flags=BY_HAND,
    code="config-missing",
)
def missing_config(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-config")
    scene.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "billing-config-v1"}, "data": {"A": "1"}}
    )
    source = {"envFrom": [{"configMapRef": {"name": "billing-config"}}]}
    workload(scene, "billing", replicas=2, container=source, **pool)
    scene.run(10.0)
    why = 'configmap "billing-config" not found'
    for pod in pods_of(scene, "billing"):
        report(scene, pod, {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": why}}})
        event(scene, pod, "Failed", f"Error: {why}", count=12)
    return "Deployment", "billing"


@scenario(
    WORKLOADS,
    "Secret lacks a key",
    cause="The container needs the key DB_PASSWORD of Secret orders-db, which has only the keys username and password.",
    facts=("orders-db", "DB_PASSWORD"),
    flags=BY_HAND,
    code="config-missing",
)
def missing_key(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-secret")
    data = {"username": "b3JkZXJz", "password": "aHVudGVyMg=="}
    scene.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders-db"}, "data": data})
    source = {"secretKeyRef": {"name": "orders-db", "key": "DB_PASSWORD"}}
    workload(scene, "orders", "StatefulSet", container={"env": [{"name": "PGPASSWORD", "valueFrom": source}]}, **pool)
    scene.run(10.0)
    (pod,) = pods_of(scene, "orders")
    why = f"couldn't find key DB_PASSWORD in Secret {scene.namespace}/orders-db"
    report(scene, pod, {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": why}}})
    event(scene, pod, "Failed", f"Error: {why}", count=7)
    return "StatefulSet", "orders"


@scenario(
    WORKLOADS,
    "registry refuses the pull because the pull secret is missing",
    cause="The image of Deployment ml-scoring cannot be pulled, because its imagePullSecret regcred does not "
    "exist in the namespace.",
    facts=("regcred|authorization|pull access denied", "ml-scoring|ghcr.io/acme/scoring"),
    flags=BY_HAND,
    code="image-pull|config-missing",
)
def pull_secret(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-pull")
    image = "ghcr.io/acme/scoring:3.2.0"
    secrets = [{"name": "regcred"}]
    workload(scene, "ml-scoring", container={"image": image}, imagePullSecrets=secrets, **pool)
    scene.run(10.0)
    (pod,) = pods_of(scene, "ml-scoring")
    denied = f'failed to pull and unpack image "{image}": failed to authorize: failed to fetch anonymous token: 401'
    message = f'Back-off pulling image "{image}": ErrImagePull: {denied} Unauthorized'
    report(scene, pod, {"state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}})
    event(
        scene,
        pod,
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
        count=9,
    )
    event(scene, pod, "Failed", f'Failed to pull image "{image}": {denied} Unauthorized', count=4)
    return "Deployment", "ml-scoring"


@scenario(
    WORKLOADS,
    "init container waits for a database for ever",
    cause="The init container wait-for-postgres never ends, so the other containers do not start.",
    facts=("wait-for-postgres", "init container"),
    wait=900.0,
    code="init-container",
)
def endless_init(scene: Scene) -> tuple[str, str]:
    waits = {"name": "wait-for-postgres", "image": "busybox:1.36"}
    waits["command"] = ["sh", "-c", "while true; do nslookup postgres.data; sleep 2; done"]
    return workload(scene, "ticketing", replicas=2, initContainers=[waits])
