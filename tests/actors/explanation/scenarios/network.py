"""Services, Ingresses, autoscalers and budgets."""

from __future__ import annotations

from typing import Any

from kcm.actors.explanation.networking import INGRESS_CLASSES
from kcm.actors.simulation.metrics_server import metrics_server
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import PODS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.explanation.scenario import Scenario, Scene
from tests.actors.explanation.scenarios.batch import ENDLESS, job_spec

HOLLOW = "hollow.kcm.dev"
READINESS = {"httpGet": {"port": 80}, "periodSeconds": 5}


def service(scene: Scene, name: str, selector: dict[str, str], **spec: Any) -> tuple[str, str]:
    ports = spec.pop("ports", [{"port": 80}])
    body = {"selector": selector, "ports": ports, **spec}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body})
    return "Service", name


def no_pods(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="Deployment", replicas=2)
    return service(scene, "web", {"app": scene.chance.choice(("wbe", "Web", "shop"))})


def pods_not_ready(scene: Scene) -> tuple[str, str]:
    annotations = {f"{HOLLOW}/ready": "false"}
    scene.pod_owner("web", container={"readinessProbe": READINESS}, annotations=annotations)
    return service(scene, "web", {"app": "web"})


def target_port(scene: Scene) -> tuple[str, str]:
    ports = [{"containerPort": 8080, "name": "http"}]
    scene.pod_owner("web", container={"ports": ports})
    return service(scene, "web", {"app": "web"}, ports=[{"port": 80, "targetPort": "web"}])


def no_slices(scene: Scene) -> tuple[str, str]:
    labels = scene.chance.choice(({}, {"kubernetes.io/service-name": "absent"}))
    slice_ = {"metadata": {"name": "external-1", "labels": labels}, "addressType": "IPv4", "endpoints": []}
    scene.apply({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **slice_})
    spec = {"ports": [{"port": 80}]}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "external"}, "spec": spec})
    return "Service", "external"


def load_balancer(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web")
    return service(scene, "web", {"app": "web"}, type="LoadBalancer")


def load_balancer_class(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web")
    return service(scene, "web", {"app": "web"}, type="LoadBalancer", loadBalancerClass="example.com/lb")


def ingress(scene: Scene, name: str, backend: str, **fields: Any) -> tuple[str, str]:
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": backend, "port": {"number": 80}}}}
    spec = {"rules": [{"host": f"{name}.example.com", "http": {"paths": [path]}}], **fields}
    scene.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name}, "spec": spec})
    return "Ingress", name


def backend(scene: Scene) -> tuple[str, str]:
    return ingress(scene, "shop", "absent")


def ingress_class(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="Deployment")
    service(scene, "web", {"app": "web"})
    return ingress(scene, "web", "web", ingressClassName=scene.chance.choice(("absent", "ngnix")))


def no_class(scene: Scene) -> tuple[str, str]:
    """Create an Ingress without a class in a cluster with a class that is not the default one."""
    scene.create(INGRESS_CLASSES, f"{scene.namespace}-web", {"spec": {"controller": "example.com/web"}})
    scene.pod_owner("web", kind="Deployment")
    service(scene, "web", {"app": "web"})
    return ingress(scene, "web", "web")


# Autoscalers and budgets.


def autoscaler(
    scene: Scene, name: str, *, target: str = "", most: int = 5, kind: str = "Deployment"
) -> tuple[str, str]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target or name},
        "minReplicas": 1,
        "maxReplicas": most,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    own = "HorizontalPodAutoscaler"
    scene.apply({"apiVersion": "autoscaling/v2", "kind": own, "metadata": {"name": name}, "spec": spec})
    return own, name


def serve_metrics(scene: Scene, cpu: str) -> None:
    metrics_server(scene.cluster).cpu = lambda _pod: cpu


def requests(cpu: str = "100m") -> Object:
    return {"resources": {"requests": {"cpu": cpu}}}


def no_target(scene: Scene) -> tuple[str, str]:
    return autoscaler(scene, "web")


def no_metrics_api(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="Deployment", container=requests())
    return autoscaler(scene, "web")


def no_scale(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="DaemonSet", container=requests())
    return autoscaler(scene, "web", kind="DaemonSet")


def no_metrics(scene: Scene) -> tuple[str, str]:
    metrics_server(scene.cluster).cpu = lambda _pod: None
    scene.pod_owner("web", kind="Deployment", container=requests())
    return autoscaler(scene, "web")


def no_requests(scene: Scene) -> tuple[str, str]:
    serve_metrics(scene, "50m")
    scene.pod_owner("web", kind="Deployment", replicas=scene.chance.randint(1, 3))
    return autoscaler(scene, "web")


def at_most(scene: Scene) -> tuple[str, str]:
    serve_metrics(scene, "500m")
    scene.pod_owner("web", kind="Deployment", container=requests())
    return autoscaler(scene, "web", most=scene.chance.randint(2, 4))


def two_autoscalers(scene: Scene) -> tuple[str, str]:
    serve_metrics(scene, "50m")
    scene.pod_owner("web", kind="Deployment", container=requests())
    autoscaler(scene, "other", target="web")
    return autoscaler(scene, "web")


def zero(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="Deployment", replicas=0, container=requests())
    return autoscaler(scene, "web")


def budget(scene: Scene, name: str, **limit: Any) -> tuple[str, str]:
    spec = {"selector": {"matchLabels": {"app": name}}, **limit}
    kind = "PodDisruptionBudget"
    scene.apply({"apiVersion": "policy/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return kind, name


def uncounted(scene: Scene) -> tuple[str, str]:
    """Protect pods of an owner without a scale: of a Job or a ConfigMap."""
    if scene.chance.random() < 0.5:
        spec = job_spec("web", ENDLESS, parallelism=2)
        scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec})
    else:
        owner = scene.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner), "controller": True}
        spec = {"containers": [{"name": "main", "image": "nginx:1.27"}]}
        metadata = {"name": "web", "labels": {"app": "web"}, "ownerReferences": [reference]}
        scene.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return budget(scene, "web", maxUnavailable=1)


def all_required(scene: Scene) -> tuple[str, str]:
    replicas = scene.chance.randint(1, 3)
    scene.pod_owner("web", kind="Deployment", replicas=replicas)
    return budget(scene, "web", minAvailable=replicas)


def unhealthy_budget(scene: Scene) -> tuple[str, str]:
    annotations = {f"{HOLLOW}/ready": "false"}
    scene.pod_owner(
        "web", kind="ReplicaSet", replicas=3, container={"readinessProbe": READINESS}, annotations=annotations
    )
    return budget(scene, "web", minAvailable=2)


def drain(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind="Deployment", replicas=3)
    budget(scene, "web", maxUnavailable=0)
    scene.run(30.0)
    pods = scene.cluster.list(PODS, scene.namespace)
    node = next(pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith("web"))
    scene.merge("Node", node, {"spec": {"unschedulable": True}})
    return "Node", node


SCENARIOS = (
    Scenario(name="service selects no pods", code="service-no-pods", act=no_pods),
    Scenario(
        name="pods of a service are not ready",
        code="readiness-probe",
        further=("endpoints-not-ready",),
        act=pods_not_ready,
    ),
    Scenario(name="target port has no such name", code="target-port-missing", act=target_port),
    Scenario(name="slice of a service without a selector names another", code="endpoints-missing", act=no_slices),
    Scenario(name="no cloud creates load balancers", code="load-balancer-missing", act=load_balancer),
    Scenario(
        name="class of the load balancer has no controller", code="load-balancer-missing", act=load_balancer_class
    ),
    Scenario(
        name="cloud cannot create the load balancer",
        code="load-balancer-failed",
        act=load_balancer,
        flags=("--cloud-provider=fake",),
        stage={
            "cloud": True,
            "faults": (Fault(kind=FaultKind.CALL_ANSWERED, status=500, resource="loadbalancers"),),
        },
        alone=True,
    ),
    Scenario(name="backend of an ingress does not exist", code="backend-missing", act=backend),
    Scenario(name="class of an ingress does not exist", code="ingress-class-missing", act=ingress_class),
    Scenario(name="ingress has no class", code="ingress-unclassed", act=no_class),
    Scenario(name="target of an autoscaler does not exist", code="scale-target-missing", act=no_target),
    Scenario(
        name="no metrics server is installed", code="metrics-unavailable", act=no_metrics_api, wait=120.0, alone=True
    ),
    Scenario(name="target of an autoscaler has no scale", code="scale-failed", act=no_scale),
    Scenario(name="pods have no metrics", code="metrics-missing", act=no_metrics, wait=200.0, alone=True),
    Scenario(
        name="pods have no requests to compare with", code="requests-missing", act=no_requests, wait=120.0, alone=True
    ),
    Scenario(name="autoscaler is at its maximum", code="autoscaler-limit", act=at_most, wait=300.0, alone=True),
    Scenario(
        name="two autoscalers select the same pods",
        code="selector-overlap",
        act=two_autoscalers,
        wait=120.0,
        alone=True,
    ),
    Scenario(name="target of an autoscaler has no replicas", code="autoscaling-disabled", act=zero),
    Scenario(name="budget requires all pods", code="budget-allows-none", act=all_required, wait=100.0),
    Scenario(name="pods of a budget cannot be counted", code="budget-not-computed", act=uncounted),
    Scenario(
        name="pods of a budget are not ready",
        code="readiness-probe",
        further=("budget-unhealthy",),
        act=unhealthy_budget,
        wait=100.0,
    ),
    Scenario(name="budget keeps a node from being drained", code="drain-blocked", act=drain, alone=True),
)
