"""The trial of the hollow scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from actors.hollow.provisioner import WAITING_CLASS
from actors.simulation import SimulatedCluster
from actors.simulation.trials.scenario import NAMESPACE
from actors.simulation.trials.trial import Trial
from protocols.objects import Object, is_deleting, name_of
from protocols.pods import is_terminal, pod_facts
from protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from protocols.volumes import claim_keys, class_of, is_bound, phase_of


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if not facts.node and not is_terminal(facts) and not _waits_for_claim(cluster, pod):
            yield f"pod {name_of(pod)} is bound to no node"


def _waits_for_claim(cluster: SimulatedCluster, pod: Object) -> bool:
    """For one that nobody else looks after: a claim that waits for the pod is bound for it."""
    for key in claim_keys(pod):
        claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, key)
        if claim is None or is_deleting(claim) or phase_of(claim) == "Lost":
            return True
        if not is_bound(claim) and class_of(claim) != WAITING_CLASS:
            return True
    return False


TRIAL = Trial(controller="hollow-scheduler-controller", unsettled=_unsettled)
