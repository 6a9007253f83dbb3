"""Simulation trial of the disruption controller: users create and change PodDisruptionBudgets, and evict pods."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.workloads.disruption.pod_counts import CannotCountError
from kcm.actors.controllers.workloads.disruption.stale_targets import marked_since
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.workloads.disruptions import CountsNoEvictedPod
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario, forms_of
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import NAMES, pods_of
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, controller_of, is_deleting, labels_of, make_key, metadata, name_of, uid_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
    resource_path,
)
from kcm.protocols.selectors import label_selector_of

OF_PODS = (REPLICATION_CONTROLLERS, REPLICASETS, STATEFULSETS)  # resources with spec.replicas that own pods
BASES = tuple(NAMES.values())
GAPS = (0.0, 0.003, 0.01, 0.02, 0.05, 0.7)  # seconds between two evictions
BOUNDS: tuple[Object, ...] = (
    {"minAvailable": 1},
    {"minAvailable": 3},
    {"minAvailable": "50%"},
    {"minAvailable": "34%"},
    {"minAvailable": "100%"},
    {"maxUnavailable": 1},
    {"maxUnavailable": "30%"},
    {"maxUnavailable": 0},
)
COUNTS = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("disruption actions")
    for name in scenario.names(chance, "budget", 2):
        yield from _budget(scenario, chance, name)


def _budget(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    base, key = chance.choice(BASES), make_key(NAMESPACE, name)
    # A budget that selects all pods overlaps with the other budgets. Pods with two budgets cannot be evicted.
    of_base: Object = {"matchExpressions": [{"key": "app", "operator": "In", "values": forms_of(base)}]}
    selector: Object = {} if chance.random() < 0.15 else of_base

    def make(at: float) -> Iterator[Action]:
        spec = {"selector": selector, **chance.choice(BOUNDS)}
        if chance.random() < 0.3:
            spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
        yield create(at, POD_DISRUPTION_BUDGETS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def change_bounds(at: float) -> Iterator[Action]:
        spec = {"minAvailable": None, "maxUnavailable": None, **chance.choice(BOUNDS)}
        yield merge(at, POD_DISRUPTION_BUDGETS, key, {"spec": spec})

    def drain(at: float) -> Iterator[Action]:
        """Evict several pods in quick succession, as simultaneous drains of several nodes do."""
        for _ in range(chance.randint(3, 8)):
            yield evict(at, base, chance.randrange(6))
            at = round(at + chance.choice(GAPS), 4)

    def remove(at: float) -> Iterator[Action]:
        yield unless_gone(delete(at, POD_DISRUPTION_BUDGETS, key), POD_DISRUPTION_BUDGETS, key)

    yield from scenario.life(chance, make=make, changes=(drain, drain, drain, change_bounds), remove=remove, most=5)


def evict(at: float, base: str, index: int) -> Action:
    """Return the action that evicts a pod, if there is one and its budget permits it.

    base: base of the names of the pods' workloads, see Scenario.names.
    index: selects the pod, modulo the number of pods.
    """

    def do(cluster: SimulatedCluster) -> bool:
        pods = [pod for form in forms_of(base) for pod in pods_of(cluster, form) if not is_deleting(pod)]
        if pods:
            name = name_of(pods[index % len(pods)])
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
            response = cluster.request("POST", resource_path(PODS.id, NAMESPACE, name, "eviction"), body)
            assert response.status in (201, 429), response.body
        return True

    return Action(at, f"evict a pod of {base}", do)


def expected_counts(cluster: SimulatedCluster, budget: Object) -> dict[str, int]:
    """Return the counts that the status of a PodDisruptionBudget must contain, computed from the existing objects."""
    spec = budget["spec"]
    selector = label_selector_of(spec.get("selector"))
    pods = [pod for pod in cluster.shown(PODS, NAMESPACE) if selector.matches(labels_of(pod))]
    size = sum(_sizes(cluster, pods).values())
    fewest, most_missing = spec.get("minAvailable"), spec.get("maxUnavailable")
    if isinstance(fewest, int):
        expected, desired = len(pods), fewest
    elif fewest is not None:
        expected, desired = size, _share(fewest, size)
    else:
        missing = most_missing if isinstance(most_missing, int) else _share(most_missing, size)
        expected, desired = size, max(0, size - missing)
    facts = map(pod_facts, pods)
    current = sum(fact.ready and not fact.deleting for fact in facts)
    allowed = max(0, current - desired) if expected > 0 else 0
    return dict(zip(COUNTS, (current, desired, allowed, expected), strict=True))


def _share(percentage: str, size: int) -> int:
    whole, rest = divmod(int(percentage.removesuffix("%")) * size, 100)
    return whole + (rest > 0)


def _sizes(cluster: SimulatedCluster, pods: Iterable[Object]) -> dict[str, int]:
    """Return spec.replicas of the pods' owners, by uid. The owner of a ReplicaSet's pods is its Deployment, if any."""
    owners = {
        uid_of(owner): owner for resource in (*OF_PODS, DEPLOYMENTS) for owner in cluster.shown(resource, NAMESPACE)
    }
    found = {}
    for pod in pods:
        reference = controller_of(pod)
        owner = None if reference is None else owners.get(reference.uid)
        if owner is not None:
            above = controller_of(owner)
            owner = owners.get(above.uid, owner) if above is not None else owner
            found[uid_of(owner)] = owner["spec"]["replicas"]
    return found


def _orphans(cluster: SimulatedCluster, budget: Object) -> list[Object]:
    """Return the selected pods whose owner was deleted; empty for a budget that ignores sizes of owners.

    While such a pod exists, for example on a silent node, the controller cannot compute the budget, so that no
    eviction is permitted.
    """
    spec = budget["spec"]
    if isinstance(spec.get("minAvailable"), int):
        return []
    selector = label_selector_of(spec.get("selector"))
    there = {uid_of(owner) for resource in OF_PODS for owner in cluster.shown(resource, NAMESPACE)}
    pods = [pod for pod in cluster.shown(PODS, NAMESPACE) if selector.matches(labels_of(pod))]
    references = [(pod, controller_of(pod)) for pod in pods]
    return [pod for pod, reference in references if reference is not None and reference.uid not in there]


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for budget in cluster.shown(POD_DISRUPTION_BUDGETS, NAMESPACE):
        status, what = budget.get("status") or {}, f"budget {name_of(budget)}"
        if orphans := _orphans(cluster, budget):
            # As upstream, no event follows if the pod was terminating before its owner was deleted.
            if status.get("disruptionsAllowed") and not all(map(is_deleting, orphans)):
                yield f"{what} permits {status['disruptionsAllowed']} evictions, but cannot be computed"
            continue
        if status.get("observedGeneration", 0) != metadata(budget).get("generation"):
            yield f"{what}: generation {metadata(budget).get('generation')} is not observed"
        for field, count in expected_counts(cluster, budget).items():
            if status.get(field) != count:
                yield f"{what}: {field} is {status.get(field)}, it should be {count}"
        if status.get("disruptedPods"):
            yield f"{what} waits for {sorted(status['disruptedPods'])}"
    for pod in cluster.shown(PODS):
        since = marked_since(pod)
        # As upstream, the condition stays an hour longer if it was written by a clock that was an hour ahead.
        if since is not None and since <= cluster.clock.now():
            yield f"pod {name_of(pod)} has the condition DisruptionTarget, but is not terminating"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    if not no_node_is_silent(cluster):
        return {}
    return {
        f"PodDisruptionBudget {name_of(budget)}": _determined_fields(budget)
        for budget in cluster.shown(POD_DISRUPTION_BUDGETS, NAMESPACE)
    }


def _determined_fields(budget: Object) -> Object:
    """Return the fields of a budget's status that do not depend on timing.

    The other counts include pods without an owner and pods that failed with their node, and it depends on timing
    whether these exist. A budget that selects a pod whose owner has no scale keeps its previous counts. So a budget of
    all pods has no determined field if its counts need the owners' scales: it depends on timing whether a pod of a Job,
    which has no scale, still exists.
    """
    spec, status = budget["spec"], budget.get("status") or {}
    needs_scales = not isinstance(spec.get("minAvailable"), int)
    if needs_scales and not any((spec.get("selector") or {}).values()):
        return {}
    allowed = find_condition(status.get("conditions"), "DisruptionAllowed") or {}
    if allowed.get("reason") == "SyncFailed":
        return {"reason": "SyncFailed"}
    determined = ["desiredHealthy", "expectedPods"] if needs_scales else ["desiredHealthy"]
    return {name: status.get(name) for name in determined}


TRIAL = Trial(
    controller="disruption-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (CountsNoEvictedPod(cluster),),
    raises=(CannotCountError,),
)
