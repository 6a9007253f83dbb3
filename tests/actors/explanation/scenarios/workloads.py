"""Workloads whose rollout or whose pods do not continue."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario, Scene

POD_OWNERS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")


def _owner(scene: Scene) -> str:
    return scene.chance.choice(POD_OWNERS)


def quota(scene: Scene) -> tuple[str, str]:
    hard = {"pods": "0"}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}})
    scene.run(5.0)
    return scene.pod_owner("quota", kind=_owner(scene), replicas=3)


def quota_values(scene: Scene) -> tuple[str, str]:
    hard = {"requests.cpu": "10"}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cpu"}, "spec": {"hard": hard}})
    scene.run(5.0)
    return scene.pod_owner("values", kind=_owner(scene))


def limit_range(scene: Scene) -> tuple[str, str]:
    limits = [{"type": "Container", "max": {"memory": "64Mi"}}]
    scene.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "max"}, "spec": {"limits": limits}})
    resources = {"limits": {"memory": "1Gi"}}
    return scene.pod_owner("limits", kind=_owner(scene), container={"resources": resources})


def pod_security(scene: Scene) -> tuple[str, str]:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    scene.merge("namespace", scene.namespace, label)
    return scene.pod_owner("root", kind=_owner(scene))


def service_account(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("account", kind=_owner(scene), serviceAccountName="absent")


def priority_class(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("priority", kind=_owner(scene), priorityClassName="absent")


def runtime_class(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("runtime", kind=_owner(scene), runtimeClassName="absent")


def paused(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("paused", kind="Deployment", replicas=2)
    scene.run(10.0)
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    scene.merge(kind, name, {"spec": {"paused": True, "template": template}})
    return kind, name


def on_delete(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("manual", kind=scene.chance.choice(("StatefulSet", "DaemonSet")))
    scene.run(10.0)
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    scene.merge(kind, name, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    scene.merge(kind, name, {"spec": {"template": template}})
    return kind, name


def partition(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("partition", kind="StatefulSet", replicas=3)
    scene.run(20.0)
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    scene.merge(kind, name, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}})
    scene.merge(kind, name, {"spec": {"template": template}})
    return kind, name


def no_eligible_node(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("nowhere", kind="DaemonSet", nodeSelector={"disk": "ssd"})


def bad_rollout(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("rollout", kind="Deployment", replicas=3)
    scene.run(10.0)
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:404"}]}}
    scene.merge(kind, name, {"spec": {"progressDeadlineSeconds": 30, "template": template}})
    return kind, name


def repaired(scene: Scene) -> tuple[str, str]:
    """Repair the template of a StatefulSet, which waits for the pod of the broken one."""
    kind, name = scene.pod_owner("repaired", kind="StatefulSet", replicas=2, container={"image": "nginx:404"})
    scene.run(20.0)
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    scene.merge(kind, name, {"spec": {"template": template}})
    return kind, name


def recreate(scene: Scene) -> tuple[str, str]:
    """Replace a pod by the strategy Recreate that takes long to stop."""
    slow = {"hollow.kcm.dev/terminate-after-seconds": "9000"}
    kind, name = scene.pod_owner("recreate", kind="Deployment", annotations=slow, terminationGracePeriodSeconds=9999)
    scene.run(10.0)
    scene.merge(kind, name, {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}})
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    scene.merge(kind, name, {"spec": {"template": template}})
    return kind, name


def min_ready(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("patient", kind="Deployment", replicas=2)
    scene.merge(kind, name, {"spec": {"minReadySeconds": 5000, "progressDeadlineSeconds": 9000}})
    return kind, name


SCENARIOS = (
    Scenario(name="quota is used up", code="quota-exceeded", act=quota),
    Scenario(name="quota requires values", code="quota-needs-values", act=quota_values),
    Scenario(name="limit range forbids the values", code="limit-range", act=limit_range),
    Scenario(name="pod security forbids the pod", code="pod-security", act=pod_security),
    Scenario(name="service account does not exist", code="service-account-missing", act=service_account),
    Scenario(name="priority class does not exist", code="priority-class-missing", act=priority_class),
    Scenario(name="runtime class does not exist", code="runtime-class-missing", act=runtime_class),
    Scenario(name="rollout is paused", code="rollout-paused", act=paused),
    Scenario(name="update strategy is OnDelete", code="manual-update", act=on_delete),
    Scenario(name="partition keeps old pods", code="manual-update", act=partition),
    Scenario(name="no node is eligible for a DaemonSet", code="no-matching-nodes", act=no_eligible_node),
    Scenario(
        name="rollout of a bad image",
        code="image-pull",
        further=("progress-deadline", "rollout-limits"),
        act=bad_rollout,
    ),
    Scenario(name="broken pod of a repaired StatefulSet", code="old-revision-broken", act=repaired),
    Scenario(name="old pod takes long to stop before its successor", code="rollout-limits", act=recreate),
    Scenario(name="pods are not ready for long enough", code="not-available-yet", act=min_ready),
)
