"""Simulation trial of VolumeAttributesClass protection: terminating classes disappear once they are unused."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.storage.attributes_class_protection import classes_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, delete, unless_gone
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.storage.actions import volume_actions
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import finalizers_of, is_deleting, name_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES
from kcm.protocols.volumes import ATTRIBUTES_CLASS_PROTECTION


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create up to two classes, each with a volume that uses it; delete some classes and volumes in random order.
    """
    chance = scenario.chance("attributes class protection actions")
    for number in range(chance.randint(0, 2)):
        name = f"speed-{number}"
        made, removed = scenario.times(chance, 2, first=0.5)
        speed = {"metadata": {"name": name}, "driverName": "example.com", "parameters": {"iops": "100"}}
        yield create(made, VOLUME_ATTRIBUTES_CLASSES, speed)
        yield from volume_actions(scenario, chance, f"tuned-{number}", class_="spare", attributes=name)
        if chance.random() < 0.6:
            gone = delete(removed, VOLUME_ATTRIBUTES_CLASSES, name)
            yield unless_gone(gone, VOLUME_ATTRIBUTES_CLASSES, name)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    users = [*cluster.shown(PERSISTENT_VOLUMES), *cluster.shown(PERSISTENT_VOLUME_CLAIMS)]
    used = {name for user in users for name in classes_of(user)}
    for cls in cluster.shown(VOLUME_ATTRIBUTES_CLASSES):
        name = name_of(cls)
        if ATTRIBUTES_CLASS_PROTECTION not in finalizers_of(cls) and not is_deleting(cls):
            yield f"attributes class {name} is not protected"
        if is_deleting(cls) and name not in used:
            yield f"attributes class {name} is unused, but still exists"


TRIAL = Trial(controller="volumeattributesclass-protection-controller", actions=_actions, unsettled=_unsettled)
