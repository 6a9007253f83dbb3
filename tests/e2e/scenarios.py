"""User actions in a namespace, with a deterministic end state.

Each scenario waits for the effect of each action, and returns the output of kubectl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.kubectl import Kubectl, Object, name_of
from tests.e2e.programs import ROOT, until

Printed = dict[str, str]
Scenario = Callable[[Kubectl], Printed]

COST = "controller.kubernetes.io/pod-deletion-cost"
NEVER_READY = {"hollow.kcm.dev/ready-after-seconds": "100000"}
REDIS = "app=redis"


def template(image: str, **more: Any) -> Object:
    labels = {"app": "web"}
    container = {"name": "web", "image": image, **more.pop("container", {})}
    return {"metadata": {"labels": labels, **more}, "spec": {"containers": [container]}}


def workload(kind: str, name: str, replicas: int, image: str = "web:1", **spec: Any) -> Object:
    """Return a ReplicaSet, Deployment or ReplicationController whose pods have the label app=web."""
    core = kind == "ReplicationController"
    selector: Object = {"app": "web"} if core else {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "v1" if core else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"replicas": replicas, "selector": selector, "template": template(image), **spec},
    }


def reason(conditions: list[Object], type: str) -> str:
    """Return the reason of a condition, or "" if the condition is missing."""
    return next((str(condition["reason"]) for condition in conditions if condition["type"] == type), "")


def until_reason(kubectl: Kubectl, resource: str, name: str, type: str, wanted: str) -> None:
    def there() -> bool:
        return reason(kubectl.get(resource, name).get("status", {}).get("conditions", []), type) == wanted

    until(there, f"{type} of {name} is {wanted or 'gone'}", why=kubectl.state)


def until_status(kubectl: Kubectl, resource: str, name: str, **fields: int) -> None:
    """Wait for these counts in the status. A missing count is 0."""

    def there() -> bool:
        seen = kubectl.get(resource, name)
        status = seen.get("status", {})
        observed = status.get("observedGeneration") == seen["metadata"]["generation"]
        return observed and all(status.get(field, 0) == count for field, count in fields.items())

    until(there, f"{name} has {fields}", why=kubectl.state)


def replication_controller(kubectl: Kubectl) -> Printed:
    """Create, replace, scale up and scale down the pods of a ReplicationController."""
    printed = {"apply": kubectl("apply", "-f", str(ROOT / "examples/nginx-rc.yml"))}
    first, second = kubectl.until_pods(2)
    until_status(kubectl, "replicationcontrollers", "nginx-server", replicas=2, readyReplicas=2)
    printed["get rc"] = kubectl("get", "rc")
    printed["describe rc"] = kubectl("describe", "rc", "nginx-server")
    printed["delete pod"] = kubectl("delete", "pod", name_of(first))
    names = {name_of(pod) for pod in kubectl.until_pods(2)}
    assert name_of(first) not in names
    assert name_of(second) in names
    printed["scale up"] = kubectl("scale", "--replicas=3", "rc/nginx-server")
    kubectl.until_pods(3)
    # The second pod is older and would stay, except for its deletion cost.
    kubectl("annotate", "pod", name_of(second), f"{COST}=-10")
    printed["scale down"] = kubectl("scale", "--replicas=2", "rc/nginx-server")
    left = {name_of(pod) for pod in kubectl.until_pods(2)}
    assert name_of(second) not in left
    assert names - {name_of(second)} < left
    until_status(kubectl, "replicationcontrollers", "nginx-server", replicas=2, readyReplicas=2)
    printed["get rc after"] = kubectl("get", "rc", "-o", "wide")
    return printed


def deployment(kubectl: Kubectl) -> Printed:
    """Create, scale, update and roll back a Deployment.

    It has fewer than ten different events, since more are combined in a way that depends on time.
    """
    printed = {"create": kubectl("create", "deployment", "redis", "--image=redis")}
    printed["first status"] = last_line(kubectl("rollout", "status", "deployment/redis"))
    printed["scale"] = kubectl("scale", "deployment/redis", "--replicas=2")
    until_rolled_out(kubectl, "redis", 2, "redis")
    printed["set image"] = kubectl("set", "image", "deployment/redis", "redis=redis:7")
    printed["status"] = last_line(kubectl("rollout", "status", "deployment/redis"))
    until_rolled_out(kubectl, "redis", 2, "redis:7")
    printed["history"] = kubectl("rollout", "history", "deployment/redis")
    printed["undo"] = kubectl("rollout", "undo", "deployment/redis")
    printed["undone"] = last_line(kubectl("rollout", "status", "deployment/redis"))
    until_rolled_out(kubectl, "redis", 2, "redis")
    printed["history after undo"] = kubectl("rollout", "history", "deployment/redis")
    printed["revision 3"] = kubectl("rollout", "history", "deployment/redis", "--revision=3")
    printed["get"] = kubectl("get", "deployment,replicaset", "-o", "wide")
    printed["describe"] = kubectl("describe", "deployment", "redis").partition("Events:")[0]
    return printed


def paused_deployment(kubectl: Kubectl) -> Printed:
    """Change image and scale of a paused Deployment; only the scale takes effect."""
    kubectl("create", "deployment", "redis", "--image=redis", "--replicas=2")
    until_rolled_out(kubectl, "redis", 2, "redis")
    printed = {"pause": kubectl("rollout", "pause", "deployment/redis")}
    until_reason(kubectl, "apps/v1/deployments", "redis", "Progressing", "DeploymentPaused")
    printed["set image"] = kubectl("set", "image", "deployment/redis", "redis=redis:8")
    printed["pause again"] = kubectl.run("rollout", "pause", "deployment/redis").stderr
    kubectl("scale", "deployment/redis", "--replicas=3")
    kubectl.until_pods(3, REDIS, image="redis")
    until_status(kubectl, "apps/v1/deployments", "redis", replicas=3, availableReplicas=3, updatedReplicas=0)
    printed["resume"] = kubectl("rollout", "resume", "deployment/redis")
    printed["resumed"] = last_line(kubectl("rollout", "status", "deployment/redis"))
    until_rolled_out(kubectl, "redis", 3, "redis:8")
    printed["history"] = kubectl("rollout", "history", "deployment/redis")
    return printed


def until_rolled_out(kubectl: Kubectl, name: str, replicas: int, image: str) -> None:
    """Wait for the complete rollout in the status and in the pods."""
    kubectl.until_pods(replicas, image=image)
    kubectl.until_complete(name)


def last_line(text: str) -> str:
    """Return the last line. The lines before depend on time."""
    return text.splitlines()[-1]


def replica_set(kubectl: Kubectl) -> Printed:
    """Adopt and release pods, replace a failed pod, and scale to zero and up."""
    for name in ("orphan-1", "orphan-2"):
        kubectl("run", name, "--image=web:1", "--labels=app=web")
    kubectl.until_pods(2)
    kubectl.apply(workload("ReplicaSet", "web", 4))
    kubectl.until_pods(4)
    until_status(kubectl, "apps/v1/replicasets", "web", replicas=4, readyReplicas=4, fullyLabeledReplicas=4)
    kubectl("label", "pod", "orphan-1", "app=other", "--overwrite")
    kubectl.until_pods(4, "app=web")
    failing = next(name_of(pod) for pod in kubectl.ready_pods("app=web") if name_of(pod) != "orphan-2")
    kubectl("patch", "pod", failing, "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Failed"}}')
    until(lambda: len(kubectl.items("pods", "app=web")) == 5, "one more for the one that failed", why=kubectl.state)
    kubectl("delete", "pod", failing, "--now")
    kubectl.until_pods(4, "app=web")
    kubectl("scale", "rs/web", "--replicas=0")
    kubectl.until_pods(0, "app=web")
    kubectl("scale", "rs/web", "--replicas=1")
    kubectl.until_pods(1, "app=web")
    until_status(kubectl, "apps/v1/replicasets", "web", replicas=1, readyReplicas=1, availableReplicas=1)
    return {"get": kubectl("get", "rs", "-o", "wide")}


def refused_pods(kubectl: Kubectl) -> Printed:
    """Pods that the server refuses before they have a name, and pods that a limit forbids until the limit goes."""
    urgent = template("web:1")
    urgent["spec"]["priorityClassName"] = "none-such"
    kubectl.apply(workload("ReplicaSet", "urgent", 1, template=urgent))
    until_reason(kubectl, "apps/v1/replicasets", "urgent", "ReplicaFailure", "FailedCreate")
    nameless = kubectl("describe", "rs", "urgent").partition("Events:")[0]
    kubectl("delete", "rs", "urgent")
    limit = {"type": "Container", "max": {"cpu": "1"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}}
    big = template("web:1", container={"resources": resources})
    kubectl.apply(limits)
    kubectl.apply(workload("ReplicaSet", "big", 2, template=big))
    until_reason(kubectl, "apps/v1/replicasets", "big", "ReplicaFailure", "FailedCreate")
    printed = {"urgent": nameless, "describe": kubectl("describe", "rs", "big").partition("Events:")[0]}
    kubectl("delete", "limitrange", "small")
    kubectl.until_pods(2)
    until_reason(kubectl, "apps/v1/replicasets", "big", "ReplicaFailure", "")
    until_status(kubectl, "apps/v1/replicasets", "big", replicas=2, readyReplicas=2)
    return printed


def recreate(kubectl: Kubectl) -> Printed:
    """Recreate, minReadySeconds, and a history of one."""
    more = {"strategy": {"type": "Recreate"}, "minReadySeconds": 1, "revisionHistoryLimit": 1}
    for image in ("web:1", "web:2", "web:3"):
        kubectl.apply(workload("Deployment", "web", 2, image, **more))
        until_rolled_out(kubectl, "web", 2, image)
    until(lambda: len(kubectl.items("apps/v1/replicasets")) == 2, "the oldest revision goes", why=kubectl.state)
    return {"history": kubectl("rollout", "history", "deployment/web")}


def stuck_rollout(kubectl: Kubectl) -> Printed:
    """A rollout that does not get ready, is scaled in the middle, runs out of time and is taken back."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "20%"}}
    more: Object = {"strategy": rolling, "progressDeadlineSeconds": 4}
    kubectl.apply(workload("Deployment", "web", 5, **more))
    kubectl.until_complete("web")
    bad = template("web:bad", annotations=NEVER_READY)
    kubectl.apply(workload("Deployment", "web", 5, **more, template=bad))
    until_status(kubectl, "apps/v1/deployments", "web", replicas=7, updatedReplicas=3, readyReplicas=4)
    kubectl("scale", "deployment/web", "--replicas=10")
    until_status(kubectl, "apps/v1/deployments", "web", replicas=12, updatedReplicas=5, readyReplicas=7)
    until_reason(kubectl, "apps/v1/deployments", "web", "Progressing", "ProgressDeadlineExceeded")
    status = kubectl.run("rollout", "status", "deployment/web")
    printed = {"get": kubectl("get", "deploy,rs"), "status": last_line(status.stdout + status.stderr)}
    kubectl("rollout", "undo", "deployment/web")
    kubectl.until_pods(10, image="web:1")
    kubectl.until_complete("web")
    return printed


def adopted_replica_set(kubectl: Kubectl) -> Printed:
    """A deployment finds a replica set that is as it would make it, and another that it only has to empty."""
    kubectl.apply(workload("ReplicaSet", "there-already", 2), workload("ReplicaSet", "older", 1, "web:0"))
    kubectl.until_pods(3)
    kubectl.apply(workload("Deployment", "web", 2))
    kubectl.until_pods(2)
    kubectl.until_complete("web")
    until_status(kubectl, "apps/v1/replicasets", "older", replicas=0)
    return {"history": kubectl("rollout", "history", "deployment/web")}


def annotated(kubectl: Kubectl) -> Printed:
    """Annotations go down to the replica sets, and a change cause comes back with undo; labels start no rollout."""
    kubectl.apply(workload("Deployment", "web", 1))
    kubectl.until_complete("web")
    kubectl("annotate", "deployment", "web", "kubernetes.io/change-cause=first", "mine=yes")
    kubectl("label", "deployment", "web", "team=a")

    def passed_down() -> bool:
        (replica_set,) = kubectl.items("apps/v1/replicasets")
        annotations: dict[str, str] = replica_set["metadata"]["annotations"]
        return annotations.get("mine") == "yes"

    until(passed_down, "the replica set has the annotation", why=kubectl.state)
    kubectl("set", "image", "deployment/web", "web=web:2")
    kubectl("annotate", "deployment", "web", "kubernetes.io/change-cause=second", "--overwrite")
    until_rolled_out(kubectl, "web", 1, "web:2")
    printed = {"history": kubectl("rollout", "history", "deployment/web")}
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    until_rolled_out(kubectl, "web", 1, "web:1")
    printed["undone"] = kubectl("rollout", "history", "deployment/web")
    printed["restart"] = kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web")
    until_rolled_out(kubectl, "web", 1, "web:1")
    return printed


def many_pods(kubectl: Kubectl) -> Printed:
    """Create enough pods that their events are combined and then dropped."""
    kubectl.apply(workload("ReplicaSet", "web", 30))
    kubectl.until_pods(30)
    until_status(kubectl, "apps/v1/replicasets", "web", replicas=30, readyReplicas=30)
    return {}


SCENARIOS: tuple[Scenario, ...] = (
    replication_controller,
    deployment,
    paused_deployment,
    replica_set,
    refused_pods,
    recreate,
    stuck_rollout,
    adopted_replica_set,
    annotated,
    many_pods,
)
