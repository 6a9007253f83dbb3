"""Reconciler of the garbage collector: deletes objects without owners, and completes foreground and orphan deletions.

Input: informer caches with the metadata of all objects, and requests for owners that are in no cache. Output: deletions
with uid and resourceVersion as preconditions, patches of owner references and of the finalizers `foregroundDeletion`
and `orphan`, and the event OwnerRefInvalidNamespace. Key: an Item.

An object is deleted if each of its owners is absent or waits for its dependents. An owner counts as absent only if the
API server has not found it, because a cache may be stale. The queue look_up_owners requests the owners that are in no
cache, a few owners of one object at a time, and all queues serve namespaces round robin. So one object with 10,000
absent owners does not delay other objects; upstream's workers and rate limit are occupied by it for minutes.

Source: kubernetes v1.36 pkg/controller/garbagecollector/{garbagecollector,operations}.go. Differences:
- There is no graph in memory: the caches' index of owner uids replaces it, and there is no queue
  garbage_collector_graph_changes.
- An object is not read from the API server before its deletion: the resourceVersion as precondition of the deletion
  ensures that the cache is current.
- Owners in a cache are not requested; a deletion that depends on a waiting owner is delayed while the cache is stale.
- A kind is found by its group, in any served version that a reference names.
- A 404 that does not name the object (its version is not served any more) does not prove that an owner is absent.
- An absent owner is searched in other namespaces among the objects of its kind. OwnerRefInvalidNamespace is recorded
  when it is found; upstream records the event when its graph contains both objects.
- An owner is requested even if a watch has reported its deletion. If the server then responds that the resource is not
  served, the watch event counts as proof: deleting a CustomResourceDefinition deletes its objects, and so the objects
  that they own. A cache that was removed proves nothing: the API may be unavailable, or served in another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.apimachinery.garbage_collector.graph import (
    CONTENT_TYPE,
    connected_subgraph,
    dot,
    owner_graph,
)
from kcm.actors.controllers.apimachinery.garbage_collector.items import (
    FINALIZERS,
    FOREGROUND,
    LOOKUP_QUEUE,
    ORPHAN,
    ORPHAN_QUEUE,
    Item,
    is_deleting,
    references_of,
    waits_for_dependents,
)
from kcm.actors.controllers.apimachinery.garbage_collector.lookups import Lookups
from kcm.actors.controllers.apimachinery.garbage_collector.lru_cache import LruCache
from kcm.actors.controllers.apimachinery.garbage_collector.metadata_patches import MetadataPatcher, PatchBuilder
from kcm.actors.controllers.apimachinery.garbage_collector.misplaced import REASON, MisplacedOwners, event_text
from kcm.actors.controllers.apimachinery.garbage_collector.owner_lookups import (
    KIND_CHECK,
    SYNC_CHECK,
    OwnerLookups,
    enqueue_for_deletion,
)
from kcm.actors.controllers.apimachinery.garbage_collector.owners import SYNC_TIMEOUT, UNCACHED_CHECK, KnownOwners
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import (
    OwnerReferences,
    OwnerState,
    Reference,
    without_blocking,
    without_owners,
)
from kcm.actors.reconciliation import (
    Because,
    DebugPage,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    delete,
    get_live,
    perform,
    record,
    remove_finalizer,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.discovery import TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    finalizers_of,
    resource_version_of,
    uid_of,
)
from kcm.protocols.resources import Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

RECHECKED = 5000  # maximum number of objects with misplaced owners that are kept in memory
MOST_NAMED = 3  # dependents that a reason names
LOGGED = 10  # maximum number of uids in a log line


class GarbageCollectorReconciler:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, failed: Callable[[], None]) -> None:
        """Initialize the reconciler.

        failed: increments the metric garbagecollector_controller_resources_sync_error_total.
        """
        self._tables, self._clock, self._log, self._failed = tables, clock, log, failed
        self._began = clock.monotonic()
        self._owners, self._patcher = KnownOwners(tables, clock), MetadataPatcher()
        self._lookups, self._misplaced = Lookups(), MisplacedOwners()
        self._owner_lookups = OwnerLookups(tables, self._owners, self._lookups)
        # Objects with misplaced owners that were checked a second time.
        self._rechecked: LruCache[Item, bool] = LruCache(RECHECKED)

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        match message:
            case TablesChanged(resources=resources, served=served):
                self._owners.update_served(resources, served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"the garbage collector cannot handle {message!r}")
        return ()

    # Queue attempt_to_delete.

    def attempt_to_delete(self, key: Item) -> Reconciliation:
        item = key._replace(removed=False)
        found = self._owners.find(item)
        if found is None:
            self._rechecked.pop(item)
            self._misplaced.forget(item)
            self._lookups.forget(item)
            return (yield from self._owner_lookups.look_up_owner(item, removed=key.removed))
        lister, entry = found
        self._owners.discard_uncached(item)
        if is_deleting(lister, entry):
            if ORPHAN in entry.finalizers:
                yield Enqueue(ORPHAN_QUEUE, item)
            elif FOREGROUND in entry.finalizers:
                return (yield from self._finish_foreground_deletion(lister, entry))
            return None
        return (yield from self._delete_or_release(item, lister, entry))

    def _delete_or_release(self, item: Item, lister: Lister, entry: Entry) -> Reconciliation:
        """Delete an object if no owner keeps it, otherwise remove its references to owners that do not keep it.

        An owner keeps its dependents if it exists and is not being deleted in the foreground. If the state of an owner
        is unknown, nothing is done, and the object is checked again later. Source: attemptToDeleteItem.
        """
        if self._lookups.is_under_way(item, entry.resource_version):
            yield Because("waits until its owners have been read from the server")
            yield Enqueue(LOOKUP_QUEUE, item)  # which enqueues the object again when all of its owners are known
            return None
        obj = lister.object_of(entry)
        ownership = self._ownership(item, entry, references_of(obj))
        yield from self._report_misplaced(item, lister, obj, ownership)
        if ownership.has(OwnerState.MISPLACED):  # permanent: only the event depends on another check
            self._lookups.forget(item)
            misplaced = {owner for _, owner in ownership.items(OwnerState.MISPLACED)}
            yield Because("is kept: an owner reference names a kind that cannot own it from another namespace")
            if self._rechecked.get(item) or self._owners.in_other_namespaces(misplaced) == misplaced:
                return None
            self._rechecked.put(item, True)
            return RequeueAfter(UNCACHED_CHECK)  # once, because the table of its owner may be stale
        if ownership.has(OwnerState.UNKNOWN_KIND):
            self._log.debug("owner of a kind that is not served", key=str(item))
            yield Because("is kept: the kind of an owner is not served")
            return RequeueAfter(KIND_CHECK)
        if ownership.has(OwnerState.UNSEEN):
            yield Because("an owner is in no table: reads it from the server")
            yield Enqueue(LOOKUP_QUEUE, item)
            return None
        dangling, waiting = ownership.of(OwnerState.ABSENT, OwnerState.WAITING), ownership.of(OwnerState.WAITING)
        if not dangling:
            self._lookups.forget(item)
            return None
        if ownership.has(OwnerState.SOLID):
            uids = sorted({reference["uid"] for reference in dangling})
            yield Because(f"another owner keeps it: removes {counted(len(uids), 'reference')} to owners that do not")
            self._log.info("owner references removed", key=str(item), owners=uids[:LOGGED], count=len(uids))
            yield from self._patcher.patch_all([(lister, obj)], _removal_of(uids))
            self._lookups.forget(item)
            return None
        if waiting and self._owners.may_still_sync():
            yield Because("waits until all tables have synced, as dependents may be missing in them")
            return RequeueAfter(SYNC_CHECK)
        depends_on = [(owner_lister.resource, owner.key) for owner_lister, owner in self._waiting_owners(ownership)]
        dependents = self._tables.dependents(entry.uid) if waiting else []
        if dependents:
            if any(waits_for_dependents(*dependent) for dependent in dependents):
                # As upstream: unblock the owner, which may be part of a circle of waiting objects. If it is not, the
                # owner does not wait for this object.
                yield from self._patcher.patch_all([(lister, obj)], without_blocking)
                now = self._owners.find(item)
                if now is None:
                    return None
                entry, obj = now[1], lister.object_of(now[1])
            propagation = "Foreground"
        else:
            propagation = _requested_propagation(obj)
        why = "its owner waits for its dependents" if waiting else "none of its owners exists"
        yield Because(f"{why}: deletes it with propagation {propagation}")
        self._log.info("object deleted", key=str(item), propagation=propagation)
        yield from self._delete(lister, entry, obj, propagation=propagation, depends_on=depends_on)
        self._lookups.forget(item)
        return None

    def _ownership(self, item: Item, entry: Entry, references: Sequence[Reference]) -> OwnerReferences:
        lookup = self._lookups.find(item, entry.resource_version, references)
        found = [self._owners.of(entry.key, reference) for reference in references]
        if lookup is not None:
            found = [lookup.resolved(number, owner) for number, owner in enumerate(found)]
        return OwnerReferences(zip(references, found, strict=True))

    def _waiting_owners(self, ownership: OwnerReferences) -> Iterable[tuple[Lister, Entry]]:
        """Yield (lister, entry of the informer cache) of each owner that is in a cache and waits for its dependents."""
        for _, owner in ownership.items(OwnerState.WAITING):
            found = self._owners.find(owner)
            if found is not None:
                yield found

    def _delete(
        self,
        lister: Lister,
        entry: Entry,
        obj: Object,
        *,
        propagation: str,
        depends_on: Sequence[tuple[Resource, Key]],
    ) -> Step[None]:
        """Delete the object, with the uid and resourceVersion of `entry` as preconditions.

        After a conflict the object is read from the API server. If its owner references are the same, it is deleted
        with only the uid as precondition. Raises CommandError if the deletion fails.
        """
        resource = lister.resource
        command = delete(resource, entry, unchanged=True, propagation=propagation, depends_on=depends_on)
        outcome = yield from perform(command)
        if isinstance(outcome, Conflict):
            live = yield from perform(get_live(resource, entry.key))
            if isinstance(live, NotFound):
                return
            now = decode_object(live.body) if isinstance(live, Done) else obj
            if uid_of(now) != entry.uid:
                return
            changed = resource_version_of(now) != command.resource_version
            if changed and references_of(now) == references_of(obj):
                command = delete(resource, entry, propagation=propagation, depends_on=depends_on)
                outcome = yield from perform(command)
        if not isinstance(outcome, (Done, NotFound)):
            raise CommandError(command, outcome)

    def _report_misplaced(self, item: Item, lister: Lister, obj: Object, ownership: OwnerReferences) -> Step[None]:
        """Record the event OwnerRefInvalidNamespace if an object refers to owners in other namespaces.

        References that were reported before are ignored.
        """
        suspects = ownership.items(OwnerState.MISPLACED)
        in_other_namespaces = self._owners.in_other_namespaces(owner for _, owner in suspects)
        misplaced = [
            *(
                reference
                for reference, owner in ownership.items(OwnerState.ABSENT)
                if self._owners.is_in_other_namespace(owner)
            ),
            *(reference for reference, owner in suspects if owner in in_other_namespaces),
        ]
        reference = self._misplaced.report(item, misplaced)
        if reference is not None:
            yield record(lister.resource, obj, "Warning", REASON, event_text(obj, reference))

    # Queue look_up_owners.

    def look_up_owners(self, item: Item) -> Reconciliation:
        return self._owner_lookups.look_up_owners(item)

    # Owners that wait for their dependents.

    def _finish_foreground_deletion(self, lister: Lister, entry: Entry) -> Reconciliation:
        """Continue a foreground deletion: enqueue the owner's dependents for deletion.

        The finalizer foregroundDeletion is removed from the owner once no dependent with blockOwnerDeletion is left.
        """
        if self._owners.may_still_sync():
            return RequeueAfter(SYNC_CHECK)
        dependents = self._tables.dependents(entry.uid)
        if any(of.blocks(dependent, entry.uid) for of, dependent in dependents):
            yield Because(f"foreground deletion: waits for {_dependents_in_words(dependents)}")
            yield from enqueue_for_deletion([dependent for dependent in dependents if not is_deleting(*dependent)])
            return None
        yield Because(f"foreground deletion: no dependent blocks it, removes its finalizer {FOREGROUND}")
        yield from self._remove_finalizer(lister, entry, FOREGROUND)
        yield from enqueue_for_deletion([dependent for dependent in dependents if not is_deleting(*dependent)])
        return None

    def _remove_finalizer(self, lister: Lister, entry: Entry, finalizer: str) -> Step[None]:
        self._log.info("finalizer removed", key=entry.key, resource=lister.resource.name, finalizer=finalizer)
        yield from remove_finalizer(lister, lister.object_of(entry), finalizer)

    # Queue attempt_to_orphan.

    def attempt_to_orphan(self, item: Item) -> Reconciliation:
        """Complete the deletion of an owner with the propagation policy Orphan. Source: attemptToOrphanWorker.

        The owner references to it are removed from its dependents, then the finalizer `orphan` from the owner.
        """
        found = self._owners.find(item)
        if found is None or ORPHAN not in found[1].finalizers or not is_deleting(*found):
            return None
        lister, entry = found
        if self._owners.may_still_sync():
            return RequeueAfter(SYNC_CHECK)
        dependents = [(of, of.object_of(dependent)) for of, dependent in self._tables.dependents(item.uid)]
        if dependents:
            self._log.info("dependents orphaned", key=str(item), dependents=len(dependents))
        yield Because(f"orphans {counted(len(dependents), 'dependent')}, then removes its finalizer {ORPHAN}")
        yield from self._patcher.patch_all(dependents, _removal_of([item.uid]))
        yield from self._remove_finalizer(lister, entry, ORPHAN)
        return None

    # Debug page.

    def debug_page(self, path: str, query: Mapping[str, Sequence[str]]) -> DebugPage | None:
        """Return the debug page /graph: the owner graph in DOT, or None for another path.

        With `?uid=…` (repeatable) the page contains only the nodes that are connected to these uids.
        """
        if path != "/graph":
            return None
        graph = owner_graph(self._tables, self._is_absent)
        if uids := query.get("uid"):
            graph = connected_subgraph(graph, uids)
        return DebugPage(dot(graph), CONTENT_TYPE)

    def _is_absent(self, item: Key, reference: Reference) -> bool:
        return self._owners.of(item, reference).state is OwnerState.ABSENT

    # Pass.

    def check_resources(self) -> Reconciliation:
        """Log the resources whose informer caches have not synced, and count a sync error if there are any.

        Objects of these resources, and dependents of such objects, are not collected.
        """
        yield from ()
        if self._clock.monotonic() - self._began < SYNC_TIMEOUT:
            return None
        unsynced = [resource.name for resource in self._owners.unsynced()]
        if unsynced:
            self._failed()
            yield Because(
                f"collects no dependents of these resources, whose tables have not synced: {', '.join(unsynced)}"
            )
            self._log.warning("garbage collector: not all resource monitors could be synced", resources=unsynced)
        elif not self._owners.has_tables():
            self._failed()
            self._log.info("no resources reported by discovery, skipping garbage collector sync", v=2)
        return None


def _dependents_in_words(dependents: Sequence[tuple[Lister, Entry]]) -> str:
    names = ", ".join(f"{of.resource.plural} {dependent.key}" for of, dependent in dependents[:MOST_NAMED])
    return f"{counted(len(dependents), 'dependent')}: {names}"


def _removal_of(owners: Sequence[str]) -> PatchBuilder:
    def make(resource: Resource, obj: Object, *, strategic: bool) -> Patch:
        return without_owners(resource, obj, owners, strategic=strategic)

    return make


def _requested_propagation(obj: Object) -> str:
    """Return the propagation policy that the object's finalizers request; "Background" if they request none."""
    finalizers = FINALIZERS.intersection(finalizers_of(obj))
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
