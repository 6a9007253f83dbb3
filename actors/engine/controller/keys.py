"""Keys that a controller must reconcile: keys of changed objects, and of all existing objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, OwnerRef
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.audience import Audience, Concern
from kcm.runtime.tables.interests import InterestIndex
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import TableMissingError, Tables
from kcm.runtime.tables.view import AnyTable, View, mark_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Route = tuple[Watch[Any], WorkQueue[Any]]  # a watch, and the queue that its keys go to
_SELF = ""
MOST_POSTPONED = 10_000  # changes that wait for a table
LISTED_AT_ONCE = 1000  # existing objects that are examined at once; takes up to 20 ms


class _Routes:
    """Routes of one resource. Their positions are those of Subscribe.interests."""

    def __init__(self, routes: Sequence[Route], seen: AnyTable | None) -> None:
        """Index the routes of a resource.

        seen: the controller's view of the resource; None for a discovered resource, which it sees completely.
        """
        self._routes = [(_of_metadata(watch) if watch.metadata_only else watch, queue) for watch, queue in routes]
        self.interests = tuple(
            replace(watch.interest, of_owner=True) if watch.is_of_owners else watch.interest for watch, _ in routes
        )
        if isinstance(seen, View):
            self.interests = tuple(_as_in_tables(interest, seen) for interest in self.interests)
        self._seen = seen
        # Marks of the watches that select less than the controller sees, by position.
        self._marks = {
            position: mark_of(watch.selection)
            for position, (watch, _) in enumerate(routes)
            if seen is not None and not watch.selection.covers(seen.selection)
        }
        within = [self._marks.get(position, "") for position in range(len(routes))]
        self._audience = Audience()
        self._audience.subscribe(_SELF, self.interests, within)
        self.of_owners = sum(1 << position for position, (watch, _) in enumerate(self._routes) if watch.is_of_owners)
        self._read_kinds = any(interest.owner_kinds for interest in self.interests)
        self._read_finalizers = any(interest.finalizers for interest in self.interests)
        pairs = frozenset(pair for interest in self.interests for pair in interest.indexed)
        self._pairs = None if self._audience.is_divided else pairs  # index values that are read; None for all
        self._read_values = self._audience.is_divided or bool(pairs)
        self._having = tuple(dict.fromkeys(fact for interest in self.interests for fact, _ in interest.having))
        self._filled = tuple(dict.fromkeys(fact for interest in self.interests for fact in interest.filled))
        indexed = [watch.interest.indexed for watch, _ in routes]
        self._indexed = tuple(dict.fromkeys(pair for pairs in indexed for pair in pairs)) if all(indexed) else ()

    @cached_property
    def _states(self) -> InterestIndex:
        """Interests that depend only on the new state of an object."""
        return InterestIndex({_SELF: [interest if _is_of_states(interest) else None for interest in self.interests]})

    def within(self, table_id: str) -> tuple[str, ...]:
        """Return the value of Subscribe.within for the informer of this table."""
        mark = ""
        if isinstance(self._seen, View):
            mark = next(part.mark for part in self._seen.parts if part.table.id == table_id)
        if not mark and not self._marks:
            return ()
        return tuple(self._marks.get(position, mark) for position in range(len(self._routes)))

    def matching(self, matches: int) -> list[Route]:
        """Return the routes of the matching watches. matches: see WatchEvents."""
        return [route for position, route in enumerate(self._routes) if matches >> position & 1]

    def matches_of(self, type: EventType, entry: Entry) -> int:
        """Return the matches that the informer would report for an object that the controller sees or saw."""
        return sum(concern.concerned.get(_SELF, 0) for concern in self._concerns(type, entry, None))

    def candidates(self, table: AnyTable) -> Iterable[Entry]:
        """Return the objects that a watch may see as ADDED: if all watches select by indexes, not the whole table."""
        if not self._indexed:
            return table.entries()
        found = {entry.key: entry for index, value in self._indexed for entry in table.indexed(index, value)}
        return found.values()

    def shared_properties(self, entry: Entry) -> tuple[object, ...]:
        """Return what decides which watches see an object as ADDED. It is the same for many objects."""
        shared: tuple[object, ...] = ()
        if self._read_kinds:
            shared = (None if entry.controller is None else entry.controller.kind,)
        if self._read_finalizers:
            shared += (entry.finalizers,)
        if self._read_values:
            # The other values of indexes, such as the node of a pod, differ from object to object.
            pairs = self._pairs
            shared += (entry.values if pairs is None else tuple([pair for pair in entry.values if pair in pairs]),)
        if self._having:
            shared += tuple([getattr(entry.facts, fact, None) for fact in self._having])
        if self._filled:
            shared += tuple([bool(getattr(entry.facts, fact, None)) for fact in self._filled])
        return shared

    def missed(self, before: Entry, after: Entry) -> Iterator[tuple[EventType, int]]:
        """Return the watches that may have missed a change to `after`, because the informer did not see `before`."""
        reported = self._states.concerned(EventType.ADDED, after, None).get(_SELF, 0)
        for concern in self._concerns(EventType.MODIFIED, after, before):
            matches = concern.concerned.get(_SELF, 0)
            if concern.type == EventType.MODIFIED:
                matches &= ~reported
            if matches:
                yield concern.type, matches

    def _concerns(self, type: EventType, entry: Entry, previous: Entry | None) -> Iterator[Concern]:
        yield Concern(type, entry, previous, self._audience.concerned(type, entry, previous))
        if self._audience.is_divided:
            yield from self._audience.concerned_within(type, entry, previous)


class _ListedObjects:
    """Objects of an informer's list, of which each watch sees some as ADDED."""

    def __init__(self, routes: _Routes) -> None:
        self._routes = routes
        self._matches: dict[tuple[object, ...], int] = {}  # by shared_properties()
        self._owners: set[tuple[str, OwnerRef | None]] = set()  # namespaces and controller owners that were seen

    def matches(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, int]]:
        """Yield the next objects that a watch sees, each with a bit mask of these watches.

        A watch that enqueues only the object's owner sees one object of each owner.
        """
        of_owners, owners, decided = self._routes.of_owners, self._owners, self._matches
        shared_properties = self._routes.shared_properties
        for entry in entries:
            shared = shared_properties(entry)
            matches = decided.get(shared)
            if matches is None:
                matches = decided[shared] = self._routes.matches_of(EventType.ADDED, entry)
            if matches & of_owners:
                owner = entry.key.partition("/")[0], entry.controller
                if owner in owners:
                    matches &= ~of_owners
                else:
                    owners.add(owner)
            if matches:
                yield entry, matches


def _of_metadata(watch: Watch[Any]) -> Watch[Any]:
    """Return the watch with a `to` that sees metadata only, whatever the table contains."""
    to = watch.to
    return replace(watch, to=lambda change, tables: to(change.of_metadata(), tables))


def _as_in_tables(interest: Interest, seen: View) -> Interest:
    """Return the interest with the names that the tables use for the controller's indexes."""
    if not interest.indexed:
        return interest
    return msgspec.structs.replace(
        interest, indexed=tuple((seen.index_name(index), value) for index, value in interest.indexed)
    )


def _is_of_states(interest: Interest) -> bool:
    """Report whether the interest depends only on the object's new state, not on the previous one."""
    types = interest.types
    return not (interest.changed or interest.owners) and (
        not types or (EventType.ADDED in types and EventType.MODIFIED in types)
    )


class Keys:
    """Adds the keys of changed objects to the work queues, according to the watches of a controller."""

    def __init__(
        self,
        *,
        routes: Sequence[Route],
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        raised: Callable[[str, str, Exception], None],
    ) -> None:
        """Index the routes by resource.

        log: bound to the controller.
        raised: called with the exception of a `to` function, see ActorSystem.raised.
        """
        self._tables, self._clock, self._log, self._raised = tables, clock, log, raised
        self._routes: dict[str, _Routes] = {}
        self._postponed: dict[tuple[str, Key, str], tuple[Change, int]] = {}  # in the order of the changes
        self._listings: dict[str, Iterator[int]] = {}  # under way, by Resource.id; the first one is continued first
        for resource_id in dict.fromkeys(watch.resource.id for watch, _ in routes):
            overlay = tables.overlay(resource_id)
            self._routes[resource_id] = _Routes(
                [route for route in routes if route[0].resource.id == resource_id],
                overlay.table if overlay is not None else None,
            )

    def add_routes(self, routes: Sequence[Route]) -> None:
        """Add the routes of one discovered resource."""
        self._routes[routes[0][0].resource.id] = _Routes(routes, None)

    def remove_routes(self, resource_id: str) -> None:
        """Remove the routes of a discovered resource, and enqueue its objects' keys as if they had been DELETED."""
        overlay, routes = self._tables.overlay(resource_id), self._routes.get(resource_id)
        for entry in overlay.entries() if overlay is not None and routes is not None else ():
            self._add_deleted(resource_id, entry)
        self._routes.pop(resource_id, None)
        self._listings.pop(resource_id, None)

    def subscription(self, table_id: str) -> tuple[tuple[Interest, ...], tuple[str, ...]]:
        """Return the interests for this table's informer and their `within`; empty for a resource that is only read.

        See Subscribe.
        """
        routes = self._routes.get(table_id.partition("?")[0])
        return (routes.interests, routes.within(table_id)) if routes is not None else ((), ())

    def add_concerned(self, resource_id: str, change: Change, matches: int, *, listed: bool = False) -> None:
        """Enqueue the keys of a change.

        matches: the watches of the resource that the change meets, as bits by position.
        listed: the change is not from an event but from a listing of existing objects.
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
                delay = watch.delay
                if delay:
                    for key in keys:
                        queue.add_after(key, delay, now)  # type: ignore[arg-type]  # resolved
                else:
                    add = queue.add_listed if listed else queue.add
                    for key in keys:
                        add(key, now)
            except TableMissingError as err:
                self._postpone(resource_id, change, matches, err)
            except Exception as err:  # a malformed object must not affect other watches
                from kcm.actors.engine.controller.malformed import malformed_object  # few objects are malformed

                self._raised(f"`to` of the watch of {watch.resource.name}", change.key, err)
                descriptions = (
                    malformed_object(watch.resource, change.key, obj, metadata_only=watch.metadata_only)
                    for obj in (change.new, change.old)
                    if obj is not None
                )
                found = next(filter(None, descriptions), "")
                self._log.warning(
                    "malformed object skipped",
                    resource=watch.resource.name,
                    key=change.key,
                    error=found or f"{type(err).__name__}: {err}",
                )

    def _postpone(self, resource_id: str, change: Change, matches: int, err: TableMissingError) -> None:
        """Keep a change until a table arrives: a `to` function reads a discovered table that cannot be read yet."""
        self._log.debug("change postponed until a table is synced", key=change.key, error=str(err))
        if change.type != EventType.DELETED and not self._tables.is_readable(resource_id):
            return  # all objects of its own table are enqueued once that arrives
        self._postponed.pop((resource_id, change.key, change.type), None)
        self._postponed[resource_id, change.key, change.type] = (change, matches)
        if len(self._postponed) > MOST_POSTPONED:
            dropped = next(iter(self._postponed))
            del self._postponed[dropped]
            self._log.warning("too many changes wait for a table, one is dropped", key=dropped[1], error=str(err))

    def _add_postponed(self) -> None:
        postponed, self._postponed = self._postponed, {}
        for (resource_id, _, _), (change, matches) in postponed.items():
            self.add_concerned(resource_id, change, matches)

    @property
    def is_listing(self) -> bool:
        """Report whether existing objects are left for list_some()."""
        return bool(self._listings)

    def add_all(self) -> None:
        """Enqueue the keys of all existing objects, as if they had just been added; those of many objects in parts."""
        for resource_id in self._routes:
            if self._tables.is_readable(resource_id):
                self._begin_listing(resource_id)
        self.list_some()

    def add_all_of(self, resource_id: str) -> None:
        """Enqueue the keys of all objects of one resource, as add_all does."""
        self._begin_listing(resource_id)
        self.list_some()

    def _begin_listing(self, resource_id: str) -> None:
        self._listings.pop(resource_id, None)
        self._listings[resource_id] = self._listing(resource_id)

    def list_some(self) -> None:
        """Enqueue the keys of the next LISTED_AT_ONCE existing objects.

        All objects at once would occupy the controller's actor for seconds in a large cluster. Objects that change
        between two parts are enqueued by their events as well.
        """
        examined = 0
        while self._listings and examined < LISTED_AT_ONCE:
            resource_id, listing = next(iter(self._listings.items()))
            part = next(listing, None)
            if part is None:
                del self._listings[resource_id]
            else:
                examined += part

    def _listing(self, resource_id: str) -> Iterator[int]:
        """Enqueue the keys of all objects of a resource, and yield the number of objects after each part."""
        overlay, routes = self._tables.overlay(resource_id), self._routes.get(resource_id)
        if overlay is None or routes is None:
            return
        table, listed = overlay.table, _ListedObjects(routes)
        existing = list(routes.candidates(table))
        for start in range(0, len(existing), LISTED_AT_ONCE):
            part: Iterable[Entry] = existing[start : start + LISTED_AT_ONCE]
            if start:  # they may have changed since the first part
                part = [now for entry in part if (now := table.get(entry.key)) is not None]
            for entry, matches in listed.matches(part):
                self.add_concerned(resource_id, Change.of_entry(entry), matches, listed=True)
            yield min(LISTED_AT_ONCE, len(existing) - start)
        self._add_postponed()

    def add_unseen(self) -> None:
        """Enqueue keys for own writes that other clients changed or deleted before the watch showed them."""
        for resource_id, unseen in self._tables.unseen():
            while unseen:
                before, after = unseen.pop()
                if after is None:
                    if before is not None:
                        self._add_deleted(resource_id, before)
                elif before is None:
                    self._add_added(resource_id, after)
                else:
                    self._add_missed(resource_id, before, after)

    def _add_missed(self, resource_id: str, before: Entry, after: Entry) -> None:
        routes = self._routes.get(resource_id)
        for type, matches in routes.missed(before, after) if routes is not None else ():
            entry = before if type == EventType.DELETED else after
            change = Change(
                type=type,
                key=entry.key,
                raw=entry.raw,
                controller=entry.controller,
                previous=before.raw if type == EventType.MODIFIED else b"",
                previous_controller=before.controller if type == EventType.MODIFIED else None,
            )
            self.add_concerned(resource_id, change, matches)

    def _add_added(self, resource_id: str, entry: Entry) -> None:
        routes = self._routes.get(resource_id)
        matches = routes.matches_of(EventType.ADDED, entry) if routes is not None else 0
        if matches:
            self.add_concerned(resource_id, Change.of_entry(entry), matches)

    def _add_deleted(self, resource_id: str, entry: Entry) -> None:
        routes = self._routes.get(resource_id)
        if routes is not None:
            deletion = Change(type=EventType.DELETED, key=entry.key, raw=entry.raw, controller=entry.controller)
            self.add_concerned(resource_id, deletion, routes.matches_of(EventType.DELETED, entry))
