"""Scenarios with user actions that reveal the bugs of mutants."""

from __future__ import annotations

import random
from collections.abc import Callable

from kcm.actors.controllers.workloads.deployment.objects import parse_deployment
from kcm.actors.controllers.workloads.deployment.revisions import new_replica_set
from kcm.actors.hollow.behaviour import REJECT
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, merge
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.workloads.actions import pods_of, workload
from kcm.protocols.nodes import EXCLUDE_BALANCERS
from kcm.protocols.objects import Object, is_deleting, key_of, labels_of
from kcm.protocols.resources import (
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    resource_path,
)
from tests.faults.combined_actions import SCENARIOS, workload_actions

WEB, SET = f"{NAMESPACE}/web", f"{NAMESPACE}/set"


def scaled(replicas: int) -> Object:
    return {"spec": {"replicas": replicas}}


def with_image(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def changed(*changes: str) -> Callable[[Scenario], tuple[Action, ...]]:
    """Draw ReplicaSets and ReplicationControllers with only these changes."""
    return workload_actions((REPLICASETS, REPLICATION_CONTROLLERS), changes)


def rollouts(scenario: Scenario) -> tuple[Action, ...]:
    """Draw a Deployment with successive or overlapping rollouts."""
    chance = scenario.chance("rollouts")
    strategy = chance.choice(
        ({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    )
    times = sorted(round(chance.uniform(4.0, scenario.seconds), 2) for _ in range(4))
    first = create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(2, 6), "v1", strategy=strategy))
    return (first, *(merge(at, DEPLOYMENTS, WEB, with_image(f"v{n}")) for n, at in enumerate(times, start=2)))


def many_pods(scenario: Scenario) -> tuple[Action, ...]:
    """Create more pods at once than the rate limit permits."""
    chance = scenario.chance("many pods")
    first = create(2.0, REPLICASETS, workload(REPLICASETS, "set", chance.randint(50, 70), "v1"))
    return first, merge(20.0, REPLICASETS, SET, scaled(chance.randint(5, 20)))


def slow_to_be_available(scenario: Scenario) -> tuple[Action, ...]:
    """Draw workloads with minReadySeconds."""
    chance = scenario.chance("min ready")
    spec = {"minReadySeconds": chance.randint(3, 9)}
    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(1, 3), "v1", **spec)),
        create(1.5, REPLICASETS, workload(REPLICASETS, "set", chance.randint(1, 3), "v1", **spec)),
        merge(chance.uniform(8, 15), REPLICASETS, SET, scaled(chance.randint(4, 6))),
        merge(chance.uniform(15, 25), DEPLOYMENTS, WEB, with_image("v2")),
    )


def killed_and_scaled(scenario: Scenario) -> tuple[Action, ...]:
    """Delete most pods one after the other, then scale down."""
    chance = scenario.chance("killed and scaled")

    def delete_one_pod(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, "set") if not is_deleting(pod)]
        cluster.delete(PODS, key_of(random.Random(f"kill {round(cluster.clock.monotonic()) % SCENARIOS}").choice(pods)))
        return True

    times = sorted(round(chance.uniform(12.0, 19.0), 2) for _ in range(5))
    return (
        create(1.0, REPLICASETS, workload(REPLICASETS, "set", 4, "v1")),
        *(Action(at, "delete a pod of set", delete_one_pod) for at in times),
        merge(19.5, REPLICASETS, SET, scaled(1)),
    )


def a_node_comes_anew(scenario: Scenario) -> tuple[Action, ...]:
    """Delete and recreate a node at 30 s, so that it has no CIDR."""
    name = f"hollow-node-{scenario.number % 3}"

    def anew(cluster: SimulatedCluster) -> bool:
        node = cluster.get(NODES, name)
        assert node is not None
        cluster.delete(NODES, name)
        cluster.create(NODES, {"metadata": {"name": name, "labels": labels_of(node)}})
        return True

    return (Action(30.0, f"{name} is deleted, and made anew", anew),)


def squatters(scenario: Scenario) -> tuple[Action, ...]:
    """Create an object with the name that the Deployment's next ReplicaSet will have: a hash collision."""
    chance = scenario.chance("squatters")
    at = round(chance.uniform(6, 15), 2)

    def squat(cluster: SimulatedCluster) -> bool:
        deployment = cluster.get(DEPLOYMENTS, WEB)
        assert deployment is not None
        spec = deployment["spec"]
        template = {**spec["template"], "spec": {**spec["template"]["spec"]}}
        [container] = template["spec"]["containers"]
        template["spec"]["containers"] = [{**container, "image": "v2"}]
        updated = parse_deployment({**deployment, "spec": {**spec, "template": template}})
        name = new_replica_set(updated, [])["metadata"]["name"]
        other = workload(REPLICASETS, name, 0, "v9")
        cluster.create(REPLICASETS, other)
        return True

    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", chance.randint(1, 4), "v1")),
        Action(at, "another object takes the next ReplicaSet's name", squat),
        merge(at + 0.5, DEPLOYMENTS, WEB, with_image("v2")),
    )


def deleted_in_the_foreground(scenario: Scenario) -> tuple[Action, ...]:
    """Delete an owner in the foreground."""
    chance = scenario.chance("foreground")
    at = round(chance.uniform(5, 20), 2)

    def delete(cluster: SimulatedCluster) -> bool:
        path = resource_path(REPLICASETS.id, NAMESPACE, "set")
        return cluster.request("DELETE", path, {"propagationPolicy": "Foreground"}).status < 300

    return (
        create(1.0, REPLICASETS, workload(REPLICASETS, "set", chance.randint(1, 5), "v1")),
        Action(at, "ReplicaSet set is deleted in the foreground", delete),
    )


def scaled_while_it_rolls(scenario: Scenario) -> tuple[Action, ...]:
    """Start a rollout without surge, and scale down right after its beginning."""
    chance = scenario.chance("scaled while it rolls")
    replicas = chance.randint(3, 6)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    at = round(chance.uniform(6, 12), 2)
    return (
        create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas, "v1", strategy=strategy)),
        merge(at, DEPLOYMENTS, WEB, with_image("v2")),
        merge(at + chance.choice((0.005, 0.01, 0.02, 0.05)), DEPLOYMENTS, WEB, scaled(replicas - 1)),
    )


def paused_rollouts(scenario: Scenario) -> tuple[Action, ...]:
    """Pause a Deployment without history in the middle of a rollout, and resume it later."""
    chance = scenario.chance("paused rollouts")
    first = workload(DEPLOYMENTS, "web", chance.randint(3, 6), "v1", revisionHistoryLimit=0)
    at = round(chance.uniform(6, 15), 2)
    return (
        create(1.0, DEPLOYMENTS, first),
        merge(at, DEPLOYMENTS, WEB, with_image("v2")),
        merge(at + chance.choice((0.1, 0.3, 1.0)), DEPLOYMENTS, WEB, {"spec": {"paused": True}}),
        merge(at + 10.0, DEPLOYMENTS, WEB, {"spec": {"paused": False}}),
    )


def rejected(scenario: Scenario) -> tuple[Action, ...]:
    """Create pods that every node rejects, until their template is corrected."""
    chance = scenario.chance("rejected")
    first = workload(DEPLOYMENTS, "web", chance.randint(1, 3), "v1")
    first["spec"]["template"]["metadata"] = {**first["spec"]["template"]["metadata"], "annotations": {REJECT: "true"}}
    corrected = {"spec": {"template": {"metadata": {"annotations": {REJECT: None}}}}}
    return create(1.0, DEPLOYMENTS, first), merge(25.0, DEPLOYMENTS, WEB, corrected)


def hosts_and_their_service_change(scenario: Scenario) -> tuple[Action, ...]:
    """Change a Service with a load balancer at about the same time as its target nodes."""
    chance = scenario.chance("hosts")
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    actions = [create(1.0, SERVICES, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})]
    for number in range(2):
        at = 30.0 * number + chance.uniform(20.0, 24.0)
        speed = {"metadata": {"annotations": {"example.com/speed": str(number)}}}
        actions += [
            merge(at, NODES, "hollow-node-0", excluded(number == 0)),
            merge(at + chance.uniform(0.5, 2.0), NODES, "hollow-node-1", excluded(number == 0)),
            merge(at + chance.uniform(2.0, 4.0), SERVICES, WEB, speed),
        ]
    return tuple(sorted(actions, key=lambda action: action.at))


def excluded(there: bool) -> Object:
    """Return the merge patch that excludes a node from load balancers, or includes it."""
    return {"metadata": {"labels": {EXCLUDE_BALANCERS: "true" if there else None}}}
