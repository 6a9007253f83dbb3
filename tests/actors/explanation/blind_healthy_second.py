"""Healthy objects of the second blind trial, which look suspicious, by another author.

    python -m tests.actors.explanation.blind_healthy_second

ON_HOLD names the objects that their own configuration holds.
"""

from __future__ import annotations

import sys

from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, DEVICE_CLASSES, REPLICASETS, RESOURCE_CLAIMS
from tests.actors.explanation.blind_healthy import ENDS, Fine, main
from tests.actors.explanation.blind_scenario import (
    budget,
    change_image,
    claim,
    cron_job,
    job,
    pods_of,
    quota,
    static_volume,
    workload,
)
from tests.actors.explanation.scenario import Scene

ON_HOLD = frozenset(
    (
        "queued-training",
        "no-workers",
        "month-end",
        "frozen",
        "canary",
        "by-hand",
        "sleeper",
        "waits-for-a-pod",
        "kept-after-delete",
        "hollow-node-2",
        "unused-device",
    )
)
AT_REST = frozenset(("frozen", "sleeper"))  # of these, they wait for nothing, so that nothing is wrong with them


def jobs(scene: Scene) -> Fine:
    """Jobs that are held, and that failed before they succeeded."""
    marked = "if [ -f /state/tried ]; then exit 0; fi; touch /state/tried; exit 1"
    container = {
        "image": "busybox:1.36",
        "command": ["sh", "-c", marked],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    volumes = [{"name": "state", "emptyDir": {}}]
    job(scene, "queued-training", more={"suspend": True}, container=ENDS)
    job(scene, "no-workers", more={"parallelism": 0}, container=ENDS)
    job(scene, "second-try", restartPolicy="OnFailure", container=container, volumes=volumes)
    job(scene, "long-running", more={"activeDeadlineSeconds": 86400}, container={"command": ["sleep", "infinity"]})
    cron_job(scene, "month-end", "* * * * *", more={"suspend": True}, container=ENDS)
    cron_job(scene, "new-year", "0 9 1 1 *", more={"timeZone": "Europe/Berlin"}, container=ENDS)
    scene.run(90.0)
    return [
        ("Job", "queued-training", "it is suspended until its queue admits it"),
        ("Job", "no-workers", "its parallelism is 0"),
        ("Job", "second-try", "it is complete after a retry"),
        ("Job", "long-running", "its deadline is far away"),
        ("CronJob", "month-end", "it is suspended"),
        ("CronJob", "new-year", "its first run is on the first of January"),
    ]


def rollouts(scene: Scene) -> Fine:
    """Workloads that are held by their own strategy, or that are on their way."""
    workload(scene, "frozen", replicas=2)
    workload(scene, "sleeper", replicas=0)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    workload(scene, "canary", "StatefulSet", replicas=3, more={"updateStrategy": strategy})
    workload(scene, "by-hand", "DaemonSet", more={"updateStrategy": {"type": "OnDelete"}})
    once = "if [ -f /state/ok ]; then sleep infinity; fi; touch /state/ok; exit 1"
    mount = [{"name": "state", "mountPath": "/state"}]
    container = {"image": "busybox:1.36", "command": ["sh", "-c", once], "volumeMounts": mount}
    workload(scene, "restarted-once", volumes=[{"name": "state", "emptyDir": {}}], container=container)
    workload(scene, "upgraded", replicas=2)
    scene.run(40.0)
    change_image(scene, "StatefulSet", "canary", "nginx:1.28")
    change_image(scene, "DaemonSet", "by-hand", "nginx:1.28")
    change_image(scene, "Deployment", "upgraded", "nginx:1.28")
    scene.merge("Deployment", "frozen", {"spec": {"paused": True}})
    scene.run(60.0)
    found = [each for each in scene.cluster.list(REPLICASETS, scene.namespace) if not each["spec"]["replicas"]]
    old = [each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith("upgraded")]
    workload(scene, "warming-up", replicas=2, annotations={"hollow.kcm.dev/ready-after-seconds": "40"})
    workload(scene, "in-order", "StatefulSet", replicas=3, annotations={"hollow.kcm.dev/ready-after-seconds": "20"})
    scene.run(8.0)
    return [
        ("Deployment", "frozen", "it is paused, with all of its pods"),
        ("Deployment", "sleeper", "it is scaled to 0"),
        ("StatefulSet", "canary", "its partition keeps the other pods"),
        ("DaemonSet", "by-hand", "its pods are updated when they are deleted"),
        ("Pod", pods_of(scene, "restarted-once")[0]["metadata"]["name"], "it has run since its only restart"),
        ("ReplicaSet", old[0], "it is an old revision"),
        ("Deployment", "warming-up", "its pods are ready 40 s after their start"),
        ("StatefulSet", "in-order", "its pods start one after the other"),
    ]


def volumes(scene: Scene) -> Fine:
    """Claims and volumes without a user."""
    claim(scene, "waits-for-a-pod", storageClassName="hollow-wait")
    claim(scene, "spare-disk")
    static_volume(scene, "kept-after-delete", "10Gi", storageClassName="archive")
    static_volume(scene, "never-claimed", "10Gi", storageClassName="archive-2")
    claim(scene, "short", "10Gi", storageClassName="archive")
    scene.run(20.0)
    scene.delete("PersistentVolumeClaim", "short")
    scene.run(20.0)
    return [
        ("PersistentVolumeClaim", "waits-for-a-pod", "its class waits for the first pod"),
        ("PersistentVolumeClaim", "spare-disk", "it is bound, and nothing uses it"),
        ("PersistentVolume", "kept-after-delete", "it is retained"),
        ("PersistentVolume", "never-claimed", "it is available"),
    ]


def networks(scene: Scene) -> Fine:
    """Services without pods, as intended."""
    spec = {"type": "ExternalName", "externalName": "db.example.com"}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"}, "spec": spec})
    ports = [{"name": "sql", "port": 5432}]
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mainframe"}, "spec": {"ports": ports}})
    scene.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "mainframe-1", "labels": {"kubernetes.io/service-name": "mainframe"}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        }
    )
    scene.run(10.0)
    return [
        ("Service", "outside", "it is a name outside of the cluster"),
        ("Service", "mainframe", "its endpoints are written by hand"),
    ]


def limits(scene: Scene) -> Fine:
    """A quota that is used up without a victim, a budget with room, and what waits for a first user."""
    workload(scene, "exact", replicas=2, container={"resources": {"requests": {"cpu": "128m"}}})
    quota(scene, "exactly-used", requests_cpu="256m")
    budget(scene, "roomy", {"app": "exact"}, minAvailable=1)
    scene.create(DEVICE_CLASSES, "scanner.example.com", {"spec": {}})
    request = {"name": "one", "exactly": {"deviceClassName": "scanner.example.com"}}
    scene.create(RESOURCE_CLAIMS, "unused-device", {"spec": {"devices": {"requests": [request]}}})
    names = {"plural": "parrots", "singular": "parrot", "kind": "Parrot"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    definition = {"group": "birds.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    scene.create(CUSTOM_RESOURCE_DEFINITIONS, "parrots.birds.example.com", {"spec": definition})
    scene.merge("Node", "hollow-node-2", {"spec": {"unschedulable": True}})
    scene.run(30.0)
    return [
        ("ResourceQuota", "exactly-used", "everything fits exactly"),
        ("PodDisruptionBudget", "roomy", "one pod may be evicted"),
        ("ResourceClaim", "unused-device", "no pod uses it yet"),
        ("CustomResourceDefinition", "parrots.birds.example.com", "it is established and has no objects"),
        ("Node", "hollow-node-2", "it is cordoned"),
    ]


MAKERS = (jobs, rollouts, volumes, networks, limits)

if __name__ == "__main__":
    sys.exit(main(MAKERS))
