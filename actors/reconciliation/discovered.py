"""Resources that a controller finds by discovery: they come and go while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Generic

from kcm.actors.reconciliation.watches import Change, K_co, Watch
from kcm.protocols.arguments import check_function, check_text, check_type
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.watches import EVERYTHING, Interest
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered(Generic[K_co]):
    """A watch of every resource that `select` picks of those that are served and can be watched.

    to, interest: as in Watch, but `to` is first given the resource; of several interests a change meets one.
    queue: the name of the queue that the keys go to; "": the first. metadata_only: tables hold metadata alone, unless a
    controller needs whole objects; a function says of which resources. only_shared: of the selected resources there are
    those of which another controller has a discovered table; none is made for this one alone.

    A resource that the spec names otherwise, as one that it watches or reads, is not among these.

    Tables come and go by discovery. A reconciler finds those that are there with `tables.discovered()`, and reads one
    as any other, by its Resource; one that is not there, or not synced yet, raises TableMissingError, which retries the
    key. One that takes messages is given TablesChanged. Objects of a table that came are enqueued as ADDED once it is
    synced, those that a table held when it went as DELETED. The first reconciliation waits for static tables alone.
    """

    select: Callable[[ServedResource], bool]
    to: Callable[[Resource, Change, Tables], Iterable[K_co]]
    interest: Interest | tuple[Interest, ...] = EVERYTHING
    queue: str = ""
    metadata_only: bool | Callable[[ServedResource], bool] = True
    only_shared: bool = False

    def __post_init__(self) -> None:
        """Raises TypeError on what cannot be called, and on what is no Interest."""
        check_function("select of a Discovered", self.select)
        check_function("to of a Discovered", self.to)
        check_text("queue of a Discovered", self.queue, may_be_empty=True)
        for interest in self.interest if isinstance(self.interest, tuple) else (self.interest,):
            check_type("interest of a Discovered", interest, Interest, "an Interest")

    def is_metadata_enough(self, served: ServedResource) -> bool:
        return self.metadata_only(served) if callable(self.metadata_only) else self.metadata_only

    def watches(self, resource: Resource) -> tuple[Watch[K_co], ...]:
        """One for each interest."""
        interests = (self.interest,) if isinstance(self.interest, Interest) else self.interest
        return tuple(Watch(resource, to=partial(self.to, resource), interest=one) for one in interests)


def wanted_tables(
    served: Iterable[ServedResource], discovers: Iterable[Discovered[Any]]
) -> Mapping[str, tuple[ServedResource, bool]]:
    """By Resource.id: the resources that at least one selects, and whether metadata is enough for all who do."""
    wanted = tuple(one for one in discovers if not one.only_shared)
    tables: dict[str, tuple[ServedResource, bool]] = {}
    for one in served:
        selecting = [each for each in wanted if each.select(one)]
        if selecting:
            tables[one.resource.id] = one, all(each.is_metadata_enough(one) for each in selecting)
    return tables
