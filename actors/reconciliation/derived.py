"""Tables as reconcilers read them: with facts derived from objects, and the indexes that specs declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kcm.actors.reconciliation.specs import ControllerSpec, Index, names_of_facts
from kcm.protocols.nodes import lease_facts, node_facts
from kcm.protocols.objects import Object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import LEASES, NODES, PODS, Resource
from kcm.runtime.tables.frozen import freeze
from kcm.runtime.tables.selection import WHOLE, Selection
from kcm.runtime.tables.table import BUILT_IN_INDEXES, IndexValues, Table

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


def derived_by(specs: Iterable[ControllerSpec]) -> dict[str, Callable[[Object], Any]]:
    """By Resource.id, what derives the facts of its objects: ours, and what these controllers declare.

    Raises ValueError if two are to derive facts of one resource.
    """
    found: dict[str, Callable[[Object], Any]] = dict(DERIVED)
    owners: dict[str, ControllerSpec] = {}
    for spec in specs:
        for one in spec.facts:
            known = found.setdefault(one.resource.id, one.derive)
            if known is not one.derive:
                owner = owners.get(one.resource.id)
                whose = f"{owner.name} derives others" if owner is not None else "they have facts already"
                raise ValueError(f"{spec.name} derives facts of {one.resource}, and {whose}; an Index finds more")
            owners.setdefault(one.resource.id, spec)
    return found


def check_interests(specs: Iterable[ControllerSpec]) -> None:
    """Raises ValueError if a watch names a fact or an index that its table does not have: it would match too much, or
    nothing. What is selected has the indexes that its own controller declares, and metadata has no facts.
    """
    specs = tuple(specs)
    indexes, derived = indexes_of(specs), derived_by(specs)
    for spec in specs:
        for watch in spec.watches:
            resource_id, interest = watch.resource.id, watch.interest
            derive = None if watch.metadata_only else derived.get(resource_id)
            facts = {*interest.changed, *(fact for fact, _ in interest.having)}
            if facts and derive is not None:
                facts -= names_of_facts(derive)
            known = {*indexes.get(resource_id, ()), *BUILT_IN_INDEXES}
            if watch.is_restricted:
                known = {*(index.name for index in spec.indexes if index.resource == watch.resource), *BUILT_IN_INDEXES}
            named = {index for index, _ in interest.indexed} - known
            for what, unknown in (("fact", facts), ("index", named)):
                if unknown:
                    raise ValueError(f"{spec.name} watches {watch.resource} by an unknown {what}: {min(unknown)!r}")


class MakeTable(Protocol):
    """selection: which objects it holds. derive: makes an entry's facts; None for ours.

    metadata_only: its objects have neither spec nor status, so nothing is derived from them.
    """

    def __call__(
        self,
        resource: Resource,
        *,
        metadata_only: bool = False,
        selection: Selection = WHOLE,
        derive: Callable[[Object], Any] | None = None,
    ) -> Table: ...


def new_table(
    resource: Resource,
    *,
    metadata_only: bool = False,
    selection: Selection = WHOLE,
    derive: Callable[[Object], Any] | None = None,
    freeze: Callable[[Object], Object] | None = None,
) -> Table:
    metadata_only = metadata_only or selection.metadata_only
    derive = None if metadata_only else derive or DERIVED.get(resource.id)
    return Table(resource, derive=derive, metadata_only=metadata_only, selection=selection, freeze=freeze)


def frozen_table(
    resource: Resource,
    *,
    metadata_only: bool = False,
    selection: Selection = WHOLE,
    derive: Callable[[Object], Any] | None = None,
) -> Table:
    """One whose objects raise when they are changed: for simulation and tests."""
    return new_table(resource, metadata_only=metadata_only, selection=selection, derive=derive, freeze=freeze)
