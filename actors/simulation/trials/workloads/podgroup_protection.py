"""Simulation trial of PodGroup protection: users delete PodGroups and the pods that refer to them.

Names are not reused after a deletion, because pods refer to their PodGroup by name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.workloads.podgroup_protection import FINALIZER, groups_in_use
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.workloads.podgroups import GroupsOutliveTheirPods
from kcm.actors.simulation.trials.actions import create, delete, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, finalizers_of, is_deleting, key_of, labels_of, make_key, name_of
from kcm.protocols.resources import POD_GROUPS, PODS

LABEL = {"trial": "podgroups"}
SCRIPTS = ("exit 0", "sleep 5", "", "")  # with "" a pod runs until it is deleted


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("podgroup actions")
    for number in range(chance.randint(1, 3)):
        yield from _group_actions(scenario, chance, f"gang-{number}")


def _group_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one PodGroup and on its pods."""
    made, *times = scenario.times(chance, 8, first=0.5)
    # The server of a run has no admission plugin that adds the finalizer.
    meta = {"name": name, "namespace": NAMESPACE, "labels": LABEL, "finalizers": [FINALIZER]}
    yield create(made, POD_GROUPS, {"metadata": meta, "spec": {"schedulingPolicy": {"basic": {}}}})
    for number in range(chance.randint(0, 3)):
        pod = f"{name}-{number}"
        begins, ends = sorted(chance.sample(times, 2))
        yield create(begins, PODS, _pod(scenario, chance, pod, name))
        if chance.random() < 0.6:
            key = make_key(NAMESPACE, pod)
            yield unless_gone(delete(round(ends + 0.01, 2), PODS, key), PODS, key)
    if chance.random() < 0.7:
        at, key = round(chance.choice(times) + 0.02, 2), make_key(NAMESPACE, name)
        yield unless_gone(delete(at, POD_GROUPS, key), POD_GROUPS, key)


def _pod(scenario: Scenario, chance: random.Random, name: str, group: str) -> Object:
    script = chance.choice(SCRIPTS)
    container = {"name": "c", "image": "v1", **({"command": ["sh", "-c", script]} if script else {})}
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "schedulingGroup": {"podGroupName": group},
        **scenario.pod,
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": LABEL}, "spec": spec}


def _groups(cluster: SimulatedCluster) -> list[Object]:
    return [group for group in cluster.shown(POD_GROUPS, NAMESPACE) if labels_of(group) == LABEL]


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    used = {key for pod in cluster.shown(PODS, NAMESPACE) for key in groups_in_use(pod)}
    for group in _groups(cluster):
        if not is_deleting(group) and FINALIZER not in finalizers_of(group):
            yield f"PodGroup {name_of(group)} is not protected"
        if is_deleting(group) and key_of(group) not in used:
            yield f"PodGroup {name_of(group)} is unused, but still exists"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {"PodGroups": sorted(name_of(group) for group in _groups(cluster) if not is_deleting(group))}


TRIAL = Trial(
    controller="podgroup-protection-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (GroupsOutliveTheirPods(),),
)
