"""Simulation trial of the hollow resizer: it expands the hollow volumes whose claims request more."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.storage.shared.expansion import CONTROLLER_INFEASIBLE
from kcm.actors.hollow.provisioner import NAME
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.storage.persistentvolume_expander import bound_pairs, unfinished
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.volumes import resize_status_of


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each hollow volume that is not expanded, unless its driver cannot expand it."""
    for claim, volume in bound_pairs(cluster):
        is_ours = (volume["spec"].get("csi") or {}).get("driver") == NAME
        if is_ours and resize_status_of(claim) != CONTROLLER_INFEASIBLE and (left := unfinished(claim, volume)):
            yield left


TRIAL = Trial(controller="hollow-resizer-controller", unsettled=_unsettled)
