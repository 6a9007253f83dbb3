"""Simulation trial of the hollow provisioner: it creates its StorageClasses."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.hollow.provisioner import classes
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of
from kcm.protocols.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    there = {name_of(storage_class) for storage_class in cluster.shown(STORAGE_CLASSES)}
    for cls in classes():
        if name_of(cls) not in there:
            yield f"StorageClass {name_of(cls)} does not exist"


TRIAL = Trial(controller="hollow-provisioner-controller", unsettled=_unsettled, deletes=(PERSISTENT_VOLUMES,))
