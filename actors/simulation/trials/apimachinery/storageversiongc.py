"""Simulation trial of the StorageVersion garbage collector: API servers register themselves, and disappear."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.versions import OnlyLostServersAreRemoved
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, labels_of, make_key, name_of
from kcm.protocols.resources import LEASES, STORAGE_VERSIONS

SERVERS = ("apiserver-a", "apiserver-b", "apiserver-c")
VERSIONS = ("apps.deployments", "example.com.meters")
ENCODINGS = ("v1", "v1", "v2")
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def _lease(name: str) -> Object:
    meta = {"name": name, "namespace": "kube-system", "labels": IDENTITY}
    return {"metadata": meta, "spec": {"holderIdentity": name}}


def _report(at: float, version: str, server: str, encoding: str, *, late: bool = False) -> Action:
    """Return the action of an API server that reports its version, and creates the StorageVersion if necessary.

    late: the report arrives even if the Lease of the API server does not exist any more.
    """
    entry = {"apiServerID": server, "encodingVersion": encoding, "decodableVersions": [encoding]}

    def do(cluster: SimulatedCluster) -> bool:
        if not late and cluster.get(LEASES, make_key("kube-system", server)) is None:
            return True
        stored = cluster.get(STORAGE_VERSIONS, version)
        if stored is None:
            stored = cluster.create(STORAGE_VERSIONS, {"metadata": {"name": version}, "spec": {}})
        others = (stored.get("status") or {}).get("storageVersions") or []
        servers = [*(other for other in others if other["apiServerID"] != server), entry]
        encodings = {reported["encodingVersion"] for reported in servers}
        common = encodings.pop() if len(encodings) == 1 else None
        changes = {"status": {"storageVersions": servers, "commonEncodingVersion": common}}
        cluster.merge(STORAGE_VERSIONS, version, changes, subresource="status")
        return True

    return Action(at, f"{server} reports {encoding} of {version}", do)


def _lose(at: float, server: str) -> Action:
    """Return the action that deletes the identity Lease of an API server."""

    def do(cluster: SimulatedCluster) -> bool:
        key = make_key("kube-system", server)
        if cluster.get(LEASES, key) is not None:
            cluster.delete(LEASES, key)
        return True

    return Action(at, f"Lease {server} is deleted", do)


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("storage version actions")
    servers = chance.sample(SERVERS, chance.randint(1, len(SERVERS)))
    for server in servers:
        yield from _life(scenario, chance, server, [other for other in servers if other != server])


def _life(scenario: Scenario, chance: random.Random, server: str, others: list[str]) -> Iterable[Action]:
    """Yield the actions of one API server. After its end it does not return, as its name contains a random part.

    others: API servers that may report a version just when this one ends.
    """
    born = round(chance.uniform(0.5, 5.0), 2)
    yield create(born, LEASES, _lease(server))
    for version in chance.sample(VERSIONS, chance.randint(1, len(VERSIONS))):
        for at in [born, *scenario.times(chance, chance.randint(0, 1), first=born)]:
            yield _report(at, version, server, chance.choice(ENCODINGS))
    if chance.random() < 0.7:
        (end,) = scenario.times(chance, 1, first=born + 1.0)
        yield _lose(end, server)
        for other in others:
            at = end + chance.choice((0.001, 0.003, 0.006, 0.1))
            yield _report(at, chance.choice(VERSIONS), other, chance.choice(ENCODINGS))
        for version in chance.sample(VERSIONS, chance.randint(0, len(VERSIONS))):
            yield _report(end + chance.choice((0.002, 0.5, 5.0)), version, server, chance.choice(ENCODINGS), late=True)


def _entries(version: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return (version.get("status") or {}).get("storageVersions") or []


def _alive(cluster: SimulatedCluster) -> set[str]:
    leases = cluster.shown(LEASES, "kube-system")
    return {name_of(lease) for lease in leases if labels_of(lease).items() >= IDENTITY.items()}


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    alive = _alive(cluster)
    for version in cluster.shown(STORAGE_VERSIONS):
        lost = [entry["apiServerID"] for entry in _entries(version) if entry["apiServerID"] not in alive]
        if lost:
            yield f"StorageVersion {name_of(version)} contains {lost}, which have no Lease"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"StorageVersion {name_of(version)}": (
            [(entry["apiServerID"], entry["encodingVersion"]) for entry in _entries(version)],
            (version.get("status") or {}).get("commonEncodingVersion"),
        )
        for version in cluster.shown(STORAGE_VERSIONS)
    }


TRIAL = Trial(
    controller="storageversion-garbage-collector-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    deletes=(STORAGE_VERSIONS,),
    invariants=lambda cluster, _options: (OnlyLostServersAreRemoved(cluster),),
)
