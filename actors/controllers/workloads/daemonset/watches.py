"""Watches of the DaemonSet controller.

Node changes have a queue of their own, as upstream. A DaemonSet is enqueued if a node's eligibility for its pods
differs before and after the change. Upstream compares the eligibility with the existing pods instead, and misses
changes that affect only the counts in the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kcm.actors.controllers.workloads.daemonset.objects import selector_of
from kcm.actors.reconciliation import ORPHANS, Change, Interest, Watch, its_controller, itself
from kcm.protocols.messages.watches import EventType
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Key, is_deleting, labels_of, uid_of
from kcm.protocols.pods import COUNTED_FACTS
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, PODS
from kcm.runtime.tables.tables import Tables


class NodeChange(NamedTuple):
    """Key of the queue of node changes."""

    node: str
    before: bytes  # NodeFacts.placement before the change; b"" for a new node

    def __str__(self) -> str:
        return self.node


def changed_node(change: Change, _tables: Tables) -> Iterable[NodeChange]:
    before = change.new if change.deleted else change.old
    return (NodeChange(change.key, b"" if before is None else node_facts(before).placement),)


def possible_owners(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the DaemonSets whose selector matches a new, released or relabelled orphan."""
    if change.controller is not None or change.deleted:
        return
    new, old = change.new, change.old
    labels = labels_of(new)
    if not labels or is_deleting(new):
        return
    if old is not None and uid_of(old) == uid_of(new):
        if change.previous_controller is None and labels_of(old) == labels:
            return
    lister = tables[DAEMONSETS]
    for entry in lister.entries(change.namespace):
        try:
            selector = selector_of(lister.object_of(entry))
        except ValueError:
            continue  # the DaemonSet's own sync reports the error
        if not selector.empty and selector.matches(labels):
            yield entry.key


_its_daemon_set: Callable[[Change, Tables], Iterable[Key]] = its_controller(DAEMONSETS)
# Of several pods on a node, those that are bound to it are kept.
_COUNTED = Interest(owner_kinds=(DAEMONSETS.kind,), changed=(*COUNTED_FACTS, "node", "target"))
# As upstream, a revision that someone else creates with our owner reference does not enqueue the DaemonSet.
_CHANGED = Interest(types=(EventType.MODIFIED, EventType.DELETED), owner_kinds=(DAEMONSETS.kind,))

WATCHES = (
    Watch(DAEMONSETS, to=itself),
    Watch(PODS, to=_its_daemon_set, interest=_COUNTED),
    Watch(PODS, to=possible_owners, interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",))),
    Watch(CONTROLLER_REVISIONS, to=_its_daemon_set, interest=_CHANGED),
    Watch(CONTROLLER_REVISIONS, to=possible_owners, interest=Interest(owner_kinds=(ORPHANS,))),
)
NODE_WATCHES = (Watch(NODES, to=changed_node, interest=Interest(changed=("placement",))),)
