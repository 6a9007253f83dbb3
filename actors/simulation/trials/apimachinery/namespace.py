"""Simulation trial of the namespace controller: users create, fill, delete and sometimes recreate namespaces."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.namespaces import NamespacesAreEmptiedInOrder, finalizers_in
from kcm.actors.simulation.trials.actions import create, delete
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Key, Object, finalizers_of, is_deleting, make_key, name_of
from kcm.protocols.resources import NAMESPACES, PODS, Resource

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
TEAM = "team-"  # prefix of the names of this trial's namespaces
HOLD = "example.com/hold"
OURS = ("held", "kept")  # names of this trial's ConfigMaps, in addition to c0, c1, …


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create, fill and delete one to three namespaces. Some objects and namespaces have an additional finalizer.
    """
    chance = scenario.chance("namespace actions")
    for number in range(chance.choice((1, 1, 2, 3))):
        yield from _team(scenario, chance, f"{TEAM}{number}")


def _team(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    born, gone, later = sorted(scenario.times(chance, 3))
    more: Object = {"finalizers": [HOLD]} if chance.random() < 0.2 else {}
    yield create(born, NAMESPACES, {"metadata": {"name": name, **more}})
    for number in range(chance.randint(0, 3)):
        yield create(born, CONFIGMAPS, _in(name, f"c{number}"))
    held = chance.random() < 0.4
    if held:
        yield create(born, CONFIGMAPS, _in(name, "held", finalizers=[HOLD]))
    for number in range(chance.choice((0, 0, 1, 2))):
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": chance.choice((0, 5, 30)),
        }
        if scenario.steady:  # otherwise its node may be silent permanently, and the pod stays
            yield create(born, PODS, {**_in(name, f"p{number}"), "spec": spec})
    yield delete(gone, NAMESPACES, name)
    if held:
        yield _release(later, CONFIGMAPS, make_key(name, "held"))
    if more:
        yield _release(later, NAMESPACES, name)
    if chance.random() < 0.5:  # another namespace with this name, whose content must not be deleted
        yield create(later, NAMESPACES, {"metadata": {"name": name}})
        yield create(later, CONFIGMAPS, _in(name, "kept"))


def _release(at: float, resource: Resource, key: Key) -> Action:
    """Return the action that removes the finalizers of an object, as the owner of the finalizer HOLD does.

    An object without this finalizer is not changed.
    """

    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(resource, key)
        if there is not None and HOLD in finalizers_of(there):
            cluster.merge(resource, key, {"metadata": {"finalizers": None}})
        return True

    return Action(at, f"finalizer of {resource.kind} {key} is removed", do)


def _in(namespace: str, name: str, **meta: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **meta}}


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for namespace in cluster.shown(NAMESPACES):
        name = name_of(namespace)
        if not is_deleting(namespace):
            continue
        if finalizers_in(cluster, name):
            continue
        if not finalizers_of(namespace):
            yield f"namespace {name} is terminating, but nothing has a finalizer"
        elif namespace["spec"].get("finalizers"):
            yield f"namespace {name} is not finalized, but no object in it has a finalizer"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the names of the ConfigMaps that users created in each namespace of this trial."""
    return {
        f"namespace {name_of(namespace)}": sorted(_own(cluster, name_of(namespace)))
        for namespace in cluster.list(NAMESPACES)
        if name_of(namespace).startswith(TEAM)
    }


def _own(cluster: SimulatedCluster, namespace: str) -> Iterator[str]:
    """Return the names of the ConfigMaps in a namespace that users created, without those of controllers."""
    return (name for name in map(name_of, cluster.list(CONFIGMAPS, namespace)) if name in OURS or name[:1] == "c")


TRIAL = Trial(
    controller="namespace-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (NamespacesAreEmptiedInOrder(cluster),),
    deletes_any=True,
)
