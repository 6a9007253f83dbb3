"""Chains: an object waits for another, which waits for a third."""

from __future__ import annotations

from kcm.protocols.objects import Object
from tests.actors.explanation.scenario import Scenario, Scene
from tests.actors.explanation.scenarios.batch import FAILING, cron_spec, job_spec
from tests.actors.explanation.scenarios.network import autoscaler, requests, serve_metrics, service
from tests.actors.explanation.scenarios.storage import claim, user

LARGE: Object = {"resources": {"requests": {"cpu": "900"}}}


def claims_without_class(scene: Scene) -> tuple[str, str]:
    kind, name = "StatefulSet", "db"
    data = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "absent",
    }
    container = {"name": "main", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": data}],
    }
    scene.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return kind, name


def service_of_pending(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind=scene.chance.choice(("Deployment", "StatefulSet")), container=LARGE)
    return service(scene, "web", {"app": "web"})


def ingress_without_pods(scene: Scene) -> tuple[str, str]:
    service(scene, "web", {"app": "absent"})
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    spec = {"defaultBackend": backend}
    scene.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"}, "spec": spec})
    return "Ingress", "web"


def autoscaler_of_crashing(scene: Scene) -> tuple[str, str]:
    serve_metrics(scene, "50m")
    scene.pod_owner("web", kind="Deployment", container={**requests(), "command": ["false"]})
    return autoscaler(scene, "web")


def namespace_of_claim(scene: Scene) -> tuple[str, str]:
    claim(scene)
    user(scene, "web")
    scene.run(20.0)
    scene.merge("pod", "web", {"metadata": {"finalizers": ["example.com/drain"]}})
    scene.delete("namespace", scene.namespace)
    return "Namespace", scene.namespace


def large_daemons(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("agent", kind="DaemonSet", container=LARGE)


def failing_index(scene: Scene) -> tuple[str, str]:
    fields = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    spec = job_spec("index", FAILING, **fields)
    scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "index"}, "spec": spec})
    return "Job", "index"


def last_job_failed(scene: Scene) -> tuple[str, str]:
    spec = cron_spec("fails", "*/10 * * * *", FAILING, job={"backoffLimit": 0})
    scene.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "fails"}, "spec": spec})
    scene.run(600.0 - scene.cluster.clock.now() % 600.0 + 1.0)
    return "CronJob", "fails"


SCENARIOS = (
    Scenario(name="claims of a stateful set have no class", code="storage-class-missing", act=claims_without_class),
    Scenario(name="pods of a service have no node", code="insufficient-resources", act=service_of_pending),
    Scenario(name="service of an ingress has no pods", code="service-no-pods", act=ingress_without_pods),
    Scenario(name="pods of an autoscaler crash", code="crash-loop", act=autoscaler_of_crashing, wait=120.0, alone=True),
    Scenario(name="namespace has a pod with a finalizer", code="finalizer", act=namespace_of_claim),
    Scenario(name="pods of a daemon set are too large", code="insufficient-resources", act=large_daemons),
    Scenario(name="index of a job has failed", code="pod-failed", act=failing_index),
    Scenario(name="last job of a cron job has failed", code="pod-failed|job-failed", act=last_job_failed, alone=True),
)
