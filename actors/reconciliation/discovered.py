"""Watches of resources that are found by discovery, and that appear and disappear while a controller runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic

from msgspec import Struct

from kcm.actors.reconciliation.watches import Change, K_co, Watch
from kcm.protocols.arguments import check_function, check_text, check_type
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.watches import EVERYTHING, Interest
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables


class Discovered(Struct, Generic[K_co], frozen=True, kw_only=True):
    """Watch of every watchable resource that `select` accepts, except those that the spec watches or reads by name.

    A reconciler gets the present tables from `tables.discovered()` and reads them by Resource like other tables. A
    table that is missing or not synced yet raises TableMissingError, which retries the key. A reconciler that takes
    messages receives TablesChanged. The objects of an added table are enqueued as ADDED once it is synced, the objects
    of a removed table as DELETED. The first reconciliation waits for static tables only.

    select: accepts or rejects a resource.
    to: as in Watch, with the resource as an additional first argument.
    interest: as in Watch; of several interests, a change must meet one.
    queue: name of the queue that receives the keys; "": the first.
    metadata_only: tables contain only metadata, unless another controller needs whole objects; may depend on the
        resource.
    only_shared: use only tables that other controllers discover; create no table for this controller alone.
    """

    select: Callable[[ServedResource], bool]
    to: Callable[[Resource, Change, Tables], Iterable[K_co]]
    interest: Interest | tuple[Interest, ...] = EVERYTHING
    queue: str = ""
    metadata_only: bool | Callable[[ServedResource], bool] = True
    only_shared: bool = False

    def __post_init__(self) -> None:
        """Raise TypeError for invalid fields."""
        check_function("select of a Discovered", self.select)
        check_function("to of a Discovered", self.to)
        check_text("queue of a Discovered", self.queue, may_be_empty=True)
        for interest in self.interest if isinstance(self.interest, tuple) else (self.interest,):
            check_type("interest of a Discovered", interest, Interest, "an Interest")

    def is_metadata_enough(self, served: ServedResource) -> bool:
        return self.metadata_only(served) if callable(self.metadata_only) else self.metadata_only

    def watches(self, resource: Resource) -> tuple[Watch[K_co], ...]:
        """Return the watches of this resource, one for each interest."""
        interests = (self.interest,) if isinstance(self.interest, Interest) else self.interest
        return tuple(Watch(resource, to=partial(self.to, resource), interest=interest) for interest in interests)


def wanted_tables(
    served: Iterable[ServedResource], discovers: Iterable[Discovered[Any]]
) -> Mapping[str, tuple[ServedResource, bool]]:
    """Return the resources that need a table, by Resource.id, and whether its table may be metadata-only."""
    wanted = tuple(discovered for discovered in discovers if not discovered.only_shared)
    tables: dict[str, tuple[ServedResource, bool]] = {}
    for resource in served:
        selecting = [discovered for discovered in wanted if discovered.select(resource)]
        if selecting:
            metadata_only = all(discovered.is_metadata_enough(resource) for discovered in selecting)
            tables[resource.resource.id] = resource, metadata_only
    return tables
