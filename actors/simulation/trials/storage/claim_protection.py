"""Simulation trial of PersistentVolumeClaim protection: users delete claims and the pods that use them."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.storage.claim_protection import uses
from kcm.actors.hollow.provisioner import CLASS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.storage.actions import claim_actions
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import finalizers_of, is_deleting, name_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.protocols.volumes import CLAIM_PROTECTION


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("claim protection actions")
    for number in range(chance.randint(0, 3)):
        yield from claim_actions(scenario, chance, f"held-{number}", CLASS)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    pods = cluster.shown(PODS, NAMESPACE)
    for claim in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE):
        if CLAIM_PROTECTION not in finalizers_of(claim) and not is_deleting(claim):
            yield f"claim {name_of(claim)} is not protected"
        if is_deleting(claim) and not any(uses(pod, claim) for pod in pods):
            yield f"claim {name_of(claim)} is unused, but still exists"


TRIAL = Trial(controller="persistentvolumeclaim-protection-controller", actions=_actions, unsettled=_unsettled)
