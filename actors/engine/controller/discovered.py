"""Tables of discovered resources in one controller: added, synced and removed while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.engine.controller.keys import Keys
from kcm.actors.engine.controller.readiness import Readiness
from kcm.actors.reconciliation.discovered import Discovered
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class DiscoveredTables:
    """Discovered tables, updated by TablesChanged. A table that is not synced yet delays only the keys that read it."""

    def __init__(
        self,
        discovers: Discovered[Any],
        *,
        shared: Mapping[str, Table],
        tables: Tables,
        keys: Keys,
        queue: WorkQueue[Any],
        readiness: Readiness,
        subscribe: Callable[[str], None],
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        """Create the tables of one controller, at first none.

        shared: all tables of the system, by Resource.id.
        queue: receives the keys of objects of these tables.
        subscribe: called with the Resource.id of an added table.
        """
        self._discovers, self._shared, self._tables, self._keys = discovers, shared, tables, keys
        self._queue, self._readiness, self._subscribe = queue, readiness, subscribe
        self._clock, self._log = clock, log
        self._known: dict[str, tuple[ServedResource, Table]] = {}  # by Resource.id
        self._arriving: dict[str, tuple[int, float]] = {}  # tables that cannot be read yet: their epoch, since when

    def __contains__(self, resource_id: str) -> bool:
        return resource_id in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    @property
    def arriving(self) -> Mapping[str, float]:
        """Return the tables that cannot be read yet, by Resource.id, and since when, in monotonic seconds."""
        return {resource_id: since for resource_id, (_, since) in self._arriving.items()}

    def follow(self, change: TablesChanged) -> None:
        """Add new tables and remove missing ones. A repeated message has no effect."""
        there = {served.resource.id: served for served in change.resources}
        for resource_id, (known, table) in list(self._known.items()):
            if there.get(resource_id) != known or self._shared.get(resource_id) is not table:
                self._remove(resource_id)
        for resource_id, served in there.items():
            shared = self._shared.get(resource_id)
            if resource_id not in self._known and shared is not None and resource_id not in self._tables.static:
                self._add(served, shared)

    def look_for_arrivals(self) -> None:
        """Enqueue the objects of tables that can be read from now on."""
        arrived = [
            resource_id
            for resource_id, (epoch, _) in self._arriving.items()
            if self._readiness.may_be_read(self._known[resource_id][1], epoch=epoch)
        ]
        for resource_id in arrived:
            del self._arriving[resource_id]
            self._tables.arrived(resource_id)
        for resource_id in arrived:  # when all of them can be read, because objects refer to each other
            self._keys.add_all_of(resource_id)

    def _add(self, served: ServedResource, table: Table) -> None:
        resource = table.resource
        self._known[resource.id] = (served, table)
        self._arriving[resource.id] = (table.epoch, self._clock.monotonic())
        self._tables.add(table)
        self._keys.add_routes([(watch, self._queue) for watch in self._discovers.watches(resource)])
        self._subscribe(resource.id)
        self._log.info("discovered resource is watched", v=2, resource=resource.name, metadata_only=table.metadata_only)

    def _remove(self, resource_id: str) -> None:
        _, table = self._known.pop(resource_id)
        self._arriving.pop(resource_id, None)
        self._keys.remove_routes(resource_id)
        self._tables.remove(resource_id)
        self._log.info("discovered resource is no longer watched", v=2, resource=table.resource.name)
