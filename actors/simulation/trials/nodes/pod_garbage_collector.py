"""Simulation trial of the pod garbage collector: pods on missing or out-of-service nodes, and terminated pods."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.nodes.pod_garbage_collector import PodGarbageCollectorOptions, is_out_of_service
from kcm.actors.hollow.behaviour import RUN_SECONDS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.nodes.nodes import OnlyGarbageIsRemoved
from kcm.actors.simulation.trials.actions import merge
from kcm.actors.simulation.trials.nodes.actions import FIRST, bare_pod, draw_period, set_taint
from kcm.actors.simulation.trials.nodes.taints import tolerations
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.settings import options_of
from kcm.actors.simulation.trials.silence import is_silent, silence_patch
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.nodes import OUT_OF_SERVICE_TAINT
from kcm.protocols.objects import annotations_of, name_of
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import NODES, PODS


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create a pod on a missing node and pods that terminate soon, and taint a silent node as out of service.
    """
    chance = scenario.chance("pod garbage collector actions")
    if chance.random() < 0.5:
        [at] = scenario.times(chance, 1, first=FIRST)
        yield bare_pod(at, "lost", node="nowhere")
    for number, at in enumerate(scenario.times(chance, chance.choice((0, 1, 2, 4, 5, 7)), first=FIRST)):
        # With the default toleration of 300 s for unreachable nodes the run would take longer.
        tolerated = tolerations(15, maintenance=None)
        yield bare_pod(at, f"short-{number}", tolerations=tolerated, annotations={RUN_SECONDS: "1"})
    if chance.random() < 0.3 and (name := scenario.nodes.take()) is not None:
        period = draw_period(scenario, chance)
        yield merge(period.at, NODES, name, silence_patch(True), "is silent")
        yield set_taint(period.end, name, OUT_OF_SERVICE_TAINT, there=True)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    nodes = {name_of(node): node for node in cluster.shown(NODES)}
    ended = to_end = 0
    for pod, facts in cluster.shown_pods():
        node = nodes.get(facts.node)
        if is_terminal(facts):
            ended += 1
        elif node is not None and not is_silent(node):
            to_end += RUN_SECONDS in annotations_of(pod)
        if facts.node and node is None:
            yield f"pod {name_of(pod)} is on {facts.node}, which does not exist"
        elif facts.deleting and node is not None and is_out_of_service(node):
            yield f"pod {name_of(pod)} is terminating on {facts.node}, which is out of service"
    if ended + to_end > options_of(cluster)[PodGarbageCollectorOptions].terminated_pod_threshold:
        yield f"{ended} pods are terminated and {to_end} will be, which exceeds the threshold"


TRIAL = Trial(
    controller="pod-garbage-collector-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, options: (
        OnlyGarbageIsRemoved(cluster, threshold=options[PodGarbageCollectorOptions].terminated_pod_threshold),
    ),
    deletes=(PODS,),
)
