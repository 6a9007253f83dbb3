"""User actions for trials of identity controllers: on namespaces, on objects if they exist, and on managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, delete
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.protocols.objects import Key, Object, is_deleting, make_key, name_of
from kcm.protocols.resources import NAMESPACES, Resource

TEAMS = ("team-a", "team-b")


def active_namespaces(cluster: SimulatedCluster) -> Iterator[str]:
    for namespace in cluster.shown(NAMESPACES):
        if (namespace.get("status") or {}).get("phase") == "Active" and not is_deleting(namespace):
            yield name_of(namespace)


def create_and_delete_namespaces(scenario: Scenario, purpose: str) -> Iterable[Action]:
    chance = scenario.chance(f"namespaces for {purpose}")
    for name in chance.sample(TEAMS, chance.randint(0, len(TEAMS))):
        born = round(chance.uniform(1.0, scenario.seconds / 2), 2)
        name = f"{name}-{purpose}"
        yield create(born, NAMESPACES, {"metadata": {"name": name}})
        if chance.random() < 0.4:
            gone = round(born + chance.uniform(2.0, scenario.seconds / 2), 2)
            yield delete(gone, NAMESPACES, name)
            if chance.random() < 0.5:
                yield create(gone + 2.0, NAMESPACES, {"metadata": {"name": name}})


def if_exists(at: float, resource: Resource, key: Key, changes: Object | None, text: str) -> Action:
    """Return the action that changes or deletes an object, or does nothing if the object does not exist.

    changes: merge patch; None to delete the object.
    text: description of the change in reports, as a participle.
    """

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is not None:
            if changes is None:
                cluster.delete(resource, key)
            else:
                cluster.merge(resource, key, changes)
        return True

    return Action(at, f"{resource.kind} {key} is {text}", do)


def restart_managers(at: float) -> Action:
    """Return the action that restarts all managers, as an upgrade of the control plane does.

    Passes that a controller runs at its start are run again.
    """

    def do(cluster: SimulatedCluster) -> bool:
        for name in [name for name in cluster.processes if name.startswith("manager")]:
            cluster.start_again(name)
        return True

    return Action(at, "the managers are restarted", do)


def in_default(name: str) -> Key:
    return make_key(NAMESPACE, name)
