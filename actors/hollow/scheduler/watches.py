"""Watches of the hollow scheduler: the unassigned pods that each change of an object enqueues, and their order.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort/priority_sort.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import nlargest

from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.hollow.scheduler.devices.claim_facts import MEMBERS, PENDING, PODS_BY_DEVICE_CLAIM
from kcm.actors.hollow.scheduler.node_fit import node_view
from kcm.actors.hollow.scheduler.volume_limits import limit_watches
from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.actors.reconciliation.derived import NODE
from kcm.actors.reconciliation.specs import Index
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object
from kcm.protocols.pods import is_terminal
from kcm.protocols.resource_claims import allocation_of
from kcm.protocols.resources import (
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from kcm.protocols.volumes import class_of, key_of_reference
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.tables import Tables

# Waiting pods that one change enqueues; the others are retried every MOST_BACKOFF seconds at the latest.
MOST_WOKEN = 500


_PRIORITY = "priority of unassigned pods"


def _priority_of_unassigned(pod: Object) -> Iterable[str]:
    spec = pod.get("spec") or {}
    priority = spec.get("priority")
    return () if spec.get("nodeName") or type(priority) is not int else (str(priority),)


PRIORITY_OF_UNASSIGNED = Index(PODS, _PRIORITY, _priority_of_unassigned)


def _priority(entry: Entry) -> int:
    return next((int(value) for index, value in entry.values if index == _PRIORITY), 0)


def scheduling_priority(key: Key, tables: Tables) -> float:
    """Return the priority of an unassigned pod, and infinity for all others.

    Changes of other pods are accounted first, because they may release resources.
    """
    entry = tables[PODS].entry(key)
    return math.inf if entry is None or entry.facts.node or is_terminal(entry.facts) else _priority(entry)


def scheduler_watches() -> tuple[Watch[Key], ...]:
    """Return the watches.

    Every change of a pod is relevant: a resize of a bound pod changes no derived fact of the table.
    """
    return (
        Watch(PODS, to=_pod_and_waiting_pods),
        Watch(NODES, to=_pods_waiting_for_node, interest=Interest(types=(EventType.ADDED, EventType.MODIFIED))),
    )


def _pod_and_waiting_pods(change: Change, tables: Tables) -> Iterable[Key]:
    yield change.key
    entry = None if change.deleted else tables[PODS].entry(change.key)
    if change.deleted or (entry is not None and is_terminal(entry.facts)):
        yield from _waiting(tables)


def _pods_waiting_for_node(change: Change, tables: Tables) -> Iterable[Key]:
    if change.deleted:
        return ()
    if change.type != EventType.ADDED and change.old is not None and node_view(change.old) == node_view(change.new):
        return ()  # a heartbeat
    return _waiting(tables)


def volume_watches() -> tuple[Watch[Key], ...]:
    return (
        Watch(PERSISTENT_VOLUME_CLAIMS, to=_pods_using_claim),
        Watch(PERSISTENT_VOLUMES, to=_pods_waiting_for_volume, interest=Interest(changed=("phase", "claim"))),
        Watch(STORAGE_CLASSES, to=_pods_waiting_for_class, interest=Interest(types=(EventType.ADDED,))),
        *limit_watches(_waiting),
    )


def _pods_using_claim(change: Change, tables: Tables) -> Iterable[Key]:
    return _users(tables, change.key)


def _pods_waiting_for_volume(change: Change, tables: Tables) -> Iterable[Key]:
    reference = (change.new.get("spec") or {}).get("claimRef")
    if reference is not None:
        return _users(tables, key_of_reference(reference))
    return _users_of_class(tables, class_of(change.new))


def _pods_waiting_for_class(change: Change, tables: Tables) -> Iterable[Key]:
    return _users_of_class(tables, change.key)


def _users_of_class(tables: Tables, class_: str) -> Iterable[Key]:
    for claim in tables[PERSISTENT_VOLUME_CLAIMS].entries():
        if claim.facts.class_ == class_ and claim.facts.phase != "Bound":
            yield from _users(tables, claim.key)


def _users(tables: Tables, claim: Key) -> Iterable[Key]:
    return (entry.key for entry in tables[PODS].indexed_entries(CLAIMS, claim) if not entry.facts.node)


def _waiting(tables: Tables) -> Iterable[Key]:
    return (entry.key for entry in nlargest(MOST_WOKEN, tables[PODS].indexed_entries(NODE, ""), _priority))


def device_watches(rules: Resource | None = None, *, groups: bool = False) -> tuple[Watch[Key], ...]:
    """Return the watches.

    rules: the resource of DeviceTaintRules, or None.
    groups: also watch PodGroups.
    """
    changed = Interest(types=(EventType.ADDED, EventType.MODIFIED))
    return (
        Watch(RESOURCE_CLAIMS, to=_pods_waiting_for_claim),
        Watch(RESOURCE_SLICES, to=_pods_waiting_for_devices, interest=changed),
        Watch(DEVICE_CLASSES, to=_pods_waiting_for_devices, interest=changed),
        *(() if rules is None else (Watch(rules, to=_pods_waiting_for_devices),)),
        *((Watch(POD_GROUPS, to=_unassigned_members, interest=Interest(types=(EventType.ADDED,))),) if groups else ()),
    )


def _pods_waiting_for_claim(change: Change, tables: Tables) -> Iterable[Key]:
    """Yield the unassigned pods that use a claim; if it releases devices, also all pods that wait for devices."""
    before = change.new if change.deleted else change.old
    if before is not None and allocation_of(before) and (change.deleted or not allocation_of(change.new)):
        yield from _pods_waiting_for_devices(change, tables)
    index = PODS_BY_DEVICE_CLAIM.name
    yield from (entry.key for entry in tables[PODS].indexed_entries(index, change.key) if not entry.facts.node)


def _unassigned_members(change: Change, tables: Tables) -> Iterable[Key]:
    return (entry.key for entry in tables[PODS].indexed_entries(MEMBERS, change.key) if not entry.facts.node)


def _pods_waiting_for_devices(_change: Change, tables: Tables) -> Iterable[Key]:
    pods = tables[PODS].indexed_entries(PODS_BY_DEVICE_CLAIM.name, PENDING)
    return (entry.key for entry in nlargest(MOST_WOKEN, pods, _priority))
