"""The owner graph for the debug page /graph, and its conversion to DOT, the language of Graphviz.

The nodes are the objects that have owners or dependents, and the owners that no informer cache contains. Such an owner
is `virtual` until the API server has reported that it does not exist; then it is `missing`. The graph is built from the
informer caches for each request.

Source: kubernetes v1.36 pkg/controller/garbagecollector/dump.go. Difference: a missing owner has one node for all of
its dependents; upstream's graph contains no owner that is known to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.controllers.apimachinery.garbage_collector.items import FOREGROUND, is_deleting, references_of
from kcm.protocols.objects import Key, split_key
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import FURTHER_OWNER, Entry
from kcm.runtime.tables.tables import Tables

CONTENT_TYPE = "text/vnd.graphviz"

Reference = Mapping[str, Any]


class GraphNode(NamedTuple):
    """Node of the owner graph: an object, or an owner that no informer cache contains."""

    uid: str
    group: str = ""
    version: str = ""
    kind: str = ""
    namespace: str = ""  # of a virtual owner: the namespace of its first dependent, which is the best guess
    name: str = ""
    missing: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False
    virtual: bool = False


class Graph(NamedTuple):
    """Owner graph: objects as nodes, and an edge from each dependent to each of its owners. Both lists are sorted."""

    nodes: list[GraphNode]
    edges: list[tuple[str, str]]  # (uid of the dependent, uid of the owner)


def owner_graph(tables: Tables, is_absent: Callable[[Key, Reference], bool]) -> Graph:
    """Build the owner graph from the informer caches of all discovered resources.

    is_absent: called with an object's key and one of its owner references; reports whether the server has reported
        that this owner does not exist.
    """
    shown = {entry.uid: (lister, entry) for lister in _listers(tables) for entry in lister.entries()}
    nodes: dict[str, GraphNode] = {}
    edges: list[tuple[str, str]] = []
    for uid, (lister, entry) in shown.items():
        for reference in _references(lister, entry):
            owner = str(reference.get("uid") or "")
            edges.append((uid, owner))
            if uid not in nodes:
                nodes[uid] = _object_node(lister, entry)
            if owner in nodes:
                continue
            found = shown.get(owner)
            if found is not None:
                nodes[owner] = _object_node(*found)
            else:
                nodes[owner] = _absent_node(entry.key, reference, missing=is_absent(entry.key, reference))
    return Graph(sorted(nodes.values()), sorted(edges))


def _listers(tables: Tables) -> Iterator[Lister]:
    return (tables[resource] for resource in tables.discovered())


def _references(lister: Lister, entry: Entry) -> Iterable[Reference]:
    # Most objects have at most one owner reference, which is part of the table entry, so the object is not decoded.
    if any(index == FURTHER_OWNER for index, _ in entry.values):
        return references_of(lister.object_of(entry))
    owner = entry.controller
    if owner is None:
        return ()
    return ({"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid},)


def _object_node(lister: Lister, entry: Entry) -> GraphNode:
    namespace, name = split_key(entry.key)
    resource, deleting = lister.resource, is_deleting(lister, entry)
    return GraphNode(
        uid=entry.uid,
        group=resource.group,
        version=resource.version,
        kind=resource.kind,
        namespace=namespace,
        name=name,
        being_deleted=deleting,
        deleting_dependents=deleting and FOREGROUND in entry.finalizers,
    )


def _absent_node(dependent: Key, reference: Reference, *, missing: bool) -> GraphNode:
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    return GraphNode(
        uid=str(reference.get("uid") or ""),
        group=group,
        version=version,
        kind=str(reference.get("kind") or ""),
        namespace="" if missing else split_key(dependent)[0],
        name=str(reference.get("name") or ""),
        missing=missing,
        virtual=not missing,
    )


def connected_subgraph(graph: Graph, uids: Iterable[str]) -> Graph:
    """Return the subgraph of all nodes that are connected to the nodes with these uids. Unknown uids are ignored."""
    neighbours: dict[str, list[str]] = {node.uid: [] for node in graph.nodes}
    for dependent, owner in graph.edges:
        neighbours[dependent].append(owner)
        neighbours[owner].append(dependent)
    connected: set[str] = set()
    to_do = [uid for uid in uids if uid in neighbours]
    while to_do:
        uid = to_do.pop()
        if uid not in connected:
            connected.add(uid)
            to_do += neighbours[uid]
    return Graph(
        [node for node in graph.nodes if node.uid in connected], [edge for edge in graph.edges if edge[0] in connected]
    )


def dot(graph: Graph) -> str:
    """Return the graph as text in DOT, formatted as by kube-controller-manager."""
    lines = ["strict digraph full {"]
    if graph.nodes:
        lines.append("  // Node definitions.")
        for node in graph.nodes:
            lines += [
                f"  {_quoted(node.uid)} [",
                *(f"    {name}={_quoted(text)}" for name, text in _attributes(node)),
                "  ];",
            ]
    if graph.edges:
        lines.append("  // Edge definitions.")
        lines += [f"  {_quoted(dependent)} -> {_quoted(owner)};" for dependent, owner in graph.edges]
    return "\n".join([*lines, "}", ""])


def _attributes(node: GraphNode) -> Sequence[tuple[str, str]]:
    kind = f"{node.kind}.{node.version}" + (f".{node.group}" if node.group else "")
    states = {
        "beingDeleted": node.being_deleted,
        "deletingDependents": node.deleting_dependents,
        "virtual": node.virtual,
        "missingFromGraph": node.missing,
    }
    conditions = ",".join(name for name, holds in states.items() if holds)
    label = f"uid={node.uid}\nnamespace={node.namespace}\n{kind}/{node.name}\n"
    return (
        ("label", f"{label}{conditions}\n" if conditions else label),
        ("group", node.group),
        ("version", node.version),
        ("kind", node.kind),
        ("namespace", node.namespace),
        ("name", node.name),
        ("uid", node.uid),
        ("missing", _go_bool(node.missing)),
        ("beingDeleted", _go_bool(node.being_deleted)),
        ("deletingDependents", _go_bool(node.deleting_dependents)),
        ("virtual", _go_bool(node.virtual)),
    )


def _go_bool(holds: bool) -> str:
    return "true" if holds else "false"


_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quoted(text: str) -> str:
    """Return the text in double quotes, with special characters escaped as by Go's %q."""
    return '"' + _SPECIAL.sub(lambda found: _ESCAPES.get(found[0]) or f"\\x{ord(found[0]):02x}", text) + '"'
