"""Simulation trial of the hollow kubelets: their pods become ready, and terminating pods disappear."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import NAMESPACE
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import NODES, PODS


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each pod that is terminating or not ready on a node that is not silent."""
    speaking = {name_of(node) for node in cluster.shown(NODES) if not is_silent(node)}
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if facts.node not in speaking:
            continue
        if facts.deleting:
            yield f"pod {name_of(pod)} is terminating"
        elif not is_terminal(facts) and not facts.ready:
            yield f"pod {name_of(pod)} is not ready on {facts.node}, which is not silent"


TRIAL = Trial(controller="hollow-kubelet-controller", unsettled=_unsettled, deletes=(PODS,))
