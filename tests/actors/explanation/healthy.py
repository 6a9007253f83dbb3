"""Healthy objects of all kinds, also some that are seconds old or being rolled out: nothing about them is wrong.

python -m tests.actors.explanation.healthy [--seed 7] [--namespaces 12]
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.kinds import KINDS
from kcm.actors.explanation.networking import INGRESS_CLASSES
from kcm.actors.explanation.text import text_of
from kcm.actors.simulation.metrics_server import metrics_server
from kcm.protocols.objects import Object, key_of
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, DEVICE_CLASSES, EVENTS, RESOURCE_CLAIMS, Resource
from tests.actors.explanation.scenario import Scene
from tests.actors.explanation.scenarios.batch import cron_spec, job_spec
from tests.actors.explanation.scenarios.network import autoscaler, budget, ingress, requests, service
from tests.actors.explanation.scenarios.storage import claim, device_user, user, volume
from tests.actors.explanation.stage import Stage, StoreReader

THINGS = Resource(group="example.com", version="v1", plural="things", kind="Thing")
PROBES: dict[str, Any] = {
    "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
    "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 10},
}
MOMENTS = (1.0, 3.0, 7.0, 20.0)  # seconds after a change, when all objects are explained


class Report(Struct, frozen=True):
    """Explanation of a healthy object. moment: what happened before."""

    moment: str
    explanation: Explanation

    @property
    def is_false(self) -> bool:
        right = ("nothing is wrong",) if self.moment == "settled" else ("nothing is wrong", "under way")
        return self.explanation.verdict not in right


# Parts of a namespace. Each is drawn with its size.


def _web(scene: Scene, name: str) -> None:
    replicas = scene.chance.randint(2, 4)
    ports = {"ports": [{"containerPort": 80, "name": "http"}]}
    container = {**requests(), **(PROBES if scene.chance.random() < 0.5 else {}), **ports}
    scene.pod_owner(name, kind="Deployment", replicas=replicas, container=container)
    service(scene, name, {"app": name}, ports=[{"port": 80, "targetPort": "http"}])
    budget(scene, name, **scene.chance.choice(({"maxUnavailable": 1}, {"minAvailable": 1}, {"minAvailable": "50%"})))
    if scene.chance.random() < 0.5:
        autoscaler(scene, name)
    ingress(scene, name, name, **scene.chance.choice(({"ingressClassName": "web"}, {})))  # "web" is the default class


def _database(scene: Scene, name: str) -> None:
    labels = {"app": name}
    container = {"name": "main", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    data = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if scene.chance.random() < 0.4:
        data["storageClassName"] = "hollow-wait"
    spec = {
        "serviceName": name,
        "replicas": scene.chance.randint(1, 3),
        "selector": {"matchLabels": labels},
        "podManagementPolicy": scene.chance.choice(("OrderedReady", "Parallel")),
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": data}],
    }
    scene.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec})
    service(scene, name, {"app": name}, clusterIP="None")


def _agent(scene: Scene, name: str) -> None:
    scene.pod_owner(name, kind="DaemonSet", container=PROBES)


def _jobs(scene: Scene, name: str) -> None:
    chosen = {
        "done": job_spec(f"{name}-done", ["true"], completions=scene.chance.randint(1, 3)),
        "runs": job_spec(f"{name}-runs", ["sleep", "infinity"], parallelism=scene.chance.randint(1, 3)),
        "index": job_spec(f"{name}-index", ["sleep", "5"], completions=2, completionMode="Indexed"),
    }
    for part, spec in chosen.items():
        meta = {"name": f"{name}-{part}"}
        scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def _crons(scene: Scene, name: str) -> None:
    schedule = scene.chance.choice(("* * * * *", "*/2 * * * *", "@hourly", "30 3 * * *"))
    spec = cron_spec(name, schedule, ["true"], concurrencyPolicy=scene.chance.choice(("Allow", "Forbid", "Replace")))
    scene.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec})


def _single(scene: Scene, name: str) -> None:
    scene.pod_owner(f"{name}-pod", kind="Pod")
    scene.pod_owner(f"{name}-set", kind="ReplicaSet", replicas=scene.chance.randint(0, 2))
    init = [{"name": "setup", "image": "busybox", "command": ["true"]}]
    scene.pod_owner(f"{name}-init", kind="Pod", initContainers=init)
    done = {"image": "busybox", "command": ["true"]}
    scene.pod_owner(f"{name}-done", kind="Pod", container=done, restartPolicy="Never")


def _storage(scene: Scene, name: str) -> None:
    claim(scene, f"{name}-data")
    user(scene, f"{name}-reader", f"{name}-data")
    static = f"{scene.namespace}-{name}-static"
    volume(scene, static)
    claim(scene, f"{name}-static", storageClassName="", volumeName=static)
    volume(scene, f"{scene.namespace}-{name}-free", storageClassName="spare")


def _plain(scene: Scene, name: str) -> None:
    for kind in ("ConfigMap", "Secret", "ServiceAccount"):
        scene.apply({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
    memory = {"max": {"memory": "8Gi"}, "default": {"memory": "64Mi"}, "defaultRequest": {"memory": "16Mi"}}
    limits = [{"type": "Container", **memory}]
    scene.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": limits}})
    hard = {"pods": "100", "configmaps": "50"}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
    service(scene, f"{name}-external", {}, type="ExternalName", externalName="example.com", ports=[])
    spec = {"ports": [{"port": 80}]}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{name}-manual"}, "spec": spec})


def _devices(scene: Scene, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    scene.create(RESOURCE_CLAIMS, "gpu", {"spec": {"devices": {"requests": [request]}}})
    device_user(scene, resourceClaimName="gpu")


def _custom(scene: Scene, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "Reconciled", "message": ""}]
    scene.create(THINGS, name, {"spec": {"size": 3}, "status": {"observedGeneration": 1, "conditions": conditions}})


ONCE: tuple[Callable[[Scene, str], None], ...] = (_plain, _devices, _custom)
REPEATED: tuple[Callable[[Scene, str], None], ...] = (_web, _database, _agent, _jobs, _crons, _single, _storage)


# The cluster.


def _cluster_objects(stage: Stage) -> None:
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    ]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    stage.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": spec})
    selector = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    stage.cluster.create(DEVICE_CLASSES, {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": selector}})
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    class_: Object = {"metadata": {"name": "web", "annotations": default}, "spec": {"controller": "example.com/web"}}
    stage.cluster.create(INGRESS_CLASSES, class_)
    for node in stage.cluster.list(_resource("Node")):
        devices = {"metadata": {"annotations": {"hollow.kcm.dev/devices": "gpu.example.com=8"}}}
        stage.cluster.merge(_resource("Node"), key_of(node), devices)
    metrics_server(stage.cluster).cpu = lambda _pod: "50m"
    stage.run(5.0)


def _resource(kind: str) -> Resource:
    return next(known.resource for known in KINDS if known.resource.kind == kind)


def _fill(stage: Stage, namespaces: int, chance: random.Random) -> Iterator[str]:
    """Fill one namespace after the other; yield when its objects are to be explained."""
    for number in range(namespaces):
        namespace = f"team-{number}"
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        stage.run(2.0)
        scene = Scene(stage, namespace, random.Random(chance.random()))
        for part in ONCE:
            part(scene, part.__name__.strip("_"))
        for index in range(3):
            for part in scene.chance.sample(REPEATED, 4):
                part(scene, f"{part.__name__.strip('_')}-{index}")
        yield namespace


def _roll(scene: Scene) -> None:
    """Change the image of workloads, and scale them."""
    for kind in ("Deployment", "DaemonSet", "StatefulSet"):
        for found in scene.cluster.list(_resource(kind), scene.namespace):
            containers = [{**old, "image": "nginx:1.28"} for old in found["spec"]["template"]["spec"]["containers"]]
            changes: dict[str, Any] = {"template": {"spec": {"containers": containers}}}
            if kind != "DaemonSet" and scene.chance.random() < 0.5:
                changes = {"replicas": scene.chance.randint(2, 4)}
            scene.merge(kind, found["metadata"]["name"], {"spec": changes})


def objects_in(stage: Stage, namespace: str) -> list[tuple[Resource, str]]:
    """Return all objects of known kinds in a namespace; "" for cluster-scoped objects."""
    resources = [known.resource for known in KINDS if known.resource.namespaced == bool(namespace)]
    if namespace:
        resources.append(THINGS)
    return [
        (resource, key_of(obj))
        for resource in resources
        if resource != EVENTS
        for obj in stage.cluster.list(resource, namespace)
        if not (obj["metadata"].get("deletionTimestamp"))
    ]


class SnapshotReader(StoreReader):
    """Reader that reads each list once."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.cluster)
        self._lists: dict[tuple[str, str], Sequence[Object]] = {}

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        place = (resource.id, namespace)
        if place not in self._lists:
            self._lists[place] = super().list(resource, namespace, labels=labels, most=most)
        return self._lists[place]


def _explain_all(stage: Stage, namespace: str, moment: str) -> Iterator[Report]:
    assert stage.system is not None
    reader, now, view = SnapshotReader(stage), stage.cluster.clock.now(), stage.system.view()
    for resource, key in objects_in(stage, namespace):
        yield Report(moment, explain(resource, key, Evidence(reader, now=now, manager=view)))


def run_healthy(*, seed: int, namespaces: int) -> Iterator[Report]:
    """Yield a report about each object: seconds after it was created, settled, and while it is rolled out."""
    chance = random.Random(seed)
    with Stage(seed=seed, nodes=6, attach=True, devices=True) as stage:
        _cluster_objects(stage)
        made: list[str] = []
        for namespace in _fill(stage, namespaces, chance):
            made.append(namespace)
            wait = chance.choice(MOMENTS)
            stage.run(wait)
            yield from _explain_all(stage, namespace, f"{wait:.0f} s old")
        stage.run(200.0)
        for namespace in made:
            yield from _explain_all(stage, namespace, "settled")
        yield from _explain_all(stage, "", "settled")
        for namespace in made[: max(1, len(made) // 3)]:
            _roll(Scene(stage, namespace, random.Random(chance.random())))
            wait = chance.choice(MOMENTS)
            stage.run(wait)
            yield from _explain_all(stage, namespace, f"{wait:.0f} s after a change")
        stage.run(200.0)
        for namespace in made[: max(1, len(made) // 3)]:
            yield from _explain_all(stage, namespace, "settled")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.actors.explanation.healthy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--namespaces", type=int, default=8)
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    reports = list(run_healthy(seed=given.seed, namespaces=given.namespaces))
    for report in reports:
        if report.is_false:
            print(f"FALSE ({report.moment})\n{text_of(report.explanation)}")
    wrong = sum(report.is_false for report in reports)
    kinds = sorted({report.explanation.kind for report in reports})
    settled = sum(report.moment == "settled" for report in reports)
    print(f"{wrong} false reports on {len(reports)} healthy objects ({settled} settled) of {len(kinds)} kinds:")
    print(", ".join(kinds))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
