"""Which keys a controller has to look at: what changes concern, and what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from actors.reconciliation import Change, Interest, Watch
from protocols.messages.watching import EventType
from runtime.scheduling.clock import Clock
from runtime.scheduling.work_queue import WorkQueue
from runtime.tables.interests import InterestIndex
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Route = tuple[Watch[Any], WorkQueue[Any]]  # a watch, and the queue that its keys go to
_SELF = ""


class _Routes:
    """Those of one resource. Their positions are those of Subscribe.interests."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self.interests = tuple(watch.interest for watch, _ in routes)
        self._index = InterestIndex({_SELF: self.interests})

    def matching(self, matches: int) -> list[Route]:
        """matches: as in WatchEvents."""
        return [route for position, route in enumerate(self._routes) if matches >> position & 1]

    def matches_of(self, type: EventType, entry: Entry) -> int:
        """What the informer would say of an object that is there, or is gone."""
        return self._index.concerned(type, entry, None).get(_SELF, 0)


class Keys:
    """Adds to the work queues, by the watches of a reconciler."""

    def __init__(
        self,
        *,
        routes: Sequence[Route],
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        raised: Callable[[str, str, Exception], None],
    ) -> None:
        """log: bound to the controller. raised: called with what a `to` function raised, see ActorSystem.raised."""
        self._tables, self._clock, self._log, self._raised = tables, clock, log, raised
        self._routes = {
            resource_id: _Routes([route for route in routes if route[0].resource.id == resource_id])
            for resource_id in dict.fromkeys(watch.resource.id for watch, _ in routes)
        }

    def add_route(self, route: Route) -> None:
        """The only one of a discovered resource."""
        self._routes[route[0].resource.id] = _Routes([route])

    def remove_routes(self, resource_id: str) -> None:
        """A discovered resource is gone: enqueue what its objects concern, as if they had been DELETED."""
        overlay, routes = self._tables.overlay(resource_id), self._routes.get(resource_id)
        for entry in overlay.entries() if overlay is not None and routes is not None else ():
            self._add_deleted(resource_id, entry)
        self._routes.pop(resource_id, None)

    def interests(self, resource_id: str) -> tuple[Interest, ...]:
        """What to subscribe to; empty for a resource that is only read."""
        routes = self._routes.get(resource_id)
        return routes.interests if routes is not None else ()

    def add_concerned(self, resource_id: str, change: Change, matches: int, *, listed: bool = False) -> None:
        """matches: which watches of that resource the change meets, as bits. listed: no event shows it, but a look at
        all that is there.
        """
        routes = self._routes.get(resource_id)
        if routes is None:
            return
        now = self._clock.monotonic()
        for watch, queue in routes.matching(matches):
            try:
                keys = watch.to(change, self._tables)
                if isinstance(keys, str):
                    raise TypeError(f"`to` returns keys, as a list, and not the text {keys!r}")
                add = queue.add_listed if listed else queue.add
                for key in keys:
                    add(key, now)
            except Exception as err:  # a malformed object concerns nobody else
                self._raised(f"`to` of the watch of {watch.resource.name}", change.key, err)
                self._log.warning(
                    "malformed object skipped",
                    resource=watch.resource.name,
                    key=change.key,
                    error=f"{type(err).__name__}: {err}",
                )

    def add_all(self) -> None:
        """Enqueue what everything that is there concerns, as if it had just been added."""
        for resource_id in self._routes:
            if self._tables.is_readable(resource_id):
                self.add_all_of(resource_id)

    def add_all_of(self, resource_id: str) -> None:
        """The same for one resource."""
        overlay, routes = self._tables.overlay(resource_id), self._routes.get(resource_id)
        if overlay is None or routes is None:
            return
        for entry in overlay.table.entries():
            matches = routes.matches_of(EventType.ADDED, entry)
            if matches:
                self.add_concerned(resource_id, Change.of_entry(entry), matches, listed=True)

    def add_unseen(self) -> None:
        """Enqueue keys for objects we wrote that the watch will never show, as if they had been DELETED."""
        for resource_id, overlay in self._tables.overlays().items():
            while overlay.unseen:
                self._add_deleted(resource_id, overlay.unseen.pop())

    def _add_deleted(self, resource_id: str, entry: Entry) -> None:
        routes = self._routes.get(resource_id)
        if routes is not None:
            gone = Change(type=EventType.DELETED, key=entry.key, raw=entry.raw, controller=entry.controller)
            self.add_concerned(resource_id, gone, routes.matches_of(EventType.DELETED, entry))
