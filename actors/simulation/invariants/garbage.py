"""Invariants of the garbage collector, checked against the state of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail, Observation, Submitted, only, shown
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    finalizers_of,
    is_deleting,
    make_key,
    metadata,
    split_key,
    uid_of,
)
from kcm.protocols.resources import Resource

COLLECTOR = controller_name("garbage-collector-controller")
FOREGROUND = "foregroundDeletion"


def owner_of(cluster: SimulatedCluster, key: Key, reference: Mapping[str, Any]) -> Object | None:
    """Return the owner that an owner reference names.

    {} if the server does not serve the owner's kind or scope; None if the owner was deleted or replaced.

    key: key of the object that has the reference.
    """
    served = cluster.server.registry.of_kind(reference["apiVersion"], reference["kind"])
    if served is None:
        return {}
    resource = Resource(
        group=served.group, version=served.version, plural=served.plural, kind=served.kind, namespaced=served.namespaced
    )
    if served.namespaced and not split_key(key)[0]:
        return {}
    found = cluster.get(resource, make_key(split_key(key)[0] if served.namespaced else "", reference["name"]))
    return found if found is not None and uid_of(found) == reference["uid"] else None


def references_of(obj: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from metadata(obj).get("ownerReferences") or ()


def waits_for_dependents(owner: Object) -> bool:
    return is_deleting(owner) and FOREGROUND in finalizers_of(owner)


class OnlyOrphansAreCollected:
    """Invariant: the garbage collector deletes an object only if no existing owner needs it.

    The owners are those of the object in the collector's informer cache. An owner that waits for the deletion of its
    dependents (foreground deletion) does not need them.
    """

    name = "only objects without owners are collected"
    observes = (only(Submitted, COLLECTOR),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(_, system, submit) if submit.sender == COLLECTOR:
                for command in submit.commands:
                    if isinstance(command, Delete):
                        entry = shown(system, command.resource, command.key)
                        if entry is None or entry.uid != command.uid:
                            continue
                        if command.resource_version not in (None, str(entry.resource_version)):
                            continue  # the server refuses the deletion, or has a newer version than the table
                        self._check(command, decode_object(entry.raw), fail)

    def _check(self, command: Delete, obj: Object, fail: Fail) -> None:
        if not any(references_of(obj)):
            fail(f"{command.resource} {command.key} is collected but never had an owner")
        for reference in references_of(obj):
            owner = owner_of(self._cluster, command.key, reference)
            if owner is not None and not waits_for_dependents(owner):
                whose = f"{reference['kind']} {reference['name']}"
                fail(f"{command.resource} {command.key} is collected but its owner {whose} exists")
