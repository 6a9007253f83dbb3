"""The trial of the ReplicaSet controller."""

from __future__ import annotations

from actors.simulation.invariants.ownership import Owns, replicas_of
from actors.simulation.trials.trial import Trial
from actors.simulation.trials.workloads.actions import replica_actions
from actors.simulation.trials.workloads.outcome import replicas_end_state, unsettled_replicas
from protocols.resources import PODS, REPLICASETS

CHANGES = ("scale", "scale", "kill", "anew", "orphan")

TRIAL = Trial(
    controller="replicaset-controller",
    actions=lambda scenario: replica_actions(scenario, REPLICASETS, at=1.5, most=2, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICASETS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICASETS),
    owns=(Owns(REPLICASETS, PODS, wanted=replicas_of),),
)
