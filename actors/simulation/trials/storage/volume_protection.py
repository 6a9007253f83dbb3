"""Simulation trial of PersistentVolume protection: terminating volumes disappear once they are not bound."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.storage.actions import volume_actions
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import finalizers_of, is_deleting, name_of
from kcm.protocols.resources import PERSISTENT_VOLUMES
from kcm.protocols.volumes import VOLUME_PROTECTION, phase_of


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("volume protection actions")
    for number in range(chance.randint(0, 3)):
        yield from volume_actions(scenario, chance, f"spare-{number}", class_="spare")


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for volume in cluster.shown(PERSISTENT_VOLUMES):
        if VOLUME_PROTECTION not in finalizers_of(volume) and not is_deleting(volume):
            yield f"volume {name_of(volume)} is not protected"
        if is_deleting(volume) and phase_of(volume) != "Bound":
            yield f"volume {name_of(volume)} is not bound, but still exists"


TRIAL = Trial(controller="persistentvolume-protection-controller", actions=_actions, unsettled=_unsettled)
