"""Simulation trial of the Deployment controller: users change, scale, pause, restart and replace Deployments."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.common.objects import OnlyEmptyReplicaSetsAreDeleted
from kcm.actors.simulation.invariants.ownership import Owns, replicas_of
from kcm.actors.simulation.invariants.workloads.availability import NeverFewerThanAllowed
from kcm.actors.simulation.invariants.workloads.deployments import NeverLargerThanAllowed, SizesWithinBounds
from kcm.actors.simulation.invariants.workloads.rollouts import bounds_of
from kcm.actors.simulation.trials.actions import merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import (
    WorkloadUser,
    change_image,
    change_min_ready_seconds,
    delete_pod,
    recreate,
    rescale,
    workloads,
)
from kcm.actors.simulation.trials.workloads.outcome import image_of, spec_and_status_of, status_differences
from kcm.protocols.objects import Key, Object, controller_of, name_of, uid_of
from kcm.protocols.resources import DEPLOYMENTS, NODES, REPLICASETS

STRATEGIES = ("Recreate", "RollingUpdate", "RollingUpdate", None)
HISTORIES = (0, 1, None)  # revisionHistoryLimit; None for the default


def _spec(chance: random.Random) -> Object:
    kept = chance.choice(HISTORIES)
    strategy = chance.choice(STRATEGIES)
    history = {} if kept is None else {"revisionHistoryLimit": kept}
    return {**history, **({} if strategy is None else {"strategy": _strategy(chance, strategy)})}


def _strategy(chance: random.Random, type: str) -> Object:
    if type == "Recreate":
        return {"type": type}
    surge, unavailable = chance.choice(((0, 1), (1, 1), (2, 1), (1, 0), ("25%", "25%"), ("50%", 0), (0, "50%")))
    return {"type": type, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _change_strategy(user: WorkloadUser, at: float) -> Iterator[Action]:
    type = user.chance.choice(("Recreate", "RollingUpdate"))
    changes = {"rollingUpdate": None, **_strategy(user.chance, type)}
    yield merge(at, DEPLOYMENTS, user.key, {"spec": {"strategy": changes}}, f"strategy {type}")


def _restart(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Yield the action that restarts the pods, as `kubectl rollout restart` does."""
    template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": f"at {at}"}}}
    yield merge(at, DEPLOYMENTS, user.key, {"spec": {"template": template}}, "restart")


def _pause(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Yield the actions that pause the Deployment and resume it some seconds later.

    If it stayed paused, the end state would depend on the progress of its rollout.
    """
    end = round(at + user.chance.choice((0.1, 1.0, 10.0)), 2)
    yield merge(at, DEPLOYMENTS, user.key, {"spec": {"paused": True}}, "paused")
    resumed = merge(end, DEPLOYMENTS, user.key, {"spec": {"paused": False}}, "resumed")
    yield unless_gone(resumed, DEPLOYMENTS, user.key)


def _delete_pod_unless_blocked(user: WorkloadUser, at: float) -> Iterator[Action]:
    """Yield the action that deletes a pod, skipped while the Deployment is paused or blocked.

    Later actions wait for this one. So it must not wait for a pod that only a later action lets the Deployment create.
    """
    for action in delete_pod(user, at):
        yield unless_blocked(action, user.key)


def unless_blocked(action: Action, key: Key) -> Action:
    """Return a copy of the action that is skipped while the Deployment is paused or waits for pods on silent nodes.

    key: key of the Deployment.
    """

    def do(cluster: SimulatedCluster) -> bool:
        if action.do(cluster):
            return True
        deployment = cluster.get(DEPLOYMENTS, key)
        if deployment is None:
            return False
        return bool(deployment["spec"].get("paused")) or _is_blocked(cluster, deployment)

    return action._replace(do=do)


def _change_history_limit(user: WorkloadUser, at: float) -> Iterator[Action]:
    kept = user.chance.choice((0, 1, 5))
    yield merge(at, DEPLOYMENTS, user.key, {"spec": {"revisionHistoryLimit": kept}}, f"keeps {kept} old ReplicaSets")


CHANGES = (
    change_image,
    change_image,
    change_image,
    rescale,
    rescale,
    _delete_pod_unless_blocked,
    recreate,
    change_min_ready_seconds,
    _restart,
    _pause,
    _change_strategy,
    _change_history_limit,
)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for obj in cluster.shown(DEPLOYMENTS, NAMESPACE):
        if _is_blocked(cluster, obj):
            continue
        own = _replica_sets_of(cluster, obj)
        counts = {"replicas": replicas_of(obj), "updatedReplicas": replicas_of(obj)}
        for field in ("readyReplicas", "availableReplicas"):
            counts[field] = sum((replica_set.get("status") or {}).get(field) or 0 for replica_set in own)
        yield from status_differences(DEPLOYMENTS, obj, counts)


def _replica_sets_of(cluster: SimulatedCluster, deployment: Object) -> list[Object]:
    uid = uid_of(deployment)
    replica_sets = cluster.shown(REPLICASETS, NAMESPACE)
    return [
        replica_set
        for replica_set in replica_sets
        if (owner := controller_of(replica_set)) is not None and owner.uid == uid
    ]


def _is_blocked(cluster: SimulatedCluster, deployment: Object) -> bool:
    """Report whether a Deployment with the strategy Recreate waits for pods that terminate on silent nodes.

    The kubelet of a silent node does not complete the deletion.
    """
    if (deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
        return False
    silent = {name_of(node) for node in cluster.shown(NODES) if is_silent(node)}
    if not silent:
        return False
    owners = set(map(uid_of, _replica_sets_of(cluster, deployment)))
    for pod, facts in cluster.shown_pods(NAMESPACE):
        if facts.deleting and facts.node in silent:
            owner = controller_of(pod)
            if owner is not None and owner.uid in owners:
                return True
    return False


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"Deployment {name_of(obj)} {image_of(obj)}": spec_and_status_of(cluster, obj)
        for obj in cluster.shown(DEPLOYMENTS, NAMESPACE)
    }


TRIAL = Trial(
    controller="deployment-controller",
    actions=lambda scenario: workloads(scenario, DEPLOYMENTS, at=1.0, changes=CHANGES, draw=_spec),
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (
        SizesWithinBounds(cluster),
        NeverLargerThanAllowed(cluster),
        NeverFewerThanAllowed(cluster),
        OnlyEmptyReplicaSetsAreDeleted(cluster),
    ),
    owns=(Owns(DEPLOYMENTS, REPLICASETS, pods=lambda deployment: bounds_of(deployment).most),),
)
