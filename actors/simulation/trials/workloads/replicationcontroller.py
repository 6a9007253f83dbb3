"""Trial of the ReplicationController controller."""

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
from kcm.protocols.resources import PODS, REPLICATION_CONTROLLERS

CHANGES = (scaled, scaled, scaled, robbed_of_a_pod, robbed_of_pods, made_anew, given_a_stray, given_an_image, patient)

TRIAL = Trial(
    controller="replicationcontroller-controller",
    actions=lambda scenario: workloads(scenario, REPLICATION_CONTROLLERS, at=2.0, changes=CHANGES),
    unsettled=lambda cluster: unsettled_replicas(cluster, REPLICATION_CONTROLLERS),
    end_state=lambda cluster: replicas_end_state(cluster, REPLICATION_CONTROLLERS),
    owns=(Owns(REPLICATION_CONTROLLERS, PODS, wanted=replicas_of),),
)
