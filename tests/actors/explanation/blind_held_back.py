"""Blind scenarios of the second blind trial that are scored before and after the corrections."""

from __future__ import annotations

from kcm.actors.engine.webhooks.configurations import MUTATING_CONFIGURATIONS
from kcm.protocols.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES
from kcm.runtime.apiserver.core.questions import Answer, Post, Question, call_no_webhook
from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    annotate,
    budget,
    job,
    pods_of,
    quota,
    scenario,
    service,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

HELD_BACK_OTHERS: list[BlindScenario] = []
INJECTOR = "https://injector.mesh.example.com:8443/inject"


@scenario(
    HELD_BACK_OTHERS,
    "preempted pod takes an hour to stop",
    cause="The node is nominated, and pod sweep, which was preempted, is still stopping.",
    facts=("sweep", "terminat|stop|grace|being deleted|deleting|to end"),
    flags=BY_HAND,
    code="preempting",
)
def slow_victim(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "solver-lab")
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    scene.apply({**kind, "metadata": {"name": "batch-urgent"}, "value": 1000000})
    wanted = {"image": "nginx:1.27", "resources": {"requests": {"cpu": "6"}}}
    workload(scene, "sweep", "StatefulSet", terminationGracePeriodSeconds=3600, container=wanted, **pool)
    scene.run(10.0)
    return job(scene, "solve", priorityClassName="batch-urgent", container=wanted, **pool)


@scenario(
    HELD_BACK_OTHERS,
    "budget demands more pods than its Deployment has",
    cause="Budget checkout demands 3 healthy pods, and Deployment checkout was scaled down to 2.",
    facts=("3", "2", "minAvailable|required|requires|demands|desired|needs|at least"),
    code="budget-allows-none",
)
def small_deployment(scene: Scene) -> tuple[str, str]:
    workload(scene, "checkout", replicas=4)
    budget(scene, "checkout", {"app": "checkout"}, minAvailable=3)
    scene.run(20.0)
    scene.merge("Deployment", "checkout", {"spec": {"replicas": 2}})
    return "PodDisruptionBudget", "checkout"


@scenario(
    HELD_BACK_OTHERS,
    "Job is managed by a program that is not installed",
    cause="The Job is left to kueue.x-k8s.io/multikueue (managedBy), which does nothing.",
    facts=("kueue.x-k8s.io/multikueue", "managedBy|another controller|other controller|managed by|manages"),
    code="managed-elsewhere",
)
def managed_by(scene: Scene) -> tuple[str, str]:
    return job(scene, "render", more={"managedBy": "kueue.x-k8s.io/multikueue"})


@scenario(
    HELD_BACK_OTHERS,
    "two autoscalers have the same target",
    cause="Autoscalers cart-cpu and cart-keda control the same pods, so neither scales them.",
    facts=("cart-keda", "cart-cpu", "same|both|multiple|two|ambiguous|also|another|more than one"),
    wait=90.0,
    report="https://github.com/kedacore/keda/issues/5825",
    code="selector-overlap",
)
def two_autoscalers(scene: Scene) -> tuple[str, str]:
    workload(scene, "cart", replicas=2, container={"resources": {"requests": {"cpu": "100m"}}})
    kind = "HorizontalPodAutoscaler"
    for name in ("cart-cpu", "cart-keda"):
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
        spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 6}
        scene.apply({"apiVersion": "autoscaling/v2", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return kind, "cart-cpu"


@scenario(
    HELD_BACK_OTHERS,
    "load balancer has a class without a controller",
    cause="Load balancers of class internal.example.com/vip are left to another controller, which is not installed.",
    facts=("internal.example.com/vip", "class"),
    flags=("--cloud-provider=fake",),
    stage={"cloud": True},
    code="load-balancer-missing",
)
def load_balancer_class(scene: Scene) -> tuple[str, str]:
    workload(scene, "intranet", container={"ports": [{"containerPort": 8080}]})
    return service(scene, "intranet", type="LoadBalancer", loadBalancerClass="internal.example.com/vip")


@scenario(
    HELD_BACK_OTHERS,
    "empty namespace has the finalizer of a management server",
    cause="The namespace is empty and keeps the finalizer controller.cattle.io/namespace-auth of its metadata.",
    facts=("controller.cattle.io/namespace-auth", "finalizer"),
    report="https://github.com/rancher/rancher/issues/14715",
    code="finalizer",
)
def finalizer_of_namespace(scene: Scene) -> tuple[str, str]:
    meta = {"name": "team-atlas", "finalizers": ["controller.cattle.io/namespace-auth"]}
    scene.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    scene.run(5.0)
    scene.delete("Namespace", "team-atlas")
    return "Namespace", "team-atlas"


@scenario(
    HELD_BACK_OTHERS,
    "Deployment is deleted in the foreground, and one pod has a finalizer",
    cause="The Deployment waits for its ReplicaSet, and that for a pod with finalizer audit.example.com/archive.",
    facts=("audit.example.com/archive", "billing-", "finalizer"),
    code="finalizer",
)
def foreground_deletion(scene: Scene) -> tuple[str, str]:
    workload(scene, "billing", replicas=2)
    scene.run(20.0)
    pod = pods_of(scene, "billing")[0]["metadata"]["name"]
    scene.merge("Pod", pod, {"metadata": {"finalizers": ["audit.example.com/archive"]}})
    scene.delete("Deployment", "billing", policy="Foreground")
    return "Deployment", "billing"


@scenario(
    HELD_BACK_OTHERS,
    "certificate of a mutating webhook has expired",
    cause="The pods are refused, because the certificate of webhook inject.mesh.example.com has expired.",
    facts=("inject.mesh.example.com", "expired"),
    untrue=("does not respond",),
    alone=True,
    report="https://github.com/rancher/rancher/issues/41776",
    code="webhook-unavailable",
)
def expired_certificate(scene: Scene) -> tuple[str, str]:
    def expired(question: Question) -> Answer:
        if not isinstance(question, Post):
            return call_no_webhook(question)
        why = "x509: certificate has expired or is not yet valid"
        return Answer(error=f'Post "{question.url}": tls: failed to verify certificate: {why}')

    scene.cluster.webhooks.otherwise = expired
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "inject.mesh.example.com",
        "clientConfig": {"url": INJECTOR},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    scene.create(MUTATING_CONFIGURATIONS, "mesh-injector", {"webhooks": [webhook]})
    scene.run(2.0)
    return workload(scene, "log-agent", "DaemonSet")


@scenario(
    HELD_BACK_OTHERS,
    "quota was raised, and the next attempt is minutes away",
    cause="Quota team-cap has room again since a moment, and the ReplicaSet backs off until its next attempt.",
    facts=("team-cap|quota", "retr|next attempt|back off|backing off|backoff|attempt|tries again"),
    wait=4.0,
    code="quota-exceeded",
)
def repaired_quota(scene: Scene) -> tuple[str, str]:
    quota(scene, "team-cap", pods="1")
    scene.run(5.0)
    workload(scene, "payments", replicas=3)
    scene.run(300.0)
    scene.merge("ResourceQuota", "team-cap", {"spec": {"hard": {"pods": "10"}}})
    return "Deployment", "payments"


@scenario(
    HELD_BACK_OTHERS,
    "taint of an outage was not removed after the repair",
    cause="Node hollow-node-1 is ready again and still has the taint node.kubernetes.io/out-of-service.",
    facts=("hollow-node-1", "out-of-service"),
    alone=True,
    report="https://github.com/medik8s/self-node-remediation/issues/17",
    code="untolerated-taint",
)
def forgotten_taint(scene: Scene) -> tuple[str, str]:
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    scene.merge("Node", "hollow-node-1", {"spec": {"taints": [taint]}})
    scene.run(5.0)
    return workload(scene, "pos-terminal", nodeSelector={"kubernetes.io/hostname": "hollow-node-1"})


@scenario(
    HELD_BACK_OTHERS,
    "no device has the model that a claim selects",
    cause="The claim of the Job selects devices of model H100, and all devices are of model A100.",
    facts=("H100", "device", "select|match|no device|cannot be allocated|not allocated|satisf"),
    stage={"devices": True},
    alone=True,
    code="device-unavailable",
)
def wrong_model(scene: Scene) -> tuple[str, str]:
    pools = '[{"driver": "gpu.example.com", "count": 2, "attributes": {"model": "A100"}}]'
    annotate(scene, "Node", "hollow-node-0", devices=pools)
    selects = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    scene.create(DEVICE_CLASSES, "gpu.example.com", {"spec": {"selectors": [selects]}})
    model = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "H100"'}}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "selectors": [model]}}
    scene.create(RESOURCE_CLAIM_TEMPLATES, "trainer-gpu", {"spec": {"spec": {"devices": {"requests": [request]}}}})
    scene.run(5.0)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "trainer-gpu"}]
    return job(scene, "train", resourceClaims=claims, container={"resources": {"claims": [{"name": "gpu"}]}})


@scenario(
    HELD_BACK_OTHERS,
    "pod cannot be resized to more than its node has",
    cause="The resize of the pod to 500 CPUs is infeasible, because its node has fewer.",
    facts=("resize", "500", "32"),
    code="resize-pending",
)
def infeasible_resize(scene: Scene) -> tuple[str, str]:
    container = {"name": "main", "image": "redis:7", "resources": {"requests": {"cpu": "100m"}}}
    meta = {"name": "session-cache", "labels": {"app": "session-cache"}}
    scene.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
    scene.run(15.0)
    wanted = {"name": "main", "image": "redis:7", "resources": {"requests": {"cpu": "500"}}}
    scene.merge("Pod", "session-cache", {"spec": {"containers": [wanted]}}, subresource="resize")
    return "Pod", "session-cache"
