"""Tables as reconcilers read them: with facts derived from objects, and the indexes that specs declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, get_type_hints

from actors.reconciliation.specs import ControllerSpec, Index
from protocols.nodes import lease_facts, node_facts
from protocols.objects import Object
from protocols.pods import pod_facts
from protocols.resources import LEASES, NODES, PODS, Resource
from runtime.tables.frozen import freeze
from runtime.tables.table import BUILT_IN_INDEXES, IndexValues, Table

NODE = "node"


def node_of(pod: Object) -> Iterable[str]:
    return (pod.get("spec", {}).get("nodeName") or "",)


PODS_BY_NODE = Index(PODS, NODE, node_of)  # by spec.nodeName; pods without one are under ""

DERIVED = {PODS.id: pod_facts, NODES.id: node_facts, LEASES.id: lease_facts}


def indexes_of(specs: Iterable[ControllerSpec]) -> dict[str, dict[str, IndexValues]]:
    """By Resource.id and name, the indexes that these controllers declare, equal ones once.

    Raises ValueError if two controllers mean different indexes by one name.
    """
    owners: dict[tuple[str, str], tuple[ControllerSpec, Index]] = {}
    for spec in specs:
        for index in spec.indexes:
            owner, known = owners.setdefault((index.resource.id, index.name), (spec, index))
            if known != index:
                raise ValueError(
                    f"{owner.name} and {spec.name} declare different indexes {index.name!r} of {index.resource}"
                )
    found: dict[str, dict[str, IndexValues]] = {}
    for (resource_id, name), (_, index) in owners.items():
        found.setdefault(resource_id, {})[name] = index.values_of
    return found


def facts_of(resource_id: str) -> frozenset[str]:
    """The names of the facts that its table derives."""
    derive = DERIVED.get(resource_id)
    return frozenset() if derive is None else frozenset(get_type_hints(derive)["return"].__dataclass_fields__)


def check_interests(specs: Iterable[ControllerSpec]) -> None:
    """Raises ValueError if a watch names a fact or an index that its table does not have: it would match too much, or
    nothing.
    """
    specs = tuple(specs)
    indexes = indexes_of(specs)
    for spec in specs:
        for watch in spec.watches:
            resource_id, interest = watch.resource.id, watch.interest
            facts = {*interest.changed, *(fact for fact, _ in interest.having)} - facts_of(resource_id)
            named = {index for index, _ in interest.indexed} - {*indexes.get(resource_id, ()), *BUILT_IN_INDEXES}
            for what, unknown in (("fact", facts), ("index", named)):
                if unknown:
                    raise ValueError(f"{spec.name} watches {watch.resource} by an unknown {what}: {min(unknown)!r}")


class MakeTable(Protocol):
    """metadata_only: its objects have neither spec nor status, so nothing is derived from them."""

    def __call__(self, resource: Resource, *, metadata_only: bool = False) -> Table: ...


def new_table(
    resource: Resource, *, metadata_only: bool = False, freeze: Callable[[Object], Object] | None = None
) -> Table:
    derive = None if metadata_only else DERIVED.get(resource.id)
    return Table(resource, derive=derive, metadata_only=metadata_only, freeze=freeze)


def frozen_table(resource: Resource, *, metadata_only: bool = False) -> Table:
    """One whose objects raise when they are changed: for simulation and tests."""
    return new_table(resource, metadata_only=metadata_only, freeze=freeze)
