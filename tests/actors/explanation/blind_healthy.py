"""Objects that look suspicious and are as they should be: an explanation that calls one of them stuck is wrong.

python -m tests.actors.explanation.blind_healthy
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kcm.actors.engine.webhooks.configurations import VALIDATING_CONFIGURATIONS
from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.text import text_of
from kcm.protocols.resources import DEVICE_CLASSES
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from tests.actors.explanation.blind_refusals import autoscaler
from tests.actors.explanation.blind_scenario import (
    annotate,
    change_image,
    claim,
    cron_job,
    job,
    mounts,
    pods_of,
    quota,
    service,
    static_volume,
    workload,
)
from tests.actors.explanation.scenario import Scene, resource_of
from tests.actors.explanation.stage import Stage

NAMESPACE = "calm"
ENDS = {"image": "busybox:1.36", "command": ["true"]}
HOSTNAME = "kubernetes.io/hostname"

Fine = list[tuple[str, str, str]]  # kind, name, and why nothing is wrong


@dataclass(frozen=True)
class Suspicious:
    """Healthy object with its explanation. why: nothing is wrong with it."""

    kind: str
    name: str
    why: str
    explanation: Explanation

    @property
    def is_false_alarm(self) -> bool:
        return self.explanation.verdict not in ("nothing is wrong", "under way", "on hold")


def explained(makers: Sequence[Callable[[Scene], Fine]] = (), *, seed: int = 0) -> Iterator[Suspicious]:
    """Yield all objects with their explanations. makers: create the objects; by default those of this module."""
    with Stage(seed=seed, devices=True) as stage:
        stage.cluster.serve(*AGGREGATED)
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        stage.run(3.0)
        scene = Scene(stage, NAMESPACE, random.Random(seed))
        for make in makers or (_workloads, _services, _volumes, _policies, _nodes):
            yield from _asked(stage, scene, make)


def _asked(stage: Stage, scene: Scene, make: Callable[[Scene], Fine]) -> Iterator[Suspicious]:
    for kind, name, why in make(scene):
        key = name if stage.is_cluster_scoped(kind) or "/" in name else f"{NAMESPACE}/{name}"
        yield Suspicious(kind, name, why, stage.why(kind, key))


def _workloads(scene: Scene) -> Fine:
    workload(scene, "nightshift", replicas=0)
    workload(scene, "dormant", "StatefulSet", replicas=0)
    workload(scene, "web", replicas=3)
    workload(scene, "shrunk", "StatefulSet", replicas=3, more={"podManagementPolicy": "Parallel"})
    workload(scene, "manual", "StatefulSet", replicas=2, more={"updateStrategy": {"type": "OnDelete"}})
    workload(scene, "frozen", replicas=2, more={"paused": False, "revisionHistoryLimit": 0})
    workload(scene, "agents", "DaemonSet", nodeSelector={HOSTNAME: "hollow-node-1"})
    workload(scene, "patient", replicas=2, more={"minReadySeconds": 300})
    workload(scene, "picky", nodeSelector={"late": "label"})
    pinned = {"app": "handmade"}
    scene.pod_owner("loose", kind="ReplicaSet", replicas=2)
    scene.pod_owner("single", kind="Pod")
    scene.pod_owner("once", kind="Pod", restartPolicy="Never", container=ENDS)
    template = {"metadata": {"labels": pinned}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    body = {"replicas": 1, "selector": pinned, "template": template}
    scene.apply({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "handmade"}, "spec": body})
    sidecar = {"name": "proxy", "image": "envoy", "restartPolicy": "Always"}
    setup = {"name": "setup", "image": "busybox:1.36", "command": ["sleep", "2"]}
    scene.pod_owner("meshed", kind="Pod", initContainers=[sidecar, setup])
    once = "if [ -f /data/x ]; then sleep infinity; else touch /data/x; exit 1; fi"
    volume = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    scene.pod_owner("stumbled", kind="Pod", container={"command": ["sh", "-c", once], **mounted}, **volume)

    job(scene, "done", container=ENDS)
    job(scene, "indexed", more={"completionMode": "Indexed", "completions": 3, "parallelism": 2}, container=ENDS)
    job(scene, "expiring", more={"ttlSecondsAfterFinished": 3600}, container=ENDS)
    job(scene, "long", container={"image": "busybox:1.36", "command": ["sleep", "100000"]})
    job(scene, "held", more={"suspend": True}, container=ENDS)
    again = "if [ -f /data/x ]; then exit 0; else touch /data/x; exit 1; fi"
    tries = {"image": "busybox:1.36", "command": ["sh", "-c", again], **mounted}
    job(scene, "second-try", restartPolicy="OnFailure", container=tries, **volume)
    cron_job(scene, "yearly", "0 0 1 7 *", container=ENDS)
    cron_job(scene, "off-season", "*/5 * * * *", more={"suspend": True}, container=ENDS)
    fails = {"image": "busybox:1.36", "command": ["sh", "-c", "exit 1"]}
    more = {"failedJobsHistoryLimit": 3, "concurrencyPolicy": "Replace"}
    cron_job(scene, "recovered", "* * * * *", more=more, container=fails)
    scene.run(90.0)
    repaired = {"spec": {"containers": [{"name": "main", **ENDS}]}}
    scene.merge("CronJob", "recovered", {"spec": {"jobTemplate": {"spec": {"template": repaired}}}})
    change_image(scene, "Deployment", "web", "nginx:1.28")
    scene.merge("StatefulSet", "shrunk", {"spec": {"replicas": 1}})
    scene.merge("Deployment", "frozen", {"spec": {"paused": True}})
    scene.merge("Node", "hollow-node-0", {"metadata": {"labels": {"late": "label"}}})
    scene.run(700.0)
    workload(scene, "fresh", replicas=2, more={"minReadySeconds": 300})
    workload(scene, "leaving", annotations={"hollow.kcm.dev/terminate-after-seconds": "25"})
    scene.run(20.0)
    leaving = pods_of(scene, "leaving")[0]["metadata"]["name"]
    scene.delete("Pod", leaving)
    scene.run(5.0)
    replicas = _names(scene, "ReplicaSet", "web-")
    jobs = _names(scene, "Job", "recovered-")
    return [
        ("Deployment", "nightshift", "scaled to 0 by intention"),
        ("StatefulSet", "dormant", "scaled to 0 by intention"),
        ("Deployment", "web", "rolled out long ago"),
        *(("ReplicaSet", name, "the old one has 0 pods, the new one 3") for name in replicas),
        ("StatefulSet", "shrunk", "scaled down from 3 to 1"),
        ("StatefulSet", "manual", "updated only on deletion, and all pods are of the current version"),
        ("Deployment", "frozen", "paused, but nothing is to be rolled out"),
        ("DaemonSet", "agents", "meant for one node"),
        ("Deployment", "patient", "available after its 300 s"),
        ("Deployment", "fresh", "still within its 300 s"),
        ("Deployment", "picky", "had to wait for a label, and runs"),
        ("Pod", pods_of(scene, "picky")[0]["metadata"]["name"], "has an old FailedScheduling event, and runs"),
        ("ReplicaSet", "loose", "has no Deployment"),
        ("ReplicationController", "handmade", "old kind"),
        ("Pod", "single", "has no owner"),
        ("Pod", "once", "Succeeded"),
        ("Pod", "meshed", "its sidecar runs as an init container"),
        ("Pod", "stumbled", "restarted once, and runs"),
        ("Pod", leaving, "is being deleted for 5 s of its 30 s"),
        ("Deployment", "leaving", "replaces a pod that is being deleted"),
        ("Job", "done", "complete"),
        ("Pod", pods_of(scene, "done")[0]["metadata"]["name"], "Succeeded"),
        ("Job", "indexed", "complete"),
        ("Job", "expiring", "complete, and deleted in an hour"),
        ("Job", "long", "runs"),
        ("Job", "held", "suspended by intention"),
        ("Job", "second-try", "complete, after one restart"),
        ("CronJob", "yearly", "its first time is months away"),
        ("CronJob", "off-season", "suspended by intention"),
        ("CronJob", "recovered", "failed some time ago, and its latest Jobs are complete"),
        ("Job", jobs[-1], "the latest of them"),
    ]


def _services(scene: Scene) -> Fine:
    service(scene, "web", target=80)
    scene.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "mainframe"},
            "spec": {"ports": [{"name": "main", "port": 3270}]},
        }
    )
    ports = [{"name": "main", "port": 3270, "protocol": "TCP"}]
    scene.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "mainframe-1", "labels": {"kubernetes.io/service-name": "mainframe"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.20"], "conditions": {"ready": True}}],
            "ports": ports,
        }
    )
    bare = {"apiVersion": "v1", "kind": "Service"}
    spec = {"ports": [{"name": "main", "port": 5432}]}
    scene.apply({**bare, "metadata": {"name": "legacy-db"}, "spec": spec})
    subsets = [{"addresses": [{"ip": "192.0.2.30"}], "ports": [{"name": "main", "port": 5432}]}]
    scene.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "legacy-db"}, "subsets": subsets})
    scene.apply(
        {**bare, "metadata": {"name": "crm"}, "spec": {"type": "ExternalName", "externalName": "crm.example.com"}}
    )
    service(scene, "web-headless", {"app": "web"}, target=80, clusterIP="None")
    service(scene, "web-node", {"app": "web"}, target=80, type="NodePort")
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rules = [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]
    kind = "networking.k8s.io/v1"
    scene.apply({"apiVersion": kind, "kind": "Ingress", "metadata": {"name": "web"}, "spec": {"rules": rules}})
    scene.run(60.0)
    return [
        ("Service", "web", "has endpoints"),
        ("Service", "mainframe", "its endpoints are written by hand"),
        ("Service", "legacy-db", "its Endpoints are written by hand and mirrored"),
        ("Endpoints", "legacy-db", "written by hand"),
        ("Service", "crm", "is an alias of an external name"),
        ("Service", "web-headless", "headless"),
        ("Service", "web-node", "has endpoints"),
        ("Ingress", "web", "its backend exists"),
    ]


def _volumes(scene: Scene) -> Fine:
    claim(scene, "spare", "5Gi")
    claim(scene, "later", "5Gi", storageClassName="hollow-wait")
    static_volume(scene, "standby-disk", "5Gi", storageClassName="")
    static_volume(scene, "kept-disk", "6Gi", storageClassName="")
    claim(scene, "old", "6Gi", storageClassName="", volumeName="kept-disk")
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    more = {"volumeClaimTemplates": [template]}
    workload(scene, "db", "StatefulSet", replicas=2, more=more, container=mounted)
    claim(scene, "shared-home", "5Gi")
    workload(scene, "notebook", **mounts("shared-home"))
    scene.run(20.0)
    scene.delete("PersistentVolumeClaim", "old")
    scene.merge("StatefulSet", "db", {"spec": {"replicas": 1}})
    scene.create(DEVICE_CLASSES, "gpu", {"spec": {}})
    requests = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
    scene.apply(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "unused"}, **requests}
    )
    scene.run(400.0)
    return [
        ("PersistentVolumeClaim", "spare", "bound, and not used"),
        ("PersistentVolumeClaim", "later", "waits for its first pod by intention"),
        ("PersistentVolume", "standby-disk", "free"),
        ("PersistentVolume", "kept-disk", "Released, and kept by its reclaim policy"),
        ("PersistentVolumeClaim", "data-db-1", "kept after its StatefulSet was scaled down"),
        ("StatefulSet", "db", "scaled down"),
        ("Deployment", "notebook", "runs"),
        ("PersistentVolumeClaim", "shared-home", "used by one pod"),
        ("StorageClass", "hollow-wait", "used by no bound claim"),
        ("ResourceClaim", "unused", "no pod uses it"),
    ]


def _policies(scene: Scene) -> Fine:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    for name, rule in (("web", {"maxUnavailable": 1}), ("nobody", {"minAvailable": 1})):
        body = {**rule, "selector": {"matchLabels": {"app": name}}}
        scene.apply({**budget, "metadata": {"name": name}, "spec": body})
    quota(scene, "exact", count__configmaps="1")
    limits = [{"type": "Container", "defaultRequest": {"cpu": "50m"}}]
    scene.apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": {"limits": limits}}
    )
    scene.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    scene.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unused"}, "stringData": {"a": "b"}})
    busy = {"resources": {"requests": {"cpu": "100m"}}}
    use = {"hollow.kcm.dev/cpu-usage": "10m"}
    workload(scene, "idle", replicas=2, annotations=use, container=busy)
    autoscaler(scene, "idle", "idle")
    autoscaler(scene, "nightshift", "nightshift")
    webhook = {
        "name": "audit.corp.example",
        "clientConfig": {"service": {"name": "gone", "namespace": NAMESPACE, "path": "/"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    scene.create(VALIDATING_CONFIGURATIONS, "audit", {"webhooks": [webhook]})
    scene.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}})
    scene.run(60.0)
    workload(scene, "despite-audit", replicas=2)
    scene.run(60.0)
    return [
        ("PodDisruptionBudget", "web", "allows one eviction"),
        ("PodDisruptionBudget", "nobody", "matches no pod"),
        ("ResourceQuota", "exact", "used up, and nothing wants more"),
        ("LimitRange", "defaults", "has defaults only"),
        ("ServiceAccount", "robot", "has no token Secrets, as usual"),
        ("Secret", "unused", "nothing mounts it"),
        ("Deployment", "idle", "runs"),
        ("HorizontalPodAutoscaler", "idle", "at its minimum"),
        ("HorizontalPodAutoscaler", "nightshift", "its target is scaled to 0, which disables it"),
        ("Deployment", "despite-audit", "a webhook that is down is ignored"),
        ("Namespace", "empty", "contains nothing"),
        ("Namespace", NAMESPACE, "active"),
    ]


def _nodes(scene: Scene) -> Fine:
    taint = {"key": "dedicated", "value": "ci", "effect": "NoSchedule"}
    scene.merge("Node", "hollow-node-2", {"spec": {"taints": [taint]}})
    scene.merge("Node", "hollow-node-1", {"spec": {"unschedulable": True}})
    workload(scene, "everywhere", "DaemonSet")
    annotate(scene, "Node", "hollow-node-0", heartbeat_seconds="30")
    scene.run(120.0)
    return [
        ("Node", "hollow-node-0", "renews its lease every 30 s of 40"),
        ("Node", "hollow-node-1", "cordoned by intention; only a DaemonSet needs it, which tolerates that"),
        ("Node", "hollow-node-2", "dedicated by a taint"),
        ("DaemonSet", "everywhere", "runs on the two nodes without the taint"),
        ("Pod", pods_of(scene, "everywhere")[0]["metadata"]["name"], "runs, also on a cordoned node"),
    ]


def _names(scene: Scene, kind: str, prefix: str) -> list[str]:
    """Return the names of the objects of this kind that begin with the prefix, the oldest first."""
    found = [each["metadata"] for each in scene.cluster.list(resource_of(kind), NAMESPACE)]
    named = sorted((meta["creationTimestamp"], meta["name"]) for meta in found)
    return [name for _, name in named if name.startswith(prefix)]


def main(makers: Sequence[Callable[[Scene], Fine]] = ()) -> int:
    logging.disable(logging.CRITICAL)
    found = list(explained(makers))
    alarms = [each for each in found if each.is_false_alarm]
    for each in alarms:
        print(f"FALSE  {each.kind} {each.name}: {each.why}")
        print("".join(f"        {line}\n" for line in text_of(each.explanation).splitlines()))
    print(f"{len(alarms)} false alarms about {len(found)} objects")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
