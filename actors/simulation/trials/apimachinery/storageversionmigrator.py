"""Simulation trial of storage version migrations: users change the storage version of a kind, and migrate objects."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.versions import (
    MigrationsFollowOneAnother,
    MigrationsOfServedResourcesSucceed,
    StoredVersionsAreComplete,
    has_ended,
    is_true,
)
from kcm.actors.simulation.trials.actions import create, delete, merge
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, STORAGE_VERSION_MIGRATIONS, Resource
from kcm.runtime.apiserver.kinds.apiserverinternal import storage_version
from kcm.runtime.apiserver.kinds.storagemigration import storage_version_migration

VERSIONS = ("v1", "v2")
DEFINITION = "meters.example.com"
METERS = Resource(group="example.com", version="v1", plural="meters", kind="Meter")
# Resources to migrate; the last does not exist.
RESOURCES = (("example.com", "meters"), ("example.com", "meters"), ("", "configmaps"), ("example.com", "missing"))
NAMES = ("first", "second", "third")


def custom_kind(plural: str, kind: str, storage: str) -> Object:
    """Return a CustomResourceDefinition with the versions v1 and v2. storage: the storage version."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == storage,
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in VERSIONS
            ],
        },
    }


def gauges(storage: str) -> Object:
    return custom_kind("gauges", "Gauge", storage)


def serve_migrations(cluster: SimulatedCluster) -> None:
    """Serve the kinds about stored versions, which are off by default."""
    cluster.serve(storage_version_migration.RESOURCE, storage_version.RESOURCE)
    cluster.restart_server()


def _migration(chance: random.Random, name: str) -> Object:
    group, resource = chance.choice(RESOURCES)
    return {"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("migration actions")
    storage = chance.choice(VERSIONS)
    born = round(chance.uniform(0.1, 0.9), 2)
    yield create(born, CUSTOM_RESOURCE_DEFINITIONS, custom_kind("meters", "Meter", storage))
    for number in range(chance.randint(1, 15)):
        meter: Object = {"metadata": {"name": f"meter-{number}"}, "reading": 0}
        yield _if_defined(create(round(chance.uniform(1.0, 10.0), 2), METERS, meter))
        for at in scenario.times(chance, chance.randint(0, 2), first=10.0):
            yield _if_defined(merge(at, METERS, f"default/meter-{number}", {"reading": chance.randint(1, 9)}))
    for at in scenario.times(chance, chance.randint(1, 3), first=5.0):
        storage = chance.choice(VERSIONS)
        spec = custom_kind("meters", "Meter", storage)["spec"]
        yield merge(at, CUSTOM_RESOURCE_DEFINITIONS, DEFINITION, {"spec": spec}, f"stored in {storage}")
    for name in chance.sample(NAMES, chance.randint(1, len(NAMES))):
        yield from _life(scenario, chance, name)


def _if_defined(action: Action) -> Action:
    """Return a copy of the action that is skipped without the definition.

    The definition is missing if its creation was removed when a failure was reduced to fewer actions.
    """

    def do(cluster: SimulatedCluster) -> bool:
        return cluster.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION) is None or action.do(cluster)

    return action._replace(do=do)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterable[Action]:
    """Yield the actions on one migration."""

    def make(at: float) -> Iterable[Action]:
        yield create(at, STORAGE_VERSION_MIGRATIONS, _migration(chance, name))

    def label(at: float) -> Iterable[Action]:
        yield merge(at, STORAGE_VERSION_MIGRATIONS, name, {"metadata": {"labels": {"at": str(at)}}})

    def remove(at: float) -> Iterable[Action]:
        yield delete(at, STORAGE_VERSION_MIGRATIONS, name)

    first = round(chance.uniform(2.0, 20.0), 2)
    yield from scenario.life(chance, make=make, changes=(label,), remove=remove, at=first, most=3)


def _migrations(cluster: SimulatedCluster) -> Iterable[Object]:
    return (found for found in cluster.shown(STORAGE_VERSION_MIGRATIONS) if name_of(found) in NAMES)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for migration in _migrations(cluster):
        if not has_ended(migration):
            yield f"migration {name_of(migration)} has not ended: {migration.get('status')}"
        elif is_true(migration, "Running"):
            yield f"migration {name_of(migration)} has ended, and is still marked as running"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    # Whether a migration succeeds is an invariant, because it may depend on the clock.
    return {f"migration {name_of(migration)}": migration["spec"]["resource"] for migration in _migrations(cluster)}


TRIAL = Trial(
    controller="storage-version-migrator-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (
        StoredVersionsAreComplete(),
        MigrationsFollowOneAnother(),
        MigrationsOfServedResourcesSucceed(cluster),
    ),
)
