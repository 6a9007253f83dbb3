"""Tables as reconcilers read them: with facts derived from objects, and the indexes that specs declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kcm.actors.reconciliation.specs import ControllerSpec, Index, names_of_facts
from kcm.protocols.nodes import lease_facts, node_facts
from kcm.protocols.objects import Object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import LEASES, NODES, PODS, Resource, split_cluster
from kcm.runtime.tables.frozen import freeze
from kcm.runtime.tables.selection import WHOLE, Selection
from kcm.runtime.tables.table import BUILT_IN_INDEXES, IndexValues, Table

NODE = "node"


def node_of(pod: Object) -> Iterable[str]:
    return ((pod.get("spec") or {}).get("nodeName") or "",)


PODS_BY_NODE = Index(PODS, NODE, node_of)  # by spec.nodeName; pods without one are under ""

DERIVED = {PODS.id: pod_facts, NODES.id: node_facts, LEASES.id: lease_facts}  # on each cluster


def indexes_of(specs: Iterable[ControllerSpec]) -> dict[str, dict[str, IndexValues]]:
    """Return the indexes that these controllers declare, by Resource.id and name.

    Raises ValueError if two controllers declare different indexes with the same name.
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
    """Return the functions that derive facts of objects, by Resource.id: built-in ones and those of these controllers.

    Raises ValueError if a resource has two of them.
    """
    found: dict[str, Callable[[Object], Any]] = dict(DERIVED)
    owners: dict[str, ControllerSpec] = {}
    for spec in specs:
        for facts in spec.facts:
            known = found.setdefault(facts.resource.id, _built_in_facts(facts.resource.id) or facts.derive)
            if known is not facts.derive:
                owner = owners.get(facts.resource.id)
                whose = f"{owner.name} derives others" if owner is not None else "they have facts already"
                raise ValueError(f"{spec.name} derives facts of {facts.resource}, and {whose}; an Index finds more")
            owners.setdefault(facts.resource.id, spec)
    return found


def _built_in_facts(resource_id: str) -> Callable[[Object], Any] | None:
    return DERIVED.get(split_cluster(resource_id)[1])


def check_interests(specs: Iterable[ControllerSpec]) -> None:
    """Raise ValueError if the interest of a watch names an unknown fact or index, and would match too much or nothing.

    A restricted watch has only the indexes of its own controller. A metadata-only watch has no facts.
    """
    specs = tuple(specs)
    indexes, derived = indexes_of(specs), derived_by(specs)
    for spec in specs:
        for watch in spec.watches:
            resource_id, interest = watch.resource.id, watch.interest
            derive = None if watch.metadata_only else derived.get(resource_id) or _built_in_facts(resource_id)
            facts = {*interest.changed, *interest.filled, *(fact for fact, _ in interest.having)}
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
    """Factory of tables.

    metadata_only: objects have neither spec nor status, and no facts.
    selection: objects that the table contains.
    derive: derives the facts of an entry; None: the built-in function of the resource, if any.
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
    derive = None if metadata_only else derive or _built_in_facts(resource.id)
    return Table(resource, derive=derive, metadata_only=metadata_only, selection=selection, freeze=freeze)


def frozen_table(
    resource: Resource,
    *,
    metadata_only: bool = False,
    selection: Selection = WHOLE,
    derive: Callable[[Object], Any] | None = None,
) -> Table:
    """Return a table whose objects raise when they are modified, for simulation and tests."""
    return new_table(resource, metadata_only=metadata_only, selection=selection, derive=derive, freeze=freeze)
