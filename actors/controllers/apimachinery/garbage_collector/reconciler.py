"""What the garbage collector does with one object: it goes with its owners, or its dependents go before it.

In: metadata of all objects that discovery finds, and live reads of owners that no table shows. Out: deletions with uid
and resourceVersion as preconditions, patches of owner references, and of the finalizers `foregroundDeletion` and
`orphan`; the event OwnerRefInvalidNamespace. Key: an Item.

An object is deleted if each of its owners is known not to exist or waits for it, where "known" is the server's own
answer: a table may be late. Owners that no table shows are looked up by a queue of their own, a few of one object at a
time, and objects of all namespaces take turns in each queue: one object with 10,000 absent owners holds up no others,
which takes upstream's workers and its rate limit for minutes.

Source: kubernetes v1.36 pkg/controller/garbagecollector/{garbagecollector,operations}.go. Differences:
- No graph is built: the tables' index of owners is the graph. So there is no queue garbage_collector_graph_changes.
- An object that is deleted is not read live before: its version in the deletion says that it is as the table shows it.
- Owners that a table shows are not read live; a deletion that rests on a waiting one waits while that table is stale.
- A kind is found by its group, whatever served version a reference names.
- A 404 that does not name the object (a version that is served no more) is no proof that an owner is absent.
- That an owner is in another namespace is looked for among objects of its kind. OwnerRefInvalidNamespace is recorded
  when that is found out; upstream records it when its graph shows both objects.
- The server is asked for an owner though a watch has shown its deletion. If it says then that nothing is served there,
  the watch is proof enough: a CustomResourceDefinition takes its objects along, and they what they own. That a table
  went with all that it showed proves nothing: an API may be away for a while, or be served in another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.apimachinery.garbage_collector.graph import CONTENT_TYPE, dot, graph_around, owner_graph
from kcm.actors.controllers.apimachinery.garbage_collector.items import (
    FINALIZERS,
    FOREGROUND,
    ORPHAN,
    Item,
    is_deleting,
    references_of,
    waits_for_dependents,
)
from kcm.actors.controllers.apimachinery.garbage_collector.lookups import Lookup, Lookups
from kcm.actors.controllers.apimachinery.garbage_collector.metadata_patches import MakePatch, Patching
from kcm.actors.controllers.apimachinery.garbage_collector.misplaced import REASON, MisplacedOwners, event_text
from kcm.actors.controllers.apimachinery.garbage_collector.owners import ARRIVES_WITHIN, UNSHOWN_CHECK, KnownOwners
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import (
    OwnerReferences,
    OwnerState,
    Reference,
    unblocking,
    without_owners,
)
from kcm.actors.controllers.apimachinery.garbage_collector.recent import Recent
from kcm.actors.reconciliation import (
    DebugPage,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Retry,
    Step,
    delete,
    get_live,
    perform,
    record,
    remove_finalizer,
    together,
)
from kcm.protocols.messages.commands import Command, Patch
from kcm.protocols.messages.discovery import TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    finalizers_of,
    metadata,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

DELETE_QUEUE = "garbage_collector_attempt_to_delete"
LOOKUP_QUEUE = "garbage_collector_look_up_owners"
ORPHAN_QUEUE = "garbage_collector_attempt_to_orphan"
ARRIVAL_CHECK = 1.0  # seconds between two looks at whether a new table is there
KIND_CHECK = 30.0  # seconds until an owner's kind may be served
RECHECKED = 5000  # objects with misplaced owners that are remembered
LOGGED = 10  # uids in one line of the log
ANSWER_CHECK = 5.0  # seconds after which an answer to another object's request is not waited for any more


class GarbageCollector:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, failed: Callable[[], None]) -> None:
        """failed: counts looks at the resources that found something wrong with them."""
        self._tables, self._clock, self._log, self._failed = tables, clock, log, failed
        self._began = clock.monotonic()
        self._owners, self._patching = KnownOwners(tables, clock), Patching()
        self._lookups, self._misplaced = Lookups(), MisplacedOwners()
        # Objects whose owners cannot be theirs, and were looked for a second time.
        self._rechecked: Recent[Item, bool] = Recent(RECHECKED)

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """What is served has changed."""
        match message:
            case TablesChanged(resources=resources, served=served):
                self._owners.follow(resources, served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"the garbage collector cannot handle {message!r}")
        return ()

    # Queue attempt_to_delete.

    def attempt_to_delete(self, key: Item) -> Reconciliation:
        item = key._replace(gone=False)
        shown = self._owners.shown(item)
        if shown is None:
            self._rechecked.pop(item)
            self._misplaced.forget(item)
            self._lookups.forget(item)
            return (yield from self._look_for(item, gone=key.gone))
        lister, entry = shown
        self._owners.take_shown(item)
        if is_deleting(lister, entry):
            if ORPHAN in entry.finalizers:
                yield Enqueue(ORPHAN_QUEUE, item)
            elif FOREGROUND in entry.finalizers:
                return (yield from self._finish(lister, entry))
            return None
        return (yield from self._judge(item, lister, entry))

    def _judge(self, item: Item, lister: Lister, entry: Entry) -> Reconciliation:
        """Whether an object that is there has lost its owners."""
        if self._lookups.is_under_way(item, entry.resource_version):
            yield Enqueue(LOOKUP_QUEUE, item)  # once all of its owners are known, it is judged
            return None
        obj = lister.object_of(entry)
        ownership = self._ownership(item, entry, references_of(obj))
        yield from self._report_misplaced(item, lister, obj, ownership)
        if ownership.has(OwnerState.MISPLACED):  # trying again would change nothing, but who is told of it
            self._lookups.forget(item)
            misplaced = {owner for _, owner in ownership.items(OwnerState.MISPLACED)}
            if self._rechecked.get(item) or self._owners.elsewhere(misplaced) == misplaced:
                return None
            self._rechecked.put(item, True)
            return RequeueAfter(UNSHOWN_CHECK)  # once: the table of its owner may be late
        if ownership.has(OwnerState.UNKNOWN_KIND):
            self._log.debug("owner of a kind that is not served", key=str(item))
            return RequeueAfter(KIND_CHECK)
        if ownership.has(OwnerState.UNSEEN):
            yield Enqueue(LOOKUP_QUEUE, item)
            return None
        goes, waiting = ownership.of(OwnerState.ABSENT, OwnerState.WAITING), ownership.of(OwnerState.WAITING)
        if not goes:
            self._lookups.forget(item)
            return None
        if ownership.has(OwnerState.SOLID):
            uids = sorted({reference["uid"] for reference in goes})
            self._log.info("owner references removed", key=str(item), owners=uids[:LOGGED], count=len(uids))
            yield from self._patching.all_of([(lister, obj)], _losing(uids))
            self._lookups.forget(item)
            return None
        if waiting and self._owners.may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        rests_on = [(owner_lister.resource, owner.key) for owner_lister, owner in self._owners_shown(ownership)]
        dependents = self._tables.dependents(entry.uid) if waiting else []
        if dependents:
            if any(waits_for_dependents(*dependent) for dependent in dependents):
                # As upstream: this may be no circle, and then its owner does not wait for this object.
                yield from self._patching.all_of([(lister, obj)], unblocking)
                now = self._owners.shown(item)
                if now is None:
                    return None
                entry, obj = now[1], lister.object_of(now[1])
            propagation = "Foreground"
        else:
            propagation = _own_propagation(obj)
        self._log.info("object deleted", key=str(item), propagation=propagation)
        yield from self._delete(lister, entry, obj, propagation=propagation, rests_on=rests_on)
        self._lookups.forget(item)
        return None

    def _ownership(self, item: Item, entry: Entry, references: Sequence[Reference]) -> OwnerReferences:
        lookup = self._lookups.known(item, entry.resource_version, references)
        found = [self._owners.of(entry.key, reference) for reference in references]
        if lookup is not None:
            found = [lookup.refined(number, owner) for number, owner in enumerate(found)]
        return OwnerReferences(zip(references, found, strict=True))

    def _owners_shown(self, ownership: OwnerReferences) -> Iterable[tuple[Lister, Entry]]:
        """The owners that wait, as far as tables show them."""
        for _, owner in ownership.items(OwnerState.WAITING):
            shown = self._owners.shown(owner)
            if shown is not None:
                yield shown

    def _delete(
        self,
        lister: Lister,
        entry: Entry,
        obj: Object,
        *,
        propagation: str,
        rests_on: Sequence[tuple[Resource, Key]],
    ) -> Step[None]:
        """It goes as it was read; if it has changed since, as long as its owner references have not."""
        resource = lister.resource
        command = delete(resource, entry, unchanged=True, propagation=propagation, depends_on=rests_on)
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
                command = delete(resource, entry, propagation=propagation, depends_on=rests_on)
                outcome = yield from perform(command)
        if not isinstance(outcome, (Done, NotFound)):
            raise CommandError(command, outcome)

    # An owner that no table shows.

    def _look_for(self, item: Item, *, gone: bool) -> Reconciliation:
        """Ask the server for it, on behalf of all its dependents, unless it will be shown soon."""
        dependents = self._tables.dependents(item.uid)
        if dependents and self._owners.is_absent(item):
            yield from self._forget(item, dependents)
            return None
        resource = self._owners.resource_of(item)
        if not dependents or resource is None:
            self._owners.take_shown(item)
            return None
        if self._owners.may_still_arrive(resource.id):
            return RequeueAfter(ARRIVAL_CHECK)
        command = get_live(resource, item.key)
        outcome = yield from perform(command)
        live = self._live(item, resource, command, outcome, gone=gone)
        if live is not None:
            return (yield from self._take_unshown(item, live, dependents))
        yield from self._forget(item, dependents)
        return None

    def _live(self, item: Item, resource: Resource, command: Command, outcome: Outcome, *, gone: bool) -> Object | None:
        """Return the owner as the server has it; None if it does not exist. Raises Retry, CommandError."""
        if isinstance(outcome, Done):
            live = decode_object(outcome.body)
            return live if uid_of(live) == item.uid else None
        deletion_was_seen = gone and self._owners.lister_of(item) is not None
        if not isinstance(outcome, NotFound):
            raise CommandError(command, outcome)
        if not deletion_was_seen and not _names(outcome, split_key(item.key)[1]):
            raise Retry(f"{resource} are not served as they were: {outcome.message}", after=KIND_CHECK)
        return None

    def _forget(self, item: Item, dependents: Sequence[tuple[Lister, Entry]]) -> Step[None]:
        """It does not exist."""
        self._owners.take_absent([item])
        yield from self._look_again_at(dependents)

    def _take_unshown(self, item: Item, live: Object, dependents: Sequence[tuple[Lister, Entry]]) -> Reconciliation:
        """It exists. What we read is laid over its table, which will show it, or that it is gone. Without a table it is
        looked for again and again.
        """
        if self._owners.shown(item) is not None:
            self._owners.take_shown(item)
            yield from self._look_again_at(dependents)
            return None
        is_news, again = self._taken_unshown(item, live)
        if is_news:
            yield from self._look_again_at(dependents)
        return RequeueAfter(max(0.0, again))

    def _taken_unshown(self, item: Item, live: Object) -> tuple[bool, float]:
        waits = metadata(live).get("deletionTimestamp") is not None and FOREGROUND in finalizers_of(live)
        return self._owners.take_unshown(item, waits=waits)

    def _look_again_at(self, dependents: Iterable[tuple[Lister, Entry]]) -> Step[None]:
        for lister, entry in dependents:
            yield Enqueue(DELETE_QUEUE, Item(lister.resource.id, entry.key, entry.uid))

    def _report_misplaced(self, item: Item, lister: Lister, obj: Object, ownership: OwnerReferences) -> Step[None]:
        """Record OwnerRefInvalidNamespace once for references that were added."""
        suspects = ownership.items(OwnerState.MISPLACED)
        elsewhere = self._owners.elsewhere(owner for _, owner in suspects)
        misplaced = [
            *(
                reference
                for reference, owner in ownership.items(OwnerState.ABSENT)
                if self._owners.was_elsewhere(owner)
            ),
            *(reference for reference, owner in suspects if owner in elsewhere),
        ]
        reference = self._misplaced.news(item, misplaced)
        if reference is not None:
            yield record(lister.resource, obj, "Warning", REASON, event_text(obj, reference))

    # Queue look_up_owners.

    def look_up_owners(self, item: Item) -> Reconciliation:
        """Ask the server for the next owners of an object that no table shows, and judge it once all are known."""
        shown = self._owners.shown(item)
        if shown is None or is_deleting(*shown):
            self._lookups.forget(item)
            return None
        lister, entry = shown
        references = references_of(lister.object_of(entry))
        lookup = self._lookups.begun(item, entry.resource_version, references)
        start = lookup.position
        unseen = lookup.next_unseen(references, lambda reference: self._owners.of(entry.key, reference))
        if not unseen:
            yield Enqueue(DELETE_QUEUE, item)
            return None
        late = next((owner for _, owner in unseen if self._owners.may_still_arrive(owner.resource)), None)
        if late is not None:
            lookup.position = start
            yield Enqueue(DELETE_QUEUE, late)  # it waits for the table, for all of its dependents
            return None
        asked = self._lookups.ask(unseen, for_=item)
        if len(asked) < len(unseen):
            lookup.position = start
        try:
            yield from self._ask_for(lookup, asked)
        except (CommandError, Retry):
            lookup.position = start
            raise
        finally:
            waiting = [other for _, owner in asked for other in self._lookups.answered(owner)]
        for other in waiting:
            yield Enqueue(LOOKUP_QUEUE, other)
        if len(asked) < len(unseen):
            return RequeueAfter(ANSWER_CHECK)  # whoever asked for the rest enqueues it before
        yield Enqueue(LOOKUP_QUEUE, item)
        return None

    def _ask_for(self, lookup: Lookup, owners: Sequence[tuple[int, Item]]) -> Step[None]:
        """Raises Retry and CommandError, after all other answers were taken."""
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
                live = self._live(owner, resource, command, outcome, gone=False)
            except (CommandError, Retry) as err:
                failure = err
                continue
            if live is None:
                lookup.take_absent(number)
                absent.append(owner)
            else:
                yield Enqueue(DELETE_QUEUE, owner, after=self._taken_unshown(owner, live)[1])
        self._owners.take_absent(absent)
        if failure is not None:
            raise failure

    # An owner that waits for its dependents.

    def _finish(self, lister: Lister, entry: Entry) -> Reconciliation:
        """Dependents are looked at; once none of those is left that block it, the owner may go."""
        if self._owners.may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        dependents = self._tables.dependents(entry.uid)
        if any(of.blocks(dependent, entry.uid) for of, dependent in dependents):
            yield from self._look_again_at([dependent for dependent in dependents if not is_deleting(*dependent)])
            return None
        yield from self._release(lister, entry, FOREGROUND)
        yield from self._look_again_at([dependent for dependent in dependents if not is_deleting(*dependent)])
        return None

    def _release(self, lister: Lister, entry: Entry, finalizer: str) -> Step[None]:
        self._log.info("finalizer removed", key=entry.key, resource=lister.resource.name, finalizer=finalizer)
        yield from remove_finalizer(lister, lister.object_of(entry), finalizer)

    # Queue attempt_to_orphan.

    def attempt_to_orphan(self, item: Item) -> Reconciliation:
        """Its dependents lose it as their owner, then it may go."""
        shown = self._owners.shown(item)
        if shown is None or ORPHAN not in shown[1].finalizers or not is_deleting(*shown):
            return None
        lister, entry = shown
        if self._owners.may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        dependents = [(of, of.object_of(dependent)) for of, dependent in self._tables.dependents(item.uid)]
        if dependents:
            self._log.info("dependents orphaned", key=str(item), dependents=len(dependents))
        yield from self._patching.all_of(dependents, _losing([item.uid]))
        yield from self._release(lister, entry, ORPHAN)
        return None

    # For people.

    def debug_page(self, path: str, query: Mapping[str, Sequence[str]]) -> DebugPage | None:
        """/graph: all owners and what they own, in Graphviz's language; with `?uid=…` what is connected with these."""
        if path != "/graph":
            return None
        graph = owner_graph(self._tables, self._is_absent)
        if uids := query.get("uid"):
            graph = graph_around(graph, uids)
        return DebugPage(dot(graph), CONTENT_TYPE)

    def _is_absent(self, item: Key, reference: Reference) -> bool:
        return self._owners.of(item, reference).state is OwnerState.ABSENT

    # Pass.

    def look_at_resources(self) -> Reconciliation:
        """Say which resources cannot be watched: what they own, and what owns them, is not collected."""
        yield from ()
        if self._clock.monotonic() - self._began < ARRIVES_WITHIN:
            return None
        late = [resource.name for resource in self._owners.late()]
        if late:
            self._failed()
            self._log.warning("garbage collector: not all resource monitors could be synced", resources=late)
        elif not self._owners.has_tables():
            self._failed()
            self._log.info("no resources reported by discovery, skipping garbage collector sync", v=2)
        return None


def _losing(owners: Sequence[str]) -> MakePatch:
    def make(resource: Resource, obj: Object, *, strategic: bool) -> Patch:
        return without_owners(resource, obj, owners, strategic=strategic)

    return make


def _names(outcome: NotFound, name: str) -> bool:
    """Whether the answer says that the object does not exist, and not that nothing is served there."""
    try:
        status = decode_object(outcome.status)
    except ValueError:
        return False
    return (status.get("details") or {}).get("name") == name


def _own_propagation(obj: Object) -> str:
    """What its finalizers ask for."""
    finalizers = FINALIZERS.intersection(finalizers_of(obj))
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
