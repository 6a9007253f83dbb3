"""Simulation trial of the ReplicationController controller: users scale, change and replace its objects."""

from __future__ import annotations

from kcm.actors.simulation.invariants.ownership import Owns, replicas_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import (
    change_image,
    change_min_ready_seconds,
    create_stray_pod,
    delete_pod,
    delete_pods,
    recreate,
    rescale,
    workloads,
)
from kcm.actors.simulation.trials.workloads.outcome import replicas_end_state, unsettled_replicas
from kcm.protocols.resources import PODS, REPLICATION_CONTROLLERS

CHANGES = (
    rescale,
    rescale,
    rescale,
    delete_pod,
    delete_pods,
    recreate,
    create_stray_pod,
    change_image,
    change_min_ready_seconds,
)

TRIAL = Trial(
    controller="replicationcontroller-controller",
    actions=lambda scenario: workloads(scenario, REPLICATION_CONTROLLERS, at=2.0, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICATION_CONTROLLERS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICATION_CONTROLLERS),
    owns=(Owns(REPLICATION_CONTROLLERS, PODS, wanted=replicas_of),),
)
