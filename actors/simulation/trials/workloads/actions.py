"""What users do with workloads: they scale them, change their image, delete and replace them, and delete their pods."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actors.simulation import SimulatedCluster
from actors.simulation.trials.actions import create, merge, replace
from actors.simulation.trials.scenario import NAMESPACE, NOTHING, Action, Scenario
from protocols.objects import Object, labels_of, make_key, metadata, name_of
from protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource

KINDS = (DEPLOYMENTS, REPLICASETS, REPLICATION_CONTROLLERS)
NAMES = {DEPLOYMENTS: "web", REPLICASETS: "set", REPLICATION_CONTROLLERS: "old"}
IMAGES = 4  # image v1 is the first one


def workload(
    resource: Resource, name: str, replicas: int, image: str, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> Object:
    """A Deployment, ReplicaSet or ReplicationController. pod: more fields of its pods' spec."""
    labels = {"app": name}
    selector: Object = labels if resource == REPLICATION_CONTROLLERS else {"matchLabels": labels}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}], **pod}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


def replica_actions(
    scenario: Scenario, resource: Resource, *, at: float, most: int, changes: Sequence[str]
) -> Iterable[Action]:
    """A workload that keeps a number of pods is created at this time, and changed up to so many times."""
    chance = scenario.chance(f"{resource.plural} actions")
    first = workload(resource, NAMES[resource], chance.randint(1, 5), "v1", pod=scenario.pod)
    yield create(at, resource, first)
    for when in scenario.times(chance, chance.randint(1, most)):
        yield change(chance, when, resource, chance.choice(changes), pod=scenario.pod)


def change(
    chance: random.Random, at: float, resource: Resource, what: str, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> Action:
    """what: "scale", "image", "kill", "anew" or "orphan". pod, spec: as `workload`, where another one is created."""
    name = NAMES[resource]
    key = make_key(NAMESPACE, name)
    match what:
        case "image":
            return set_image(at, resource, key, f"v{chance.randint(1, IMAGES)}")
        case "kill":
            return kill(at, name, chance.randrange(6))
        case "anew":
            other = workload(resource, name, chance.randint(1, 4), "v1", pod=pod, **spec)
            return replace(at, resource, key, other)
        case "orphan":
            return orphan(at, name)
        case "scale":
            return scale(at, resource, key, chance.randint(0, 6))
    raise ValueError(f"{what!r} is no change of a workload")


def scale(at: float, resource: Resource, key: str, replicas: int) -> Action:
    return merge(at, resource, key, {"spec": {"replicas": replicas}}, f"scale to {replicas}")


def set_image(at: float, resource: Resource, key: str, image: str) -> Action:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return merge(at, resource, key, {"spec": {"template": template}}, f"image {image}")


def kill(at: float, app: str, index: int) -> Action:
    """A user deletes a pod."""

    def do(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, app) if not metadata(pod).get("deletionTimestamp")]
        wanted = sum(
            obj["spec"].get("replicas", 1)
            for resource in KINDS
            for obj in cluster.list(resource, NAMESPACE)
            if name_of(obj) == app
        )
        if not pods:
            return bool(wanted == 0)
        cluster.delete(PODS, make_key(NAMESPACE, name_of(pods[index % len(pods)])))
        return True

    return Action(at, f"delete a pod of {app}", do)


def orphan(at: float, app: str) -> Action:
    """A user creates a pod that an owner's selector matches."""
    pod = {
        "metadata": {"generateName": f"{app}-stray-", "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    }

    def do(cluster: SimulatedCluster) -> bool:
        cluster.create(PODS, pod)
        return True

    return Action(at, f"create a pod without an owner that {app} selects", do)


def pods_of(cluster: SimulatedCluster, app: str) -> list[Object]:
    """Pods with its label, by name."""
    pods = [pod for pod in cluster.list(PODS, NAMESPACE) if labels_of(pod).get("app") == app]
    return sorted(pods, key=name_of)
