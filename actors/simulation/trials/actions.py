"""Actions on any resource."""

from __future__ import annotations

from actors.simulation import SimulatedCluster
from actors.simulation.trials.scenario import Action
from protocols.objects import Key, Object, name_of
from protocols.resources import Resource


def create(at: float, resource: Resource, obj: Object) -> Action:
    """In the namespace that it says, or "default"."""

    def do(cluster: SimulatedCluster) -> bool:
        cluster.create(resource, obj)
        return True

    return Action(at, f"create {resource.kind} {name_of(obj)}", do)


def merge(at: float, resource: Resource, key: Key, changes: Object, text: str = "") -> Action:
    """A merge patch, once the object is there."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is None:
            return False
        cluster.merge(resource, key, changes)
        return True

    return Action(at, f"{resource.kind} {key}: {text or changes}", do)


def delete(at: float, resource: Resource, key: Key) -> Action:
    """Once the object is there."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is None:
            return False
        cluster.delete(resource, key)
        return True

    return Action(at, f"{resource.kind} {key} is deleted", do)


def replace(at: float, resource: Resource, key: Key, other: Object) -> Action:
    """The object is deleted, and another one created under its name."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is None:
            return False
        cluster.delete(resource, key)
        cluster.create(resource, other)
        return True

    return Action(at, f"{resource.kind} {key} is deleted, and another one created", do)
