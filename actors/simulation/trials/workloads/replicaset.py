"""Trial of the ReplicaSet controller."""

from __future__ import annotations

from kcm.actors.simulation.invariants.ownership import Owns, replicas_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import (
    given_a_stray,
    given_an_image,
    made_anew,
    patient,
    robbed_of_a_pod,
    robbed_of_pods,
    scaled,
    workloads,
)
from kcm.actors.simulation.trials.workloads.outcome import replicas_end_state, unsettled_replicas
from kcm.protocols.resources import PODS, REPLICASETS

CHANGES = (scaled, scaled, scaled, robbed_of_a_pod, robbed_of_pods, made_anew, given_a_stray, given_an_image, patient)

TRIAL = Trial(
    controller="replicaset-controller",
    actions=lambda scenario: workloads(scenario, REPLICASETS, at=1.5, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICASETS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICASETS),
    owns=(Owns(REPLICASETS, PODS, wanted=replicas_of),),
)
