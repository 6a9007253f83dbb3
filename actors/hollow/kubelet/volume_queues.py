"""Watches and queues of the volumes of hollow kubelets. `nodes` are the names of the hollow nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.hollow import behaviour
from kcm.actors.hollow.intervals import MANY
from kcm.actors.hollow.kubelet.volumes import has_claims, uses_claims
from kcm.actors.hollow.scheduler.node_fit import ZONE_LABEL
from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.actors.reconciliation.derived import NODE
from kcm.actors.reconciliation.specs import AnyQueue, Queue
from kcm.protocols.csi import NODE_ID, attached_names, attached_volume, in_use_names
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, annotations_of, labels_of, uid_of
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import key_of_reference
from kcm.runtime.tables.tables import Tables

IN_USE, REGISTRATION = "hollow-volumes-in-use", "hollow-csi-nodes"


def waiting_watches(nodes: Collection[str]) -> tuple[Watch[Key], ...]:
    """Return the watches that enqueue pods that may wait for their volumes."""
    keys = _pending(nodes)
    return (
        Watch(PERSISTENT_VOLUME_CLAIMS, to=lambda change, tables: keys(tables, change.key)),
        Watch(PERSISTENT_VOLUMES, to=lambda change, tables: keys(tables, _claim_of(change.new))),
        Watch(VOLUME_ATTACHMENTS, to=lambda change, tables: keys(tables, _claim_attached_by(change.new, tables))),
        Watch(CSI_DRIVERS, to=lambda _change, tables: _all_pending(tables, nodes)),
        Watch(NODES, to=_pending_on(nodes), interest=Interest(types=(EventType.MODIFIED,))),
    )


def _pending(nodes: Collection[str]) -> Callable[[Tables, Key], Iterable[Key]]:
    def keys(tables: Tables, claim: Key) -> Iterable[Key]:
        entries = tables[PODS].indexed_entries(CLAIMS, claim) if claim else ()
        return [entry.key for entry in entries if entry.facts.node in nodes and entry.facts.phase == "Pending"]

    return keys


def _claim_of(volume: Mapping[str, Any]) -> Key:
    reference = (volume.get("spec") or {}).get("claimRef")
    return "" if not reference else key_of_reference(reference)


def _claim_attached_by(attachment: Mapping[str, Any], tables: Tables) -> Key:
    volume = tables[PERSISTENT_VOLUMES].get(attached_volume(attachment))
    return "" if volume is None else _claim_of(volume)


def _all_pending(tables: Tables, nodes: Collection[str]) -> Iterable[Key]:
    for entry in tables[PODS].entries():
        if entry.facts.node in nodes and entry.facts.phase == "Pending":
            yield entry.key


def _pending_on(nodes: Collection[str]) -> Callable[[Change, Tables], Iterable[Key]]:
    """Return a function for the pods of a node whose volumes in use or attached, or annotations, have changed."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        if change.key not in nodes or _volume_state(change.old) == _volume_state(change.new):
            return ()
        entries = tables[PODS].indexed_entries(NODE, change.key)
        return [entry.key for entry in entries if entry.facts.phase == "Pending" and uses_claims(entry)]

    return keys


def _volume_state(node: Object | None) -> tuple[Any, ...]:
    if node is None:
        return ()
    return in_use_names(node), attached_names(node), behaviour.mount_annotations(node)


def _node_of_pod(nodes: Collection[str]) -> Callable[[Change, Tables], Iterable[Key]]:
    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        entry = tables[PODS].entry(change.key)
        if entry is not None:
            return (entry.facts.node,) if entry.facts.node in nodes and uses_claims(entry) else ()
        node = (change.new.get("spec") or {}).get("nodeName") or ""
        return (node,) if node in nodes and has_claims(change.new) else ()

    return keys


def _nodes_of_claim(nodes: Collection[str], tables: Tables, claim: Key) -> Iterable[Key]:
    entries = tables[PODS].indexed_entries(CLAIMS, claim) if claim else ()
    return {entry.facts.node for entry in entries if entry.facts.node in nodes}


def _itself_when(nodes: Collection[str], state: Callable[[Object], Any]) -> Callable[[Change, Tables], Iterable[Key]]:
    """Return a function for a hollow node that is new, or whose state has changed."""

    def keys(change: Change, _tables: Tables) -> Iterable[Key]:
        if change.key not in nodes or change.deleted:
            return ()
        known = None if change.type == EventType.ADDED else change.old
        return () if known is not None and state(known) == state(change.new) else (change.key,)

    return keys


def _reporting(node: Object) -> tuple[Any, ...]:
    return in_use_names(node), behaviour.asked_silence(node), behaviour.asked_drivers(node)


def _registration(node: Object) -> tuple[Any, ...]:
    ids = annotations_of(node).get(NODE_ID)
    return uid_of(node), labels_of(node).get(ZONE_LABEL), ids, _reporting(node)[1:]


def volume_queues(nodes: Collection[str]) -> tuple[AnyQueue, ...]:
    """Return the kubelet's queues of nodes."""
    bound = Interest(indexed=tuple((NODE, name) for name in nodes))
    return (
        Queue(
            IN_USE,
            watches=(
                Watch(PODS, to=_node_of_pod(nodes), interest=bound),
                Watch(PERSISTENT_VOLUME_CLAIMS, to=lambda change, tables: _nodes_of_claim(nodes, tables, change.key)),
                Watch(
                    PERSISTENT_VOLUMES,
                    to=lambda change, tables: _nodes_of_claim(nodes, tables, _claim_of(change.new)),
                ),
                Watch(CSI_DRIVERS, to=lambda _change, _tables: nodes),
                Watch(NODES, to=_itself_when(nodes, _reporting)),
            ),
            reconcile=lambda kubelet, key: kubelet.volumes.report(key),
            concurrency=MANY,
            terminal=(),
        ),
        Queue(
            REGISTRATION,
            watches=(
                Watch(NODES, to=_itself_when(nodes, _registration)),
                Watch(CSI_NODES, to=lambda change, _tables: (change.key,) if change.key in nodes else ()),
            ),
            reconcile=lambda kubelet, key: kubelet.volumes.register(key),
            concurrency=MANY,
            terminal=(),
        ),
    )
