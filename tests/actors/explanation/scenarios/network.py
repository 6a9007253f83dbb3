"""Services, Ingresses, autoscalers and budgets."""

from __future__ import annotations

from typing import Any

from kcm.actors.simulation.metrics_server import metrics_server
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from tests.actors.explanation.scenario import Scenario, Scene

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


def load_balancer(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web")
    return service(scene, "web", {"app": "web"}, type="LoadBalancer")


def load_balancer_class(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web")
    return service(scene, "web", {"app": "web"}, type="LoadBalancer", loadBalancerClass="example.com/lb")


def backend(scene: Scene) -> tuple[str, str]:
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "absent", "port": {"number": 80}}}}
    spec = {"rules": [{"host": "shop.example.com", "http": {"paths": [path]}}]}
    scene.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"}, "spec": spec})
    return "Ingress", "shop"


# Autoscalers and budgets.


def autoscaler(scene: Scene, name: str, *, target: str = "", most: int = 5) -> tuple[str, str]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name},
        "minReplicas": 1,
        "maxReplicas": most,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    kind = "HorizontalPodAutoscaler"
    scene.apply({"apiVersion": "autoscaling/v2", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return kind, name


def serve_metrics(scene: Scene, cpu: str) -> None:
    metrics_server(scene.cluster).cpu = lambda _pod: cpu


def requests(cpu: str = "100m") -> Object:
    return {"resources": {"requests": {"cpu": cpu}}}


def no_target(scene: Scene) -> tuple[str, str]:
    return autoscaler(scene, "web")


def no_metrics_api(scene: Scene) -> tuple[str, str]:
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
    Scenario(name="pods of a service are not ready", code="readiness-probe", act=pods_not_ready),
    Scenario(name="target port has no such name", code="target-port-missing", act=target_port),
    Scenario(name="no cloud creates load balancers", code="load-balancer-missing", act=load_balancer),
    Scenario(
        name="class of the load balancer has no controller", code="load-balancer-missing", act=load_balancer_class
    ),
    Scenario(name="backend of an ingress does not exist", code="backend-missing", act=backend),
    Scenario(name="target of an autoscaler does not exist", code="scale-target-missing", act=no_target),
    Scenario(
        name="no metrics server is installed", code="metrics-unavailable", act=no_metrics_api, wait=120.0, alone=True
    ),
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
    Scenario(name="pods of a budget are not ready", code="readiness-probe", act=unhealthy_budget, wait=100.0),
    Scenario(name="budget keeps a node from being drained", code="drain-blocked", act=drain, alone=True),
)
