"""Blind scenario: a stuck object written by an author who has not read the rules that explain it.

Instead of a code it has its cause in one sentence, and key facts that the text of a correct first cause contains. The
author adds the code after judging the explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcm.actors.explanation.cause import Cause, Explanation
from kcm.protocols.objects import Object
from kcm.protocols.resources import EVENTS, VALIDATING_ADMISSION_POLICIES, Resource
from kcm.protocols.times import format_time
from tests.actors.explanation.scenario import Act, Scenario, Scene, pod_template

POLICY_BINDINGS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
BY_HAND = ("--node-monitor-grace-period=2h",)  # manager flags: nodes without a kubelet stay Ready


@dataclass(frozen=True, kw_only=True)
class BlindScenario(Scenario):
    """Stuck object with its cause. The text of a correct first cause contains all facts.

    Facts are compared regardless of case and spaces; alternatives are separated by "|".

    code: written after the explanation was judged; "" accepts any code whose text is correct.
    cause: one sentence.
    facts: names, numbers and words, written beforehand.
    added: facts from the time of judging, because the explanation contained the facts and was not right.
    untrue: texts of the explanation at the time of judging that are not true.
    report: public report of such an incident.
    """

    code: str = ""
    cause: str
    facts: tuple[str, ...]
    added: tuple[str, ...] = ()
    untrue: tuple[str, ...] = ()
    report: str = ""

    def accepts(self, found: str, explanation: Explanation) -> bool:
        first = explanation.causes[:1]
        return (not self.code or super().accepts(found, explanation)) and bool(first) and not self.objections(first[0])

    def objections(self, cause: Cause) -> list[str]:
        """Return the facts that a cause does not contain, and what it contains and is not true."""
        text = _plain("\n".join((cause.about, cause.summary, *cause.evidence, *cause.commands)))
        missing = [fact for fact in (*self.facts, *self.added) if not _is_in(text, fact)]
        return [*missing, *(f"not {fact}" for fact in self.untrue if _is_in(text, fact))]


def _is_in(text: str, fact: str) -> bool:
    return any(_plain(alternative) in text for alternative in fact.split("|"))


def _plain(text: str) -> str:
    return text.lower().replace(" ", "")


def scenario(to: list[BlindScenario], name: str, **properties: Any) -> Callable[[Act], Act]:
    """Add the decorated function to a list, as the act of a scenario."""

    def add(act: Act) -> Act:
        to.append(BlindScenario(name=name, act=act, **properties))
        return act

    return add


# Objects.


def workload(
    scene: Scene,
    name: str,
    kind: str = "Deployment",
    *,
    replicas: int = 1,
    labels: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
    **template: Any,
) -> tuple[str, str]:
    """Create a Deployment, StatefulSet or DaemonSet, and return its kind and name.

    labels: further labels of its pods.
    more: further fields of its spec.
    template: as in `pod_template`.
    """
    spec, metadata = pod_template(name, **template)
    metadata["labels"] = {**metadata["labels"], **(labels or {})}
    body: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": metadata, "spec": spec},
        **(more or {}),
    }
    if kind != "DaemonSet":
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body["serviceName"] = name
    scene.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body})
    return kind, name


def job(scene: Scene, name: str, *, more: Mapping[str, Any] | None = None, **template: Any) -> tuple[str, str]:
    spec, metadata = pod_template(name, **{"restartPolicy": "Never", **template})
    body = {"template": {"metadata": metadata, "spec": spec}, **(more or {})}
    scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body})
    return "Job", name


def cron_job(
    scene: Scene,
    name: str,
    schedule: str,
    *,
    more: Mapping[str, Any] | None = None,
    **template: Any,
) -> tuple[str, str]:
    spec, metadata = pod_template(name, **{"restartPolicy": "Never", **template})
    runs = {"spec": {"template": {"metadata": metadata, "spec": spec}}}
    body = {"schedule": schedule, "jobTemplate": runs, **(more or {})}
    scene.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": body})
    return "CronJob", name


def change_image(scene: Scene, kind: str, name: str, image: str, **annotations: str) -> None:
    """Change the image of the container of a workload, as `kubectl set image` does, and annotations of its template."""
    owner = scene.get(kind, name)
    container = {**owner["spec"]["template"]["spec"]["containers"][0], "image": image}
    noted = {key.replace("_", "-"): value for key, value in annotations.items()}
    noted = {f"hollow.kcm.dev/{key}": value for key, value in noted.items()}
    template = {"metadata": {"annotations": noted}, "spec": {"containers": [container]}}
    scene.merge(kind, name, {"spec": {"template": template}})


def service(
    scene: Scene,
    name: str,
    selector: Mapping[str, str] | None = None,
    *,
    port: int = 80,
    target: int | str = 8080,
    **spec: Any,
) -> tuple[str, str]:
    ports = [{"name": "main", "port": port, "targetPort": target}]
    body = {"selector": dict(selector or {"app": name}), "ports": ports, **spec}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body})
    return "Service", name


def ingress(scene: Scene, name: str, backend: str, port: int) -> tuple[str, str]:
    """Create an Ingress with one path, which leads to a port of a Service."""
    target = {"service": {"name": backend, "port": {"number": port}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": target}]
    body = {"rules": [{"host": f"{backend}.example.com", "http": {"paths": paths}}]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    scene.apply({**kind, "metadata": {"name": name}, "spec": body})
    return "Ingress", name


def claim(scene: Scene, name: str, size: str = "10Gi", *, mode: str = "ReadWriteOnce", **spec: Any) -> tuple[str, str]:
    body = {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **spec}
    scene.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body})
    return "PersistentVolumeClaim", name


def static_volume(scene: Scene, name: str, size: str, *, source: Object | None = None, **spec: object) -> None:
    body = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        **(source or {"nfs": {"server": "10.0.0.5", "path": f"/export/{name}"}}),
        **spec,
    }
    scene.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body})


def mounts(name: str) -> Object:
    """Return the fields of a pod template that mounts a claim."""
    return {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    }


def quota(scene: Scene, name: str, **hard: str) -> None:
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": amounts}})


def budget(scene: Scene, name: str, labels: dict[str, str], **spec: object) -> None:
    body = {"selector": {"matchLabels": labels}, **spec}
    scene.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": body})


def admission_policy(
    scene: Scene, name: str, resource: tuple[str, str, str], operations: list[str], expression: str, message: str
) -> None:
    """Create an admission policy for the namespace of the scenario. resource: group, version, plural."""
    group, version, plural = resource
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [plural], "operations": operations}
    here = {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}
    body = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
        "validations": [{"expression": expression, "message": message}],
    }
    scene.create(VALIDATING_ADMISSION_POLICIES, name, {"spec": body})
    scene.create(POLICY_BINDINGS, name, {"spec": {"policyName": name, "validationActions": ["Deny"]}})
    scene.run(2.0)


def annotate(scene: Scene, kind: str, name: str, **annotations: str | None) -> None:
    """Set annotations of hollow nodes: silent="true"."""
    noted = {f"hollow.kcm.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    scene.merge(kind, name, {"metadata": {"annotations": noted}})


def crashing_neighbour(scene: Scene, name: str) -> None:
    """Create an unrelated pod beside the scenario that crashes again and again."""
    workload(scene, name, container={"image": "busybox:1.36", "command": ["sh", "-c", "exit 1"]})


# What a kubelet reports that hollow kubelets do not: these nodes have no kubelet.


def worker(scene: Scene, name: str, *, conditions: Sequence[Object] = ()) -> Object:
    """Create a node without a kubelet, dedicated to a pool of its name. Return the fields of templates for it."""
    taint = {"key": "pool", "value": name, "effect": "NoSchedule"}
    labels = {"pool": name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}}
    scene.apply({"apiVersion": "v1", "kind": "Node", **node})
    room = {"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "100Gi"}
    since = format_time(scene.cluster.clock.now())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    found = [{"lastHeartbeatTime": since, "lastTransitionTime": since, **each} for each in (ready, *conditions)]
    status = {"capacity": room, "allocatable": room, "conditions": found}
    scene.merge("Node", name, {"status": status}, subresource="status")
    scene.run(8.0)
    toleration = {"key": "pool", "operator": "Equal", "value": name, "effect": "NoSchedule"}
    return {"nodeSelector": {"pool": name}, "tolerations": [toleration]}


def report(scene: Scene, pod: Object, *containers: Object, phase: str = "Pending", init: bool = True) -> None:
    """Write the status of a pod as its kubelet does. containers: fields of the status of each container."""
    since = format_time(scene.cluster.clock.now())
    states = [
        {"name": main["name"], "image": main["image"], "imageID": "", "ready": False, "restartCount": 0, **status}
        for main, status in zip(pod["spec"]["containers"], containers, strict=True)
    ]
    unready = ("False", "ContainersNotReady", f"containers with unready status: [{states[0]['name']}]")
    truths = {"PodReadyToStartContainers": ("True",), "Initialized": ("True",) if init else ("False",)}
    truths |= {"Ready": unready, "ContainersReady": unready, "PodScheduled": ("True",)}
    conditions = [
        {"type": kind, "lastTransitionTime": since, **dict(zip(("status", "reason", "message"), truth, strict=False))}
        for kind, truth in truths.items()
    ]
    status = {"phase": phase, "startTime": since, "conditions": conditions, "containerStatuses": states}
    scene.merge("Pod", pod["metadata"]["name"], {"status": status}, subresource="status")


def ended(scene: Scene, code: int, reason: str, **more: Any) -> Object:
    """Return the terminated state of a container that ran for 5 s and ended 2 s ago."""
    now = scene.cluster.clock.now()
    times = {"startedAt": format_time(now - 7.0), "finishedAt": format_time(now - 2.0)}
    return {"exitCode": code, "reason": reason, **times, **more}


def event(scene: Scene, obj: Object, reason: str, message: str, *, count: int = 1, source: str = "kubelet") -> None:
    """Record a warning about an object."""
    at, meta = format_time(scene.cluster.clock.now()), obj["metadata"]
    involved = {key: meta[key] for key in ("name", "namespace", "uid")}
    involved |= {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    body = {"type": "Warning", "reason": reason, "message": message, "count": count}
    body |= {"involvedObject": involved, "source": {"component": source}, "firstTimestamp": at, "lastTimestamp": at}
    scene.create(EVENTS, f"{meta['name']}.{reason.lower()}", body)


def pods_of(scene: Scene, app: str) -> list[Object]:
    found = [pod for pod in scene.pods() if pod["metadata"].get("labels", {}).get("app") == app]
    return [{**pod, "kind": "Pod", "apiVersion": "v1"} for pod in found]
