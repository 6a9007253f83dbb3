"""The trial of the hollow provisioner: its classes are there."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.hollow.provisioner import classes
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of
from kcm.protocols.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    there = {name_of(one) for one in cluster.shown(STORAGE_CLASSES)}
    for one in classes():
        if name_of(one) not in there:
            yield f"StorageClass {name_of(one)} is not there"


TRIAL = Trial(controller="hollow-provisioner-controller", unsettled=_unsettled, deletes=(PERSISTENT_VOLUMES,))
