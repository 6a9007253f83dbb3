"""What people wish where a mutant's bug has its occasion. The same for seeds that are equal modulo SCENARIOS."""

from __future__ import annotations

import random
from collections.abc import Callable

from actors.controllers.workloads.deployment.revisions import new_replica_set
from actors.hollow.behaviour import REJECT
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.scenarios import NAMESPACE, Wish, draw_wishes, pods_of, workload
from actors.simulation.campaign.setting import SCENARIOS, WISHES
from protocols.objects import Object, is_deleting, key_of, labels_of
from protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource, resource_path

WEB, SET = f"{NAMESPACE}/web", f"{NAMESPACE}/set"


def chance_of(seed: int, what: str) -> random.Random:
    return random.Random(f"{what} {seed % SCENARIOS}")


def create(at: float, resource: Resource, obj: Object) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.create(resource, obj)
        return True

    return Wish(at, f"create {resource.kind} {obj['metadata']['name']}", act)


def change(at: float, resource: Resource, key: str, changes: Object) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.merge(resource, key, changes)
        return True

    return Wish(at, f"{resource.kind} {key}: {changes}", act)


def scaled(replicas: int) -> Object:
    return {"spec": {"replicas": replicas}}


def with_image(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def changed(*changes: str) -> Callable[[int], tuple[Wish, ...]]:
    """ReplicaSets and ReplicationControllers to which nothing happens but these changes (campaign/scenarios.py)."""
    kinds = (REPLICASETS, REPLICATION_CONTROLLERS)
    return lambda seed: draw_wishes(seed % SCENARIOS, seconds=WISHES, kinds=kinds, changes=changes)


def rollouts(seed: int) -> tuple[Wish, ...]:
    """A Deployment that rolls from image to image, one after the other or one upon the other."""
    chance = chance_of(seed, "rollouts")
    strategy = chance.choice(
        ({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    )
    times = sorted(round(chance.uniform(4.0, WISHES), 2) for _ in range(4))
    first = create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(2, 6), "v1", strategy=strategy))
    return (first, *(change(at, DEPLOYMENTS, WEB, with_image(f"v{n}")) for n, at in enumerate(times, start=2)))


def many_pods(seed: int) -> tuple[Wish, ...]:
    """More pods than the rate limit lets through at once."""
    chance = chance_of(seed, "many pods")
    first = create(2.0, REPLICASETS, workload(REPLICASETS, "set", chance.randint(50, 70), "v1"))
    return first, change(20.0, REPLICASETS, SET, scaled(chance.randint(5, 20)))


def slow_to_be_available(seed: int) -> tuple[Wish, ...]:
    """Pods count as available only after some seconds: minReadySeconds."""
    chance = chance_of(seed, "min ready")
    spec = {"minReadySeconds": chance.randint(3, 9)}
    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(1, 3), "v1", **spec)),
        create(1.5, REPLICASETS, workload(REPLICASETS, "set", chance.randint(1, 3), "v1", **spec)),
        change(chance.uniform(8, 15), REPLICASETS, SET, scaled(chance.randint(4, 6))),
        change(chance.uniform(15, 25), DEPLOYMENTS, WEB, with_image("v2")),
    )


def killed_and_scaled(seed: int) -> tuple[Wish, ...]:
    """Somebody deletes most pods, one after the other; and then fewer are wished for."""
    chance = chance_of(seed, "killed and scaled")

    def kill(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, "set") if not is_deleting(pod)]
        cluster.delete(PODS, key_of(chance_of(round(cluster.clock.monotonic()), "kill").choice(pods)))
        return True

    times = sorted(round(chance.uniform(12.0, 19.0), 2) for _ in range(5))
    return (
        create(1.0, REPLICASETS, workload(REPLICASETS, "set", 4, "v1")),
        *(Wish(at, "delete a pod of set", kill) for at in times),
        change(19.5, REPLICASETS, SET, scaled(1)),
    )


def a_node_comes_anew(seed: int) -> tuple[Wish, ...]:
    """At 30 s a node is deleted and made once more: it has no range yet."""
    name = f"hollow-node-{seed % 3}"

    def anew(cluster: SimulatedCluster) -> bool:
        node = cluster.get(NODES, name)
        assert node is not None
        cluster.delete(NODES, name)
        cluster.create(NODES, {"metadata": {"name": name, "labels": labels_of(node)}})
        return True

    return (Wish(30.0, f"{name} is deleted, and made anew", anew),)


def squatters(seed: int) -> tuple[Wish, ...]:
    """Somebody takes the very name that a Deployment's next ReplicaSet would have: a collision of hashes."""
    chance = chance_of(seed, "squatters")
    at = round(chance.uniform(6, 15), 2)

    def squat(cluster: SimulatedCluster) -> bool:
        deployment = cluster.get(DEPLOYMENTS, WEB)
        assert deployment is not None
        spec = deployment["spec"]
        template = {**spec["template"], "spec": {**spec["template"]["spec"]}}
        [container] = template["spec"]["containers"]
        template["spec"]["containers"] = [{**container, "image": "v2"}]
        name = new_replica_set({**deployment, "spec": {**spec, "template": template}}, [])["metadata"]["name"]
        other = workload(REPLICASETS, name, 0, "v9")
        cluster.create(REPLICASETS, other)
        return True

    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(1, 4), "v1")),
        Wish(at, "somebody takes the next ReplicaSet's name", squat),
        change(at + 0.5, DEPLOYMENTS, WEB, with_image("v2")),
    )


def deleted_in_the_foreground(seed: int) -> tuple[Wish, ...]:
    """An owner goes once all that it owns is gone."""
    chance = chance_of(seed, "foreground")
    at = round(chance.uniform(5, 20), 2)

    def delete(cluster: SimulatedCluster) -> bool:
        path = resource_path(REPLICASETS.id, NAMESPACE, "set")
        return cluster.request("DELETE", path, {"propagationPolicy": "Foreground"}).status < 300

    return (
        create(1.0, REPLICASETS, workload(REPLICASETS, "set", chance.randint(1, 5), "v1")),
        Wish(at, "ReplicaSet set is deleted in the foreground", delete),
    )


def scaled_while_it_rolls(seed: int) -> tuple[Wish, ...]:
    """A rollout without surge, and right at its beginning fewer pods are wished for."""
    chance = chance_of(seed, "scaled while it rolls")
    replicas = chance.randint(3, 6)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    at = round(chance.uniform(6, 12), 2)
    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas, "v1", strategy=strategy)),
        change(at, DEPLOYMENTS, WEB, with_image("v2")),
        change(at + chance.choice((0.005, 0.01, 0.02, 0.05)), DEPLOYMENTS, WEB, scaled(replicas - 1)),
    )


def paused_rollouts(seed: int) -> tuple[Wish, ...]:
    """A Deployment that keeps no history is paused in the middle of a rollout, and goes on later."""
    chance = chance_of(seed, "paused rollouts")
    first = workload(DEPLOYMENTS, "web", chance.randint(3, 6), "v1", revisionHistoryLimit=0)
    at = round(chance.uniform(6, 15), 2)
    return (
        create(1.0, DEPLOYMENTS, first),
        change(at, DEPLOYMENTS, WEB, with_image("v2")),
        change(at + chance.choice((0.1, 0.3, 1.0)), DEPLOYMENTS, WEB, {"spec": {"paused": True}}),
        change(at + 10.0, DEPLOYMENTS, WEB, {"spec": {"paused": False}}),
    )


def rejected(seed: int) -> tuple[Wish, ...]:
    """Pods that every node turns down, until their template is mended."""
    chance = chance_of(seed, "rejected")
    first = workload(DEPLOYMENTS, "web", chance.randint(1, 3), "v1")
    first["spec"]["template"]["metadata"] = {**first["spec"]["template"]["metadata"], "annotations": {REJECT: "true"}}
    mended = {"spec": {"template": {"metadata": {"annotations": {REJECT: None}}}}}
    return create(1.0, DEPLOYMENTS, first), change(25.0, DEPLOYMENTS, WEB, mended)
