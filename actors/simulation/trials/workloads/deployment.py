"""The trial of the Deployment controller."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.availability import NeverFewerThanAllowed
from actors.simulation.invariants.deployments import NeverLargerThanAllowed, SizesWithinBounds
from actors.simulation.invariants.objects import OnlyEmptyReplicaSetsGo
from actors.simulation.invariants.ownership import Owns, replicas_of
from actors.simulation.invariants.rollouts import bounds_of
from actors.simulation.trials.actions import create
from actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from actors.simulation.trials.trial import Trial
from actors.simulation.trials.workloads.actions import NAMES, change, workload
from actors.simulation.trials.workloads.outcome import image_of, said_of, uncounted
from protocols.objects import Object, controller_of, name_of, uid_of
from protocols.resources import DEPLOYMENTS, REPLICASETS

CHANGES = ("image", "image", "image", "scale", "kill", "anew")
HISTORIES = (0, 1, None)  # how many old ReplicaSets it keeps; None is the default


def _actions(scenario: Scenario) -> Iterable[Action]:
    """A Deployment is created, and changed one to three times: rolled out, mostly."""
    chance = scenario.chance("deployments actions")
    kept = chance.choice(HISTORIES)
    history = {} if kept is None else {"revisionHistoryLimit": kept}
    spec = {**history, **_strategy(chance)}
    replicas = chance.randint(1, 5)
    first = workload(DEPLOYMENTS, NAMES[DEPLOYMENTS], replicas, "v1", pod=scenario.pod, **spec)
    yield create(1.0, DEPLOYMENTS, first)
    for at in scenario.times(chance, chance.randint(1, 3)):
        yield change(chance, at, DEPLOYMENTS, chance.choice(CHANGES), pod=scenario.pod, **history)


def _strategy(chance: random.Random) -> Object:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": chance.randint(0, 2), "maxUnavailable": 1}}
    strategy = chance.choice(({"type": "Recreate"}, rolling, None))
    return {} if strategy is None else {"strategy": strategy}


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    replica_sets = cluster.shown(REPLICASETS, NAMESPACE)
    for obj in cluster.shown(DEPLOYMENTS, NAMESPACE):
        own = [one for one in replica_sets if (owner := controller_of(one)) is not None and owner.uid == uid_of(obj)]
        counts = {"replicas": replicas_of(obj), "updatedReplicas": replicas_of(obj)}
        for field in ("readyReplicas", "availableReplicas"):
            counts[field] = sum((one.get("status") or {}).get(field) or 0 for one in own)
        yield from uncounted(DEPLOYMENTS, obj, counts)


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"Deployment {name_of(obj)} {image_of(obj)}": said_of(cluster, obj)
        for obj in cluster.shown(DEPLOYMENTS, NAMESPACE)
    }


TRIAL = Trial(
    controller="deployment-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (
        SizesWithinBounds(cluster),
        NeverLargerThanAllowed(cluster),
        NeverFewerThanAllowed(cluster),
        OnlyEmptyReplicaSetsGo(cluster),
    ),
    owns=(Owns(DEPLOYMENTS, REPLICASETS, pods=lambda deployment: bounds_of(deployment).most),),
)
