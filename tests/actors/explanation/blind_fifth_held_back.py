"""Blind scenarios of the third blind trial that are scored before and after the corrections."""

from __future__ import annotations

from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    annotate,
    budget,
    claim,
    ended,
    event,
    ingress,
    job,
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

FIFTH_HELD_BACK: list[BlindScenario] = []


@scenario(
    FIFTH_HELD_BACK,
    "training job does not tolerate the taint of the GPU node",  # distraction: the other nodes do not match
    cause="Only hollow-node-2 has the label that the pod demands, and its taint nvidia.com/gpu is not tolerated.",
    facts=("nvidia.com/gpu", "taint|tolerat"),
    alone=True,
    wait=120.0,
    report="https://notes.darshanraul.me/Kubernetes/concepts/L08-operations/03-common-failure-modes",
)
def gpu_taint(scene: Scene) -> tuple[str, str]:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    labels = {"accelerator": "nvidia-l4"}
    scene.merge("Node", "hollow-node-2", {"metadata": {"labels": labels}, "spec": {"taints": [taint]}})
    scene.run(3.0)
    return job(scene, "fine-tune", nodeSelector=labels, container={"image": "acme/fine-tune:0.4"})


@scenario(
    FIFTH_HELD_BACK,
    "all nodes are cordoned after an upgrade",  # distraction: the two old pods are ready
    cause="All 3 nodes are still cordoned, so the new pods are not scheduled.",
    facts=("cordon|were unschedulable|are unschedulable|spec.unschedulable", "3 node|3 of 3|all nodes|hollow-node-0"),
    alone=True,
    wait=90.0,
    report="https://koti.dev/posts/pod-stuck-pending",
)
def cordoned_nodes(scene: Scene) -> tuple[str, str]:
    workload(scene, "checkout", replicas=2)
    scene.run(20.0)
    for number in range(3):
        scene.merge("Node", f"hollow-node-{number}", {"spec": {"unschedulable": True}})
    scene.run(3.0)
    scene.merge("Deployment", "checkout", {"spec": {"replicas": 5}})
    return "Deployment", "checkout"


@scenario(
    FIFTH_HELD_BACK,
    "service account has no permission",  # distraction: the service account exists, and the container only exits with 1
    cause="The operator exits with 1, because its ServiceAccount stock-reader may not list deployments.",
    facts=("forbidden|cannot list|rbac|permission", "stock-reader", "deployments"),
    flags=BY_HAND,
    report="https://blog.samarthya.me/wps/?p=2148",
)
def missing_permission(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-operators")
    scene.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stock-reader"}})
    container = {"image": "acme/inventory-operator:1.8", "terminationMessagePolicy": "FallbackToLogsOnError"}
    workload(scene, "inventory-operator", serviceAccountName="stock-reader", container=container, **pool)
    scene.run(10.0)
    (pod,) = pods_of(scene, "inventory-operator")
    name = pod["metadata"]["name"]
    message = (
        f'deployments.apps is forbidden: User "system:serviceaccount:{scene.namespace}:stock-reader" cannot list '
        'resource "deployments" in API group "apps" at the cluster scope\n'
    )
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off 5m0s restarting failed container=main pod={name}"}
    over = ended(scene, 1, "Error", message=f"starting manager\n{message}")
    status = {"state": {"waiting": waiting}, "lastState": {"terminated": over}, "restartCount": 14, "started": False}
    report(scene, pod, status, phase="Running")
    event(scene, pod, "BackOff", f"Back-off restarting failed container main in pod {name}", count=61)
    return "Deployment", "inventory-operator"


@scenario(
    FIFTH_HELD_BACK,
    "readiness probe asks the wrong port",  # distraction: the pods run without a restart, and an Ingress names them
    cause="The readiness probe of both pods fails (it asks port 8081), so the Service has no ready endpoint.",
    facts=("search-|deployment search|deployment/search", "readiness"),
    wait=150.0,
    report="https://resolve.ai/glossary/Kubernetes-Service-503-errors",
)
def wrong_probe(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"path": "/ready", "port": 8081}, "periodSeconds": 5}
    container = {"image": "acme/search:9", "ports": [{"containerPort": 8080}], "readinessProbe": probe}
    unready = {"hollow.kcm.dev/unready-after-seconds": "20"}
    workload(scene, "search", replicas=2, annotations=unready, container=container)
    ingress(scene, "search", "search", 80)
    return service(scene, "search")


@scenario(
    FIFTH_HELD_BACK,
    "claim was deleted and created again",  # distraction: size, class and access mode of the volume fit
    cause="Volume vol-0a93 is Released: its claimRef still names the deleted claim, so the new one cannot bind to it.",
    facts=("vol-0a93", "released|claimref|different claim|another claim|deleted claim|previous claim|earlier claim"),
    wait=90.0,
    report="https://docs.crud-in-the.cloud/reference/orchestration/storage-gotchas/",
)
def released_volume(scene: Scene) -> tuple[str, str]:
    static_volume(scene, "vol-0a93", "50Gi", storageClassName="cold")
    claim(scene, "metrics-db", "50Gi", storageClassName="cold", volumeName="vol-0a93")
    scene.run(20.0)
    scene.delete("PersistentVolumeClaim", "metrics-db")
    scene.run(20.0)
    return claim(scene, "metrics-db", "50Gi", storageClassName="cold", volumeName="vol-0a93")


@scenario(
    FIFTH_HELD_BACK,
    "job exceeds the limit range",  # distraction: there is also a quota, which has room
    cause="The limit of 8Gi of memory exceeds the maximum of 2Gi per container of LimitRange dev-limits, so the pod of "
    "the Job is refused.",
    facts=("8Gi", "2Gi", "memory"),
    wait=90.0,
    report="https://www.fixdevs.com/blog/kubernetes-resource-quota-exceeded/",
)
def limit_range(scene: Scene) -> tuple[str, str]:
    quota(scene, "dev-quota", pods="20", limits_memory="64Gi")
    limits = {"limits": [{"type": "Container", "max": {"memory": "2Gi"}}]}
    scene.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "dev-limits"}, "spec": limits})
    scene.run(3.0)
    return job(scene, "reindex", container={"resources": {"limits": {"memory": "8Gi"}}})


@scenario(
    FIFTH_HELD_BACK,
    "port of the backend does not exist",  # distraction: the Service and its pods are fine
    cause="The Ingress names port 3000 of Service docs, which has only port 80.",
    facts=("3000", "port"),
    report="https://stackengine.dev/ingress-502-backend-port-mismatch-nginx",
)
def backend_port(scene: Scene) -> tuple[str, str]:
    workload(scene, "docs", replicas=2, container={"ports": [{"containerPort": 3000}]})
    service(scene, "docs", target=3000)
    return ingress(scene, "docs-site", "docs", 3000)


@scenario(
    FIFTH_HELD_BACK,
    "proxy keeps a job from completing",  # distraction: the main container has succeeded
    cause="The main container has ended with 0, but the container istio-proxy of the pod still runs, so the Job is "
    "never complete.",
    facts=("istio-proxy", "running|runs|still"),
    wait=900.0,
    report="https://medium.com/redbox-techblog/handling-istio-sidecars-in-kubernetes-jobs-c392661c4af7",
)
def endless_proxy(scene: Scene) -> tuple[str, str]:
    export = {"name": "export", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 20; exit 0"]}
    proxy = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.24.1", "args": ["proxy", "sidecar"]}
    endless = {"istio-proxy.hollow.kcm.dev/run-seconds": "1000000"}
    return job(scene, "export-invoices", annotations=endless, containers=[export, proxy])


@scenario(
    FIFTH_HELD_BACK,
    "disruption budget demands all replicas",  # distraction: all pods are ready, and a node is cordoned for its drain
    cause="minAvailable is 3 and Deployment api-gateway has exactly 3 pods, so no pod may ever be evicted.",
    facts=("3", "minavailable|evict|disruption"),
    alone=True,
    wait=60.0,
    report="https://devopsboys.com/blog/kubernetes-pdb-blocking-node-drain-fix-2026",
)
def strict_budget(scene: Scene) -> tuple[str, str]:
    workload(scene, "api-gateway", replicas=3)
    budget(scene, "api-gateway", {"app": "api-gateway"}, minAvailable=3)
    scene.run(20.0)
    node = pods_of(scene, "api-gateway")[0]["spec"]["nodeName"]
    scene.merge("Node", node, {"spec": {"unschedulable": True}})
    return "PodDisruptionBudget", "api-gateway"


@scenario(
    FIFTH_HELD_BACK,
    "container runtime of a node is down",  # distraction: its kubelet sends heartbeats
    cause="The kubelet of hollow-node-1 reports that its container runtime is down, so the node is not ready.",
    facts=("hollow-node-1", "container runtime"),
    alone=True,
    wait=120.0,
    report="https://parium.ai/blog/kubernetes-node-pressure-triage",
)
def runtime_down(scene: Scene) -> tuple[str, str]:
    workload(scene, "billing-api", replicas=3)
    scene.run(10.0)
    annotate(scene, "Node", "hollow-node-1", ready="false")
    return "Node", "hollow-node-1"
