"""User actions on workloads and their pods: create, scale, change, replace, delete."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, delete, merge, replace
from kcm.actors.simulation.trials.scenario import NAMESPACE, NOTHING, Action, Scenario
from kcm.protocols.objects import Object, labels_of, make_key, metadata, name_of
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS, STATEFULSETS, Resource

KINDS = (DEPLOYMENTS, REPLICASETS, REPLICATION_CONTROLLERS)
NAMES = {DEPLOYMENTS: "web", REPLICASETS: "set", REPLICATION_CONTROLLERS: "old", STATEFULSETS: "db"}
IMAGES = 4  # image v1 is the first one
SIZES = (0, 1, 2, 2, 3, 3, 4, 5, 7)


def workload(
    resource: Resource, name: str, replicas: int, image: str, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> Object:
    """Return a Deployment, ReplicaSet, StatefulSet or ReplicationController.

    pod: additional fields of the pod spec.
    spec: additional fields of the workload's spec.
    """
    labels = {"app": name}
    selector: Object = labels if resource == REPLICATION_CONTROLLERS else {"matchLabels": labels}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}], **pod}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


def workloads(
    scenario: Scenario,
    resource: Resource,
    *,
    at: float,
    changes: Sequence[Change],
    draw: Callable[[random.Random], Object] = lambda _chance: {},
) -> Iterator[Action]:
    """Yield the actions on up to two workloads of one kind, in random order.

    at: time at which they are created.
    changes: functions that return the actions of a change.
    draw: returns additional fields for the spec of a created workload.
    """
    chance = scenario.chance(f"{resource.plural} actions")
    for name in scenario.names(chance, NAMES[resource], chance.choice((1, 1, 2))):
        user = WorkloadUser(scenario, chance, resource, name, draw)
        yield from scenario.life(
            chance,
            make=user.make,
            changes=[partial(change, user) for change in changes],
            remove=user.remove,
            at=at,
        )


class WorkloadUser:
    """User actions on one workload."""

    def __init__(
        self,
        scenario: Scenario,
        chance: random.Random,
        resource: Resource,
        name: str,
        draw: Callable[[random.Random], Object],
    ) -> None:
        self.chance, self.resource, self.name = chance, resource, name
        self.key = make_key(NAMESPACE, name)
        self._scenario, self._draw = scenario, draw

    def new(self) -> Object:
        chance = self.chance
        spec = self._draw(chance)
        if chance.random() < 0.2:
            spec = {**spec, "minReadySeconds": chance.randint(1, 5)}
        replicas, image = chance.choice(SIZES), f"v{chance.choice((1, 1, IMAGES))}"
        return workload(self.resource, self.name, replicas, image, pod=self._scenario.pod, **spec)

    def make(self, at: float) -> Iterator[Action]:
        yield create(at, self.resource, self.new())

    def remove(self, at: float) -> Iterator[Action]:
        """Yield the action that deletes the workload and its pods.

        Foreground deletion is drawn only if all pods will disappear; otherwise it would not end.
        """
        policies = ("Background", "Foreground") if self._scenario.steady else ("Background",)
        yield delete(at, self.resource, self.key, policy=self.chance.choice(policies))


Change = Callable[[WorkloadUser, float], Iterator[Action]]

# Changes that `workloads` may draw. The workload may not have reached its previous desired state yet.


def rescale(user: WorkloadUser, at: float) -> Iterator[Action]:
    yield scale(at, user.resource, user.key, user.chance.choice(SIZES))


def change_image(user: WorkloadUser, at: float) -> Iterator[Action]:
    yield set_image(at, user.resource, user.key, f"v{user.chance.randint(1, IMAGES)}")


def delete_pod(user: WorkloadUser, at: float) -> Iterator[Action]:
    yield delete_one_pod(at, user.name, user.chance.randrange(6))


def delete_pods(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Delete two or three pods of the workload within a second."""
    for number in range(user.chance.randint(2, 3)):
        yield delete_one_pod(round(at + number * 0.3, 2), user.name, user.chance.randrange(6))


def recreate(user: WorkloadUser, at: float) -> Iterator[Action]:
    yield replace(at, user.resource, user.key, user.new())


def create_stray_pod(user: WorkloadUser, at: float) -> Iterator[Action]:
    yield orphan(at, user.name)


def change_min_ready_seconds(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Change minReadySeconds, after which a ready pod counts as available."""
    seconds = user.chance.choice((0, 1, 4))
    changes = {"spec": {"minReadySeconds": seconds}}
    yield merge(at, user.resource, user.key, changes, f"minReadySeconds {seconds}")


def scale(at: float, resource: Resource, key: str, replicas: int) -> Action:
    return merge(at, resource, key, {"spec": {"replicas": replicas}}, f"scale to {replicas}")


def set_image(at: float, resource: Resource, key: str, image: str) -> Action:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return merge(at, resource, key, {"spec": {"template": template}}, f"image {image}")


def delete_one_pod(at: float, app: str, index: int) -> Action:
    """Return the action that deletes a pod of an app, once it has one.

    Nothing is deleted if the app's workloads request no pods.

    index: selects the pod, modulo the number of pods.
    """

    def do(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, app) if not metadata(pod).get("deletionTimestamp")]
        wanted = sum(
            obj["spec"].get("replicas", 1)
            for resource in KINDS
            for obj in cluster.shown(resource, NAMESPACE)
            if name_of(obj) == app
        )
        if not pods:
            return bool(wanted == 0)
        cluster.delete(PODS, make_key(NAMESPACE, name_of(pods[index % len(pods)])))
        return True

    return Action(at, f"delete a pod of {app}", do)


def orphan(at: float, app: str) -> Action:
    """Return the action that creates a pod without an owner, which the selector of the app's workload matches."""
    pod = {
        "metadata": {"generateName": f"{app}-stray-", "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    }

    def do(cluster: SimulatedCluster) -> bool:
        cluster.create(PODS, pod)
        return True

    return Action(at, f"create a pod without an owner that {app} selects", do)


def pods_of(cluster: SimulatedCluster, app: str) -> list[Object]:
    """Return the pods with the label `app`, sorted by name."""
    pods = [pod for pod in cluster.shown(PODS, NAMESPACE) if labels_of(pod).get("app") == app]
    return sorted(pods, key=name_of)
