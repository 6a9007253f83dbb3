"""Simulation trial of the ReplicaSet controller: users scale, change and replace ReplicaSets, and delete pods."""

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
from kcm.protocols.resources import PODS, REPLICASETS

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
    controller="replicaset-controller",
    actions=lambda scenario: workloads(scenario, REPLICASETS, at=1.5, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICASETS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICASETS),
    owns=(Owns(REPLICASETS, PODS, wanted=replicas_of),),
)
