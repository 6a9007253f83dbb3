"""What the tables of some resources derive and index beyond the object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from protocols.nodes import lease_facts, node_facts
from protocols.objects import Object
from protocols.pods import pod_facts
from protocols.resources import LEASES, NODES, PODS, Resource
from runtime.tables.frozen import freeze
from runtime.tables.table import Table

NODE = "node"  # index of pods by spec.nodeName; pods without one are under ""


def node_of(pod: Object) -> Iterable[str]:
    return (pod.get("spec", {}).get("nodeName") or "",)


DERIVED = {PODS.id: pod_facts, NODES.id: node_facts, LEASES.id: lease_facts}
INDEXES = {PODS.id: {NODE: node_of}}


def new_table(resource: Resource, *, freeze: Callable[[Object], Object] | None = None) -> Table:
    return Table(resource, derive=DERIVED.get(resource.id), indexes=INDEXES.get(resource.id), freeze=freeze)


def frozen_table(resource: Resource) -> Table:
    """One whose objects raise when they are changed: for simulation and tests."""
    return new_table(resource, freeze=freeze)
