"""Simulation trial of the kubelets that resize file systems: they do for all claims that running pods use."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import NAMESPACE
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.storage.persistentvolume_expander import bound_pairs
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import key_of, name_of
from kcm.protocols.resources import NODES
from kcm.protocols.volumes import claim_keys, resize_status_of


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each file system that is not resized, although a pod uses it on a node that is not silent."""
    active = {name_of(node) for node in cluster.shown(NODES) if not is_silent(node)}
    used = {
        key
        for pod, facts in cluster.shown_pods(NAMESPACE)
        if facts.phase == "Running" and facts.node in active
        for key in claim_keys(pod)
    }
    for claim, _ in bound_pairs(cluster):
        if key_of(claim) in used and resize_status_of(claim).startswith("Node"):
            yield f"file system of claim {name_of(claim)} is not resized"


TRIAL = Trial(controller="hollow-expansion-controller", unsettled=_unsettled)
