"""Simulation trial of the StatefulSet controller: users scale and change StatefulSets, and delete their pods."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import Owns, replicas_of
from kcm.actors.simulation.invariants.workloads.identities import EachIdentityOnce, OrderIsKept
from kcm.actors.simulation.trials.actions import merge
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import is_silent, no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import (
    WorkloadUser,
    change_image,
    change_min_ready_seconds,
    recreate,
    rescale,
    workloads,
)
from kcm.actors.simulation.trials.workloads.outcome import is_available, status_differences
from kcm.protocols.objects import Object, controller_of, is_deleting, labels_of, make_key, metadata, name_of, uid_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import CONTROLLER_REVISIONS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS

NAME = "statefulset-controller"
REVISION = "controller-revision-hash"
POLICIES = ("Retain", "Delete")
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def _actions(scenario: Scenario) -> Iterator[Action]:
    """Return the user actions: create and change StatefulSets.

    All StatefulSets of a scenario, including recreated ones, have the same claim templates and the same retention
    policy.
    """
    chance = scenario.chance("what becomes of claims")
    claims = chance.choice((0, 0, 1, 2))
    retention = {when: chance.choice(POLICIES) for when in ("whenDeleted", "whenScaled")}
    policy = chance.choice(("OrderedReady", "OrderedReady", "Parallel"))

    def spec(chance: random.Random) -> Object:
        drawn: Object = {
            "serviceName": "db",
            "podManagementPolicy": policy,
            "persistentVolumeClaimRetentionPolicy": retention,
            "volumeClaimTemplates": [{"metadata": {"name": f"data-{i}"}, "spec": STORAGE} for i in range(claims)],
            "revisionHistoryLimit": chance.choice((0, 1, 10)),
        }
        if chance.random() < 0.2:
            drawn["ordinals"] = {"start": chance.choice((1, 3))}
        if chance.random() < 0.3:
            drawn["updateStrategy"] = _strategy(chance)
        return drawn

    return workloads(scenario, STATEFULSETS, at=1.7, changes=CHANGES, draw=spec)


def _strategy(chance: random.Random) -> Object:
    if chance.random() < 0.3:
        return {"type": "OnDelete", "rollingUpdate": None}
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": chance.choice((0, 0, 1, 2))}}


def _change_strategy(user: WorkloadUser, at: float) -> Iterator[Action]:
    strategy = _strategy(user.chance)
    yield merge(at, STATEFULSETS, user.key, {"spec": {"updateStrategy": strategy}}, f"strategy {strategy}")


def _change_first_ordinal(user: WorkloadUser, at: float) -> Iterator[Action]:
    start = user.chance.choice((0, 1, 2))
    yield merge(at, STATEFULSETS, user.key, {"spec": {"ordinals": {"start": start}}}, f"ordinals from {start}")


def _delete_pod(user: WorkloadUser, at: float) -> Iterator[Action]:
    index = user.chance.randrange(6)

    def do(cluster: SimulatedCluster) -> bool:
        pods = _pods_named_after(cluster, user.name)
        if pods:
            cluster.delete(PODS, make_key(NAMESPACE, pods[index % len(pods)]))
        return True

    yield Action(at, f"delete a pod of {user.name}", do)


def _terminate_pod(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Set a pod to a terminal phase, as the kubelet of a node under pressure does."""
    index, phase = user.chance.randrange(6), user.chance.choice(("Failed", "Succeeded"))

    def do(cluster: SimulatedCluster) -> bool:
        pods = _pods_named_after(cluster, user.name)
        if pods:
            key = make_key(NAMESPACE, pods[index % len(pods)])
            cluster.merge(PODS, key, {"status": {"phase": phase}}, subresource="status")
        return True

    yield Action(at, f"a pod of {user.name} has {phase}", do)


def _create_pod_with_similar_name(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Create a pod without an owner whose name is, or resembles, the name of one of the StatefulSet's pods.

    If the names are equal, the StatefulSet adopts the pod, but the API server does not permit it to add its claims to
    the pod. As upstream, the pod would block a StatefulSet with claims permanently. So equal names are used only
    without claims.
    """
    suffix = user.chance.choice(("0", "1", "3", "01", "00", "x"))
    name = f"{user.name}-{suffix}"
    pod = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": user.name}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    }

    def do(cluster: SimulatedCluster) -> bool:
        is_ordinal = suffix in ("0", "1", "3")
        if cluster.get(PODS, make_key(NAMESPACE, name)) is None and not (is_ordinal and _has_claims(cluster)):
            cluster.create(PODS, pod)
        return True

    yield Action(at, f"create a pod {name} without an owner", do)


def _has_claims(cluster: SimulatedCluster) -> bool:
    """Report whether any StatefulSet has claim templates. Also True if there is no StatefulSet."""
    sets = cluster.list(STATEFULSETS, NAMESPACE)
    return not sets or any(obj["spec"].get("volumeClaimTemplates") for obj in sets)


CHANGES = (
    change_image,
    change_image,
    change_image,
    rescale,
    rescale,
    rescale,
    _delete_pod,
    _delete_pod,
    _terminate_pod,
    recreate,
    change_min_ready_seconds,
    _change_strategy,
    _create_pod_with_similar_name,
    _change_first_ordinal,
)


def _pods_named_after(cluster: SimulatedCluster, name: str) -> list[str]:
    pods = map(name_of, cluster.list(PODS, NAMESPACE))
    return sorted(pod for pod in pods if pod.rpartition("-")[0] == name and pod.rpartition("-")[2].isdecimal())


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for obj in cluster.shown(STATEFULSETS, NAMESPACE):
        pods = _pods_of(cluster, obj)
        if _is_blocked(cluster, obj):
            continue
        what, status = f"StatefulSet {name_of(obj)}", obj.get("status") or {}
        names, wanted = sorted(map(name_of, pods)), sorted(_names(obj))
        if names != wanted:
            yield f"{what}: its pods are {names}, not {wanted}"
        ready = [pod for pod in pods if pod_facts(pod).ready and not is_terminal(pod_facts(pod))]
        counts = {
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(1 for pod in ready if is_available(cluster, obj, pod)),
            "updatedReplicas": sum(1 for pod in pods if _revision(pod) == status.get("updateRevision")),
        }
        yield from status_differences(STATEFULSETS, obj, counts)
        for pod in pods:
            if not pod_facts(pod).ready or is_deleting(pod):
                yield f"{what}: pod {name_of(pod)} is not ready"
            elif _must_be_updated(obj, pod) and _revision(pod) != status.get("updateRevision"):
                yield f"{what}: pod {name_of(pod)} has revision {_revision(pod)}, not {status.get('updateRevision')}"
            yield from _unsettled_claims(cluster, obj, pod)


def _unsettled_claims(cluster: SimulatedCluster, obj: Object, pod: Object) -> Iterable[str]:
    """Yield a text for each missing claim of a pod, and for each claim with wrong owners.

    With the retention policy Delete, a claim may be missing permanently, or terminating: it may have been deleted with
    a former StatefulSet of the same name.
    """
    retention = obj["spec"]["persistentVolumeClaimRetentionPolicy"]
    goes = retention["whenDeleted"] == "Delete"
    for template in obj["spec"].get("volumeClaimTemplates") or ():
        name = f"{name_of(template)}-{name_of(pod)}"
        claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, make_key(NAMESPACE, name))
        if claim is None or is_deleting(claim):
            if not goes:
                yield f"claim {name} of pod {name_of(pod)} does not exist"
            continue
        owners = [reference["uid"] for reference in metadata(claim).get("ownerReferences") or ()]
        if owners != ([uid_of(obj)] if goes else []):
            yield f"claim {name} is owned by {owners}; its set must {'' if goes else 'not '}be its owner"


def _pods_of(cluster: SimulatedCluster, obj: Object) -> list[Object]:
    pods = cluster.shown(PODS, NAMESPACE)
    return [pod for pod in pods if (owner := controller_of(pod)) is not None and owner.uid == uid_of(obj)]


def _names(obj: Object) -> list[str]:
    start = (obj["spec"].get("ordinals") or {}).get("start", 0)
    return [f"{name_of(obj)}-{ordinal}" for ordinal in range(start, start + replicas_of(obj))]


def _revision(pod: Object) -> str | None:
    return labels_of(pod).get(REVISION)


def _must_be_updated(obj: Object, pod: Object) -> bool:
    strategy = obj["spec"]["updateStrategy"]
    if strategy["type"] == "OnDelete":
        return False
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    return name_of(pod) in _names(obj)[partition:]


def _is_blocked(cluster: SimulatedCluster, obj: Object) -> bool:
    """Report whether a StatefulSet waits for the deletion of a pod on a silent node.

    The pod has a name of the StatefulSet's pods, but may have another owner.
    """
    silent = {name_of(node) for node in cluster.shown(NODES) if is_silent(node)}
    pods = [pod for pod in cluster.shown(PODS, NAMESPACE) if name_of(pod).rpartition("-")[0] == name_of(obj)]
    return any(pod_facts(pod).node in silent for pod in pods)


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the names of the pods of each StatefulSet, or its spec.replicas if a node is silent.

    If a node is silent, the existing pods depend on timing, because a StatefulSet may wait for a pod there. Revisions
    of pods are not included: with a partition or the strategy OnDelete they depend on timing.
    """
    no_silent_nodes = no_node_is_silent(cluster)
    return {
        f"StatefulSet {name_of(obj)}": sorted(map(name_of, _pods_of(cluster, obj)))
        if no_silent_nodes
        else replicas_of(obj)
        for obj in cluster.shown(STATEFULSETS, NAMESPACE)
    }


TRIAL = Trial(
    controller=NAME,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (
        EachIdentityOnce(),
        OrderIsKept(cluster, sender=controller_name(NAME)),
    ),
    owns=(Owns(STATEFULSETS, CONTROLLER_REVISIONS), Owns(STATEFULSETS, PODS, pods=replicas_of)),
)
