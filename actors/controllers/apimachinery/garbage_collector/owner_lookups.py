"""Requests to the API server for owners that no informer cache contains.

An owner is requested either for all of its dependents, or together with the other owners of one object.

Source: kubernetes v1.36 pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, classifyReferences,
isDangling).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.apimachinery.garbage_collector.items import (
    DELETE_QUEUE,
    FOREGROUND,
    LOOKUP_QUEUE,
    Item,
    is_deleting,
    references_of,
)
from kcm.actors.controllers.apimachinery.garbage_collector.lookups import Lookup, Lookups
from kcm.actors.controllers.apimachinery.garbage_collector.owners import KnownOwners
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Retry,
    Step,
    get_live,
    perform,
    together,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome
from kcm.protocols.objects import Object, decode_object, finalizers_of, metadata, split_key, uid_of
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

SYNC_CHECK = 1.0  # seconds between two checks whether a new table has synced
KIND_CHECK = 30.0  # seconds until an owner is checked again whose kind is not served
RESULT_CHECK = 5.0  # seconds to wait for the result of a request that was sent for another object


class OwnerLookups:
    """Reads owners that no informer cache contains from the API server, and records whether they exist."""

    def __init__(self, tables: Tables, owners: KnownOwners, lookups: Lookups) -> None:
        self._tables, self._owners, self._lookups = tables, owners, lookups

    def look_up_owner(self, item: Item, *, removed: bool) -> Reconciliation:
        """Read an owner from the API server, because no informer cache contains it.

        Its dependents are enqueued if they may have to be deleted now. The lookup is postponed if the cache of the
        owner's resource is new and may still sync.

        removed: whether the owner, or its whole cache, has disappeared from the informers.
        """
        dependents = self._tables.dependents(item.uid)
        if dependents and self._owners.is_absent(item):
            yield from self._handle_absent(item, dependents)
            return None
        resource = self._owners.resource_of(item)
        if not dependents or resource is None:
            self._owners.discard_uncached(item)
            return None
        if self._owners.may_still_sync(resource.id):
            return RequeueAfter(SYNC_CHECK)
        command = get_live(resource, item.key)
        outcome = yield from perform(command)
        live = self._live_owner(item, resource, command, outcome, removed=removed)
        if live is not None:
            yield Because("exists, although no table contains it: its dependents are kept")
            return (yield from self._handle_uncached(item, live, dependents))
        yield from self._handle_absent(item, dependents)
        return None

    def _live_owner(
        self, item: Item, resource: Resource, command: Command, outcome: Outcome, *, removed: bool
    ) -> Object | None:
        """Return the owner from the outcome of a request to the API server; None if it does not exist.

        removed: whether the owner, or its whole cache, has disappeared from the informers. If the cache still exists,
            the watch has reported the deletion, and any 404 proves that the owner does not exist. Otherwise only a 404
            that names the owner proves it: the resource may not be served any more.

        Raises CommandError if the read failed, and Retry if a 404 proves nothing.
        """
        if isinstance(outcome, Done):
            live = decode_object(outcome.body)
            return live if uid_of(live) == item.uid else None
        deletion_was_seen = removed and self._owners.lister_of(item) is not None
        if not isinstance(outcome, NotFound):
            raise CommandError(command, outcome)
        if not deletion_was_seen and not _names_object(outcome, split_key(item.key)[1]):
            raise Retry(f"{resource} is not served any more: {outcome.message}", after=KIND_CHECK)
        return None

    def _handle_absent(self, item: Item, dependents: Sequence[tuple[Lister, Entry]]) -> Step[None]:
        self._owners.record_absent([item])
        yield Because(f"does not exist: checks its {counted(len(dependents), 'dependent')}")
        yield from enqueue_for_deletion(dependents)

    def _handle_uncached(self, item: Item, live: Object, dependents: Sequence[tuple[Lister, Entry]]) -> Reconciliation:
        """Handle an owner that the API server has returned although no informer cache contained it.

        If a cache contains the owner by now, its dependents are enqueued and no further request is needed. Otherwise
        the dependents are enqueued only if this result is new, and the owner is requested again later.
        """
        if self._owners.find(item) is not None:
            self._owners.discard_uncached(item)
            yield from enqueue_for_deletion(dependents)
            return None
        is_new, after = self._record_uncached(item, live)
        if is_new:
            yield from enqueue_for_deletion(dependents)
        return RequeueAfter(max(0.0, after))

    def _record_uncached(self, item: Item, live: Object) -> tuple[bool, float]:
        waits = metadata(live).get("deletionTimestamp") is not None and FOREGROUND in finalizers_of(live)
        return self._owners.record_uncached(item, waits=waits)

    # Queue look_up_owners.

    def look_up_owners(self, item: Item) -> Reconciliation:
        """Read the next few owners of an object that no informer cache contains, from the API server.

        When it is known for all owners whether they exist, the object is added to the queue attempt_to_delete.
        """
        found = self._owners.find(item)
        if found is None or is_deleting(*found):
            self._lookups.forget(item)
            return None
        lister, entry = found
        references = references_of(lister.object_of(entry))
        lookup = self._lookups.begin(item, entry.resource_version, references)
        start = lookup.position
        unseen = lookup.next_unread(references, lambda reference: self._owners.of(entry.key, reference))
        if not unseen:
            yield Enqueue(DELETE_QUEUE, item)
            return None
        unsynced = next((owner for _, owner in unseen if self._owners.may_still_sync(owner.resource)), None)
        if unsynced is not None:
            lookup.position = start
            yield Enqueue(DELETE_QUEUE, unsynced)  # look_up_owner waits for the table
            return None
        reads = self._lookups.begin_reads(unseen, dependent=item)
        if len(reads) < len(unseen):
            lookup.position = start
        try:
            yield from self._read_owners(lookup, reads)
        except (CommandError, Retry):
            lookup.position = start
            raise
        finally:
            waiting = [other for _, owner in reads for other in self._lookups.end_read(owner)]
        for other in waiting:
            yield Enqueue(LOOKUP_QUEUE, other)
        if len(reads) < len(unseen):
            return RequeueAfter(RESULT_CHECK)  # usually the other requests enqueue it earlier
        yield Enqueue(LOOKUP_QUEUE, item)
        return None

    def _read_owners(self, lookup: Lookup, owners: Sequence[tuple[int, Item]]) -> Step[None]:
        """Read owners from the API server, and record whether each owner exists.

        owners: (position in the owner references, item) pairs. If reads fail, the other results are recorded first;
        then Retry or CommandError is raised.
        """
        resources = [self._owners.resource_of(owner) for _, owner in owners]
        if None in resources:
            raise Retry("the kind of an owner is not served any more", after=KIND_CHECK)
        commands = [
            get_live(resource, owner.key) for resource, (_, owner) in zip(resources, owners, strict=True) if resource
        ]
        outcomes = yield from together(commands)
        failure: CommandError | Retry | None = None
        absent = []
        for (number, owner), command, outcome in zip(owners, commands, outcomes, strict=True):
            resource = self._owners.resource_of(owner)
            if resource is None:
                continue
            try:
                live = self._live_owner(owner, resource, command, outcome, removed=False)
            except (CommandError, Retry) as err:
                failure = err
                continue
            if live is None:
                lookup.record_absent(number)
                absent.append(owner)
            else:
                yield Enqueue(DELETE_QUEUE, owner, after=self._record_uncached(owner, live)[1])
        self._owners.record_absent(absent)
        if failure is not None:
            raise failure


def enqueue_for_deletion(dependents: Iterable[tuple[Lister, Entry]]) -> Step[None]:
    for lister, entry in dependents:
        yield Enqueue(DELETE_QUEUE, Item(lister.resource.id, entry.key, entry.uid))


def _names_object(outcome: NotFound, name: str) -> bool:
    """Report whether a 404 response is about the object with this name, and not about an unknown resource."""
    try:
        status = decode_object(outcome.status)
    except ValueError:
        return False
    return (status.get("details") or {}).get("name") == name
