"""Simulation trial of the garbage collector: users create ConfigMaps that own each other, and delete owners.

The dependents of workloads in the same run are collected too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.garbage import OnlyOrphansAreCollected, owner_of, references_of
from kcm.actors.simulation.trials.actions import delete
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, finalizers_of, is_deleting, key_of, make_key, name_of, uid_of
from kcm.protocols.resources import CONFIGMAPS, PODS, REPLICASETS

FAMILY = "family-"  # prefix of the names of this trial's ConfigMaps
POLICIES = ("Background", "Background", "Foreground", "Foreground", "Orphan")
WAITED_FOR = frozenset({"foregroundDeletion", "orphan"})
CHECKED = (CONFIGMAPS, PODS, REPLICASETS)
UNKNOWN_UID = "00000000-0000-4000-8000-000000000000"  # a uid that no object has


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create families of ConfigMaps: owners, dependents, and dependents of these. Then they delete the owners.
    """
    chance = scenario.chance("garbage collector actions")
    for number in range(chance.choice((0, 1, 1, 2, 3))):
        yield from _family(scenario, chance, f"{FAMILY}{number}")


def _family(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Create an owner, its dependents (some with a second owner), and their dependents; then delete the owner.

    Sometimes there is also a dependent whose owner has never existed.
    """
    born, gone = scenario.times(chance, 2)
    yield create_configmap(born, name)
    yield create_configmap(born, f"{name}-other")
    for child in range(chance.randint(1, 3)):
        of = [name, f"{name}-other"] if chance.random() < 0.3 else [name]
        yield create_configmap(born, f"{name}-child-{child}", owners=of, blocks=chance.random() < 0.7)
        if chance.random() < 0.6:
            yield create_configmap(
                born, f"{name}-grandchild-{child}", owners=[f"{name}-child-{child}"], blocks=chance.random() < 0.7
            )
    if chance.random() < 0.3:
        yield create_configmap(born, f"{name}-stillborn", unknown_owners=[name])
    policy = chance.choice(POLICIES)
    yield delete(gone, CONFIGMAPS, make_key(NAMESPACE, name), policy=policy)
    if policy == "Background" and chance.random() < 0.5:  # otherwise later actions would wait for its finalizers
        yield create_configmap(gone, name)  # another object with this name, without dependents


def create_configmap(
    at: float, name: str, *, owners: Sequence[str] = (), blocks: bool = True, unknown_owners: Sequence[str] = ()
) -> Action:
    """Return the action that creates a ConfigMap, once its owners exist and its name is free.

    owners: names of the ConfigMaps that own it.
    blocks: blockOwnerDeletion of the owner references.
    unknown_owners: names of additional owners with a uid that no object has.
    """

    def do(cluster: SimulatedCluster) -> bool:
        found = [cluster.get(CONFIGMAPS, make_key(NAMESPACE, owner)) for owner in owners]
        if None in found or cluster.get(CONFIGMAPS, make_key(NAMESPACE, name)) is not None:
            return False
        uids = [*((owner, uid_of(obj)) for owner, obj in zip(owners, found, strict=True) if obj is not None)]
        uids += [(unknown_owner, UNKNOWN_UID) for unknown_owner in unknown_owners]
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": blocks}
            for owner, uid in uids
        ]
        cluster.create(CONFIGMAPS, {"metadata": {"name": name, "ownerReferences": references}})
        return True

    whose = f" of {', '.join([*owners, *unknown_owners])}" if owners or unknown_owners else ""
    return Action(at, f"create ConfigMap {name}{whose}", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for resource in CHECKED:
        for obj in cluster.shown(resource):
            what = f"{resource.kind} {name_of(obj)}"
            if is_deleting(obj):
                if WAITED_FOR.intersection(finalizers_of(obj)):
                    yield f"{what} waits for its dependents to be deleted or orphaned"
                continue
            for reference in references_of(obj):
                if owner_of(cluster, key_of(obj), reference) is None:
                    yield f"{what} has the owner {reference['name']}, which does not exist"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the owners of each remaining ConfigMap of this trial.

    Dependents without an owner are excluded, because their existence depends on timing.
    """
    return {
        f"ConfigMap {name_of(configmap)}": _owners(configmap)
        for configmap in cluster.list(CONFIGMAPS, NAMESPACE)
        if _counts(configmap)
    }


def _counts(obj: Object) -> bool:
    name = name_of(obj)
    return name.startswith(FAMILY) and ("child" not in name or bool(_owners(obj)))


def _owners(obj: Object) -> list[str]:
    return sorted(reference["name"] for reference in references_of(obj))


TRIAL = Trial(
    controller="garbage-collector-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (OnlyOrphansAreCollected(cluster),),
    deletes_any=True,
)
