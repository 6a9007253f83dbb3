"""What the tables of some resources derive and index beyond the object itself."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.nodes import lease_facts, node_facts
from protocols.objects import Object
from protocols.pods import pod_facts
from protocols.resources import LEASES, NODES, PODS, Resource
from runtime.table import Table

NODE = "node"  # index of pods by spec.nodeName; pods without one are under ""


def node_of(pod: Object) -> Iterable[str]:
    return (pod.get("spec", {}).get("nodeName") or "",)


def new_table(resource: Resource) -> Table:
    if resource.id == PODS.id:
        return Table(resource, derive=pod_facts, indexes={NODE: node_of})
    if resource.id == NODES.id:
        return Table(resource, derive=node_facts)
    if resource.id == LEASES.id:
        return Table(resource, derive=lease_facts)
    return Table(resource)
