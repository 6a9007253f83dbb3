"""The trial of the hollow scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from actors.simulation import SimulatedCluster
from actors.simulation.trials.scenario import NAMESPACE
from actors.simulation.trials.trial import Trial
from protocols.objects import name_of
from protocols.pods import is_terminal, pod_facts
from protocols.resources import PODS


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if not facts.node and not is_terminal(facts):
            yield f"pod {name_of(pod)} is bound to no node"


TRIAL = Trial(controller="hollow-scheduler-controller", unsettled=_unsettled)
