"""User actions on objects of any resource: create, merge, delete, replace."""

from __future__ import annotations

from weakref import WeakSet

from kcm.actors.reconciliation.commands import check_key, check_resource
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action
from kcm.protocols.arguments import check_mapping
from kcm.protocols.objects import Key, Object, is_deleting, make_key, name_of, namespace_of
from kcm.protocols.resources import NAMESPACES, Resource


def create(at: float, resource: Resource, obj: Object) -> Action:
    """Return the action that creates an object, once its namespace exists and its name is free.

    at: earliest time, in virtual seconds.
    obj: the object; its namespace is "default" unless it has another.
    """
    check_resource(resource)

    def do(cluster: SimulatedCluster) -> bool:
        namespace = namespace_of(obj) or (NAMESPACE if resource.namespaced else "")
        if namespace and is_missing_or_terminating(cluster, namespace):
            return False
        if cluster.get(resource, make_key(namespace, name_of(obj))) is not None:
            return False
        cluster.create(resource, obj)
        return True

    return Action(at, f"create {resource.kind} {name_of(obj)}", do)


def is_missing_or_terminating(cluster: SimulatedCluster, namespace: str) -> bool:
    """Report whether the namespace is missing or terminating.

    It may be missing because its creation was removed when a failure was reduced to fewer actions.
    """
    there = cluster.get(NAMESPACES, namespace)
    return there is None or is_deleting(there)


def merge(at: float, resource: Resource, key: Key, changes: Object, text: str = "") -> Action:
    """Return the action that applies a merge patch, once the object exists.

    text: description of the changes in reports; by default the changes themselves.
    """
    check_key(resource, key)
    check_mapping("changes of an action", changes)

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is None:
            return False
        cluster.merge(resource, key, changes)
        return True

    return Action(at, f"{resource.kind} {key}: {text or changes}", do)


def delete(at: float, resource: Resource, key: Key, *, policy: str = "") -> Action:
    """Return the action that deletes an object, once it exists.

    policy: Foreground, Background or Orphan; "" for the default of the server.
    """
    check_key(resource, key)

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is None:
            return False
        cluster.delete(resource, key, policy=policy)
        return True

    return Action(at, f"{resource.kind} {key} is deleted{f' ({policy})' if policy else ''}", do)


def unless_gone(action: Action, resource: Resource, key: Key) -> Action:
    """Return a copy of the action that is skipped if the object is missing or terminating."""

    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(resource, key)
        return there is None or is_deleting(there) or action.do(cluster)

    return action._replace(do=do)


def replace(at: float, resource: Resource, key: Key, other: Object) -> Action:
    """Return the action that deletes an object and, once it is deleted, creates `other` with the same name."""
    begun: WeakSet[SimulatedCluster] = WeakSet()

    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(resource, key)
        if cluster not in begun:
            if there is None or is_deleting(there):
                return False
            cluster.delete(resource, key)
            begun.add(cluster)
            there = cluster.get(resource, key)
        if there is not None:
            return False  # a finalizer delays the deletion, for example until dependents are orphaned
        cluster.create(resource, other)
        return True

    return Action(at, f"{resource.kind} {key} is deleted, and another one created", do)
