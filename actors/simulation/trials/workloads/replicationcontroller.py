"""The trial of the ReplicationController controller."""

from __future__ import annotations

from actors.simulation.invariants.ownership import Owns, replicas_of
from actors.simulation.trials.trial import Trial
from actors.simulation.trials.workloads.actions import replica_actions
from actors.simulation.trials.workloads.outcome import replicas_end_state, unsettled_replicas
from protocols.resources import PODS, REPLICATION_CONTROLLERS

CHANGES = ("scale", "scale", "kill", "anew", "orphan")

TRIAL = Trial(
    controller="replicationcontroller-controller",
    actions=lambda scenario: replica_actions(scenario, REPLICATION_CONTROLLERS, at=2.0, most=2, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICATION_CONTROLLERS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICATION_CONTROLLERS),
    owns=(Owns(REPLICATION_CONTROLLERS, PODS, wanted=replicas_of),),
)
