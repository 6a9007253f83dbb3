"""What the garbage collector does with one object: it goes with its owners, or its dependents go before it.

In: metadata of all objects that discovery finds, and live reads of owners that no table shows. Out: deletions with uid
and resourceVersion as preconditions, patches of owner references, and of the finalizers `foregroundDeletion` and
`orphan`; the event OwnerRefInvalidNamespace. Key: an Item.

An object is deleted if each of its owners is known not to exist or waits for it, where "known" is the server's own
answer: a table may be late. An owner that no table shows is a key itself. The server is asked for it once, for all its
dependents, and they are looked at again when there is an answer.

Source: kubernetes v1.36 pkg/controller/garbagecollector/{garbagecollector,operations}.go. Differences:
- No graph is built: the tables' index of owners is the graph. So there is no queue garbage_collector_graph_changes.
- An object that is deleted is not read live before: its version in the deletion says that it is as the table shows it.
- Owners that a table shows are not read live; a deletion that rests on a waiting one waits while that table is stale.
- A kind is found by its group, whatever served version a reference names.
- A 404 that does not name the object (a version that is served no more) is no proof that an owner is absent.
- That an owner is elsewhere is looked for among objects of its kind.
- The server is asked for an owner though a watch has shown its deletion. If it says then that nothing is served there,
  the watch is proof enough: a CustomResourceDefinition takes its objects along, and they what they own. That a table
  went with all that it showed proves nothing: an API may be away for a while, or be served in another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from actors.controllers.objects.garbage_collector.absent import AbsentOwners
from actors.controllers.objects.garbage_collector.graph import CONTENT_TYPE, dot, graph_around, owner_graph
from actors.controllers.objects.garbage_collector.items import (
    FINALIZERS,
    FOREGROUND,
    ORPHAN,
    Item,
    is_deleting,
    owner_key,
    references_of,
    waits_for_dependents,
)
from actors.controllers.objects.garbage_collector.ownership import (
    Owner,
    Ownership,
    Reference,
    State,
    unblocking,
    without_owners,
)
from actors.controllers.shared.served_kinds import ServedKinds
from actors.reconciliation import (
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
from protocols.messages.commands import Patch
from protocols.messages.discovery import ServedResource, TablesChanged
from protocols.messages.lifecycle import Restarted
from protocols.messages.outcomes import CommandFailed, Conflict, Done, Invalid, NotFound, Outcome
from protocols.objects import (
    Key,
    Object,
    decode_object,
    finalizers_of,
    metadata,
    resource_version_of,
    split_key,
    uid_of,
)
from protocols.resources import Resource
from runtime.scheduling.clock import Clock
from runtime.tables.lister import Lister
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

DELETE_QUEUE = "garbage_collector_attempt_to_delete"
ORPHAN_QUEUE = "garbage_collector_attempt_to_orphan"
ARRIVES_WITHIN = 30.0  # seconds that a new table is waited for; then what is there has to do
ARRIVAL_CHECK = 1.0  # seconds between two looks at whether it is there
KIND_CHECK = 30.0  # seconds until an owner's kind may be served
UNSHOWN_CHECK = 5.0  # seconds until an owner that exists is looked for again in the tables, or live; doubled each time
UNSHOWN_CHECK_MOST = 300.0
UNSUPPORTED_MEDIA_TYPE = 415


class _MakePatch(Protocol):
    """strategic: else it is merged, with the object's version as precondition."""

    def __call__(self, resource: Resource, obj: Object, *, strategic: bool) -> Patch: ...


class GarbageCollector:
    """Remembers which owners do not exist, and those that exist though no table shows them."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, failed: Callable[[], None]) -> None:
        """failed: counts looks at the resources that found something wrong with them."""
        self._tables, self._clock, self._log, self._failed = tables, clock, log, failed
        self._began = clock.monotonic()
        self._absent = AbsentOwners()
        self._unshown: dict[Item, _Unshown] = {}
        self._served = ServedKinds()
        self._announced: dict[str, float] = {}  # by Resource.id: since when there is a table to wait for
        self._told_of: set[Item] = set()  # whose owners cannot be theirs, and were looked for a second time
        self._merged: set[str] = set()  # Resource.ids of what takes no strategic patches: custom resources

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        """What is served has changed."""
        match message:
            case TablesChanged(resources=resources, served=served):
                self._follow(resources, served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"the garbage collector cannot handle {message!r}")
        return ()

    def _follow(self, resources: Iterable[ServedResource], served: Iterable[ServedResource]) -> None:
        now = self._clock.monotonic()
        self._announced = {one.resource.id: self._announced.get(one.resource.id, now) for one in resources}
        self._served.follow(served)

    # Queue attempt_to_delete.

    def attempt_to_delete(self, key: Item) -> Reconciliation:
        item = key._replace(gone=False)
        shown = self._shown(item)
        if shown is None:
            self._told_of.discard(item)
            return (yield from self._look_for(item, gone=key.gone))
        lister, entry = shown
        self._unshown.pop(item, None)
        if is_deleting(lister, entry):
            if ORPHAN in entry.finalizers:
                yield Enqueue(ORPHAN_QUEUE, item)
            elif FOREGROUND in entry.finalizers:
                return (yield from self._finish(lister, entry))
            return None
        return (yield from self._judge(item, lister, entry))

    def _judge(self, item: Item, lister: Lister, entry: Entry) -> Reconciliation:
        """Whether an object that is there has lost its owners."""
        obj = lister.object_of(entry)
        ownership = Ownership(references_of(obj), lambda reference: self._owner_of(entry.key, reference))
        yield from self._report_misplaced(lister, obj, ownership)
        if ownership.has(State.MISPLACED):  # trying again would change nothing, but who is told of it
            if item in self._told_of or all(self._is_elsewhere(one) for _, one in ownership.items(State.MISPLACED)):
                return None
            self._told_of.add(item)
            return RequeueAfter(UNSHOWN_CHECK)  # once: the table of its owner may be late
        if ownership.has(State.UNKNOWN_KIND):
            self._log.debug("owner of a kind that is not served", key=str(item))
            return RequeueAfter(KIND_CHECK)
        if ownership.has(State.UNSEEN):
            for _, owner in ownership.items(State.UNSEEN):
                yield Enqueue(DELETE_QUEUE, owner)
            return None
        goes, waiting = ownership.of(State.ABSENT, State.WAITING), ownership.of(State.WAITING)
        if not goes:
            return None
        if ownership.has(State.SOLID):
            uids = sorted({one["uid"] for one in goes})
            self._log.info("owner references removed", key=str(item), owners=uids)
            yield from self._must_patch([(lister, obj)], _losing(uids))
            return None
        if waiting and self._may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        rests_on = [(owner_lister.resource, owner.key) for owner_lister, owner in self._owners_shown(ownership)]
        dependents = self._tables.dependents(entry.uid) if waiting else []
        if dependents:
            if any(waits_for_dependents(*one) for one in dependents):
                # As upstream: this may be no circle, and then its owner does not wait for this object.
                yield from self._must_patch([(lister, obj)], unblocking)
                now = self._shown(item)
                if now is None:
                    return None
                entry, obj = now[1], lister.object_of(now[1])
            propagation = "Foreground"
        else:
            propagation = _own_propagation(obj)
        self._log.info("object deleted", key=str(item), propagation=propagation)
        yield from self._delete(lister, entry, obj, propagation=propagation, rests_on=rests_on)
        return None

    def _owner_of(self, item: Key, reference: Reference) -> Owner:
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        served = self._served.find(api_version, kind)
        if served is None:
            return Owner(State.ABSENT if self._has_gone_with_its_kind(item, reference) else State.UNKNOWN_KIND)
        lister = self._tables.of_kind(api_version, kind)
        resource = served.resource if lister is None else lister.resource
        uid = reference.get("uid") or ""
        owner = Item(resource.id, owner_key(resource, item, reference.get("name") or ""), uid)
        if resource.namespaced and not split_key(item)[0]:
            return Owner(State.MISPLACED, owner)
        entry = None if lister is None else lister.entry(owner.key)
        if lister is not None and entry is not None and entry.uid == uid:
            return Owner(State.WAITING if waits_for_dependents(lister, entry) else State.SOLID, owner)
        if owner in self._absent:
            return Owner(State.ABSENT, owner)
        unshown = self._unshown.get(owner)
        if unshown is not None:
            return Owner(State.WAITING if unshown.waits else State.SOLID, owner)
        return Owner(State.UNSEEN, owner)

    def _has_gone_with_its_kind(self, item: Key, reference: Reference) -> bool:
        former = self._served.find_former(reference.get("apiVersion") or "", reference.get("kind") or "")
        if former is None:
            return False
        name, uid = reference.get("name") or "", reference.get("uid") or ""
        return Item(former.id, owner_key(former, item, name), uid) in self._absent

    def _owners_shown(self, ownership: Ownership) -> Iterable[tuple[Lister, Entry]]:
        """The owners that wait, as far as tables show them."""
        for _, owner in ownership.items(State.WAITING):
            shown = self._shown(owner)
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
            raise CommandFailed(command, outcome)

    # An owner that no table shows.

    def _look_for(self, item: Item, *, gone: bool) -> Reconciliation:
        """Ask the server for it, on behalf of all its dependents, unless it will be shown soon."""
        dependents = self._tables.dependents(item.uid)
        if dependents and item in self._absent:
            yield from self._forget(item, dependents)
            return None
        resource = self._served.resource(item.resource)
        if not dependents or resource is None:
            self._unshown.pop(item, None)
            return None
        if self._may_still_arrive(resource.id):
            return RequeueAfter(ARRIVAL_CHECK)
        command = get_live(resource, item.key)
        outcome = yield from perform(command)
        live = decode_object(outcome.body) if isinstance(outcome, Done) else {}
        if isinstance(outcome, Done) and uid_of(live) == item.uid:
            return (yield from self._take_unshown(item, live, dependents))
        deletion_was_seen = gone and self._tables.of_kind(resource.api_version, resource.kind) is not None
        if isinstance(outcome, NotFound) and not deletion_was_seen and not _names(outcome, split_key(item.key)[1]):
            raise Retry(f"{resource} are not served as they were: {outcome.message}", after=KIND_CHECK)
        if not isinstance(outcome, (Done, NotFound)):
            raise CommandFailed(command, outcome)
        yield from self._forget(item, dependents)
        return None

    def _forget(self, item: Item, dependents: Sequence[tuple[Lister, Entry]]) -> Step[None]:
        """It does not exist."""
        self._unshown.pop(item, None)
        if item not in self._absent:
            self._absent.add(item, elsewhere=self._is_elsewhere(item))
        yield from self._look_again_at(dependents)

    def _take_unshown(self, item: Item, live: Object, dependents: Sequence[tuple[Lister, Entry]]) -> Reconciliation:
        """It exists. What we read is laid over its table, which will show it, or that it is gone. Without a table it is
        looked for again and again.
        """
        if self._shown(item) is not None:
            self._unshown.pop(item, None)
            yield from self._look_again_at(dependents)
            return None
        before = self._unshown.get(item)
        waits = metadata(live).get("deletionTimestamp") is not None and FOREGROUND in finalizers_of(live)
        looks = 0 if before is None else before.looks + 1
        self._unshown[item] = _Unshown(waits, looks)
        if before is None or before.waits != waits:
            yield from self._look_again_at(dependents)
        return RequeueAfter(min(UNSHOWN_CHECK * 2.0 ** min(looks, 10), UNSHOWN_CHECK_MOST))

    def _look_again_at(self, dependents: Iterable[tuple[Lister, Entry]]) -> Step[None]:
        for lister, entry in dependents:
            yield Enqueue(DELETE_QUEUE, Item(lister.resource.id, entry.key, entry.uid))

    def _is_elsewhere(self, item: Item) -> bool:
        """Whether an object of its kind with its uid is in another namespace."""
        resource = self._served.resource(item.resource)
        lister = None if resource is None else self._tables.of_kind(resource.api_version, resource.kind)
        if lister is None or not lister.resource.namespaced:
            return False
        return any(entry.uid == item.uid and entry.key != item.key for entry in lister.entries())

    def _report_misplaced(self, lister: Lister, obj: Object, ownership: Ownership) -> Step[None]:
        """OwnerRefInvalidNamespace, for owners that are in another namespace."""
        namespace = metadata(obj).get("namespace") or ""
        misplaced = [
            *(one for one, owner in ownership.items(State.ABSENT) if self._absent.is_elsewhere(owner)),
            *(one for one, owner in ownership.items(State.MISPLACED) if self._is_elsewhere(owner)),
        ]
        for one in misplaced:
            owner = (
                f"[{one.get('apiVersion')}/{one.get('kind')}, namespace: {namespace}, name: {one.get('name')}, "
                f"uid: {one.get('uid')}]"
            )
            message = f'ownerRef {owner} does not exist in namespace "{namespace}"'
            yield record(lister.resource, obj, "Warning", "OwnerRefInvalidNamespace", message)

    # An owner that waits for its dependents.

    def _finish(self, lister: Lister, entry: Entry) -> Reconciliation:
        """Dependents are looked at; once none of those is left that block it, the owner may go."""
        if self._may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        dependents = self._tables.dependents(entry.uid)
        if any(of.blocks(one, entry.uid) for of, one in dependents):
            yield from self._look_again_at([one for one in dependents if not is_deleting(*one)])
            return None
        yield from self._release(lister, entry, FOREGROUND)
        yield from self._look_again_at([one for one in dependents if not is_deleting(*one)])
        return None

    def _release(self, lister: Lister, entry: Entry, finalizer: str) -> Step[None]:
        self._log.info("finalizer removed", key=entry.key, resource=lister.resource.name, finalizer=finalizer)
        yield from remove_finalizer(lister, lister.object_of(entry), finalizer)

    # Queue attempt_to_orphan.

    def attempt_to_orphan(self, item: Item) -> Reconciliation:
        """Its dependents lose it as their owner, then it may go."""
        shown = self._shown(item)
        if shown is None or ORPHAN not in shown[1].finalizers or not is_deleting(*shown):
            return None
        lister, entry = shown
        if self._may_still_arrive():
            return RequeueAfter(ARRIVAL_CHECK)
        dependents = [(of, of.object_of(one)) for of, one in self._tables.dependents(item.uid)]
        if dependents:
            self._log.info("dependents orphaned", key=str(item), dependents=len(dependents))
        yield from self._must_patch(dependents, _losing([item.uid]))
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
        return self._owner_of(item, reference).state is State.ABSENT

    # Pass.

    def look_at_resources(self) -> Reconciliation:
        """Say which resources cannot be watched: what they own, and what owns them, is not collected."""
        yield from ()
        now = self._clock.monotonic()
        if now - self._began < ARRIVES_WITHIN:
            return None
        late = [one.name for one in self._tables.arriving() if now - self._announced.get(one.id, now) > ARRIVES_WITHIN]
        if late:
            self._failed()
            self._log.warning("garbage collector: not all resource monitors could be synced", resources=late)
        elif not self._announced:
            self._failed()
            self._log.info("no resources reported by discovery, skipping garbage collector sync")
        return None

    # What there is.

    def _shown(self, item: Item) -> tuple[Lister, Entry] | None:
        """The object, if a table shows it: of its kind, whatever the version."""
        resource = self._served.resource(item.resource)
        lister = None if resource is None else self._tables.of_kind(resource.api_version, resource.kind)
        entry = None if lister is None else lister.entry(item.key)
        return None if lister is None or entry is None or entry.uid != item.uid else (lister, entry)

    def _may_still_arrive(self, resource_id: str = "") -> bool:
        """Whether this table, or any, is on its way, and not for too long."""
        since = self._clock.monotonic() - ARRIVES_WITHIN
        return any(
            self._announced.get(one.id, since) > since
            for one in self._tables.arriving()
            if not resource_id or one.id == resource_id
        )

    def _must_patch(self, objects: Sequence[tuple[Lister, Object]], make: _MakePatch) -> Step[None]:
        """Patch these objects at once. One that is gone is no failure; another raises CommandFailed."""
        commands = [
            make(lister.resource, obj, strategic=lister.resource.id not in self._merged) for lister, obj in objects
        ]
        outcomes = yield from together(commands)
        refused = [one for one, outcome in zip(objects, outcomes, strict=True) if _is_unsupported(outcome)]
        _raise_failure(commands, outcomes)
        if refused:
            self._merged.update(lister.resource.id for lister, _ in refused)
            again = [make(lister.resource, obj, strategic=False) for lister, obj in refused]
            _raise_failure(again, (yield from together(again)))


class _Unshown:
    """An owner that exists, and that no table shows. waits: for its dependents. looks: how often it was asked for."""

    __slots__ = ("looks", "waits")

    def __init__(self, waits: bool, looks: int) -> None:
        self.waits, self.looks = waits, looks


def _losing(owners: Sequence[str]) -> _MakePatch:
    def make(resource: Resource, obj: Object, *, strategic: bool) -> Patch:
        return without_owners(resource, obj, owners, strategic=strategic)

    return make


def _raise_failure(commands: Sequence[Patch], outcomes: Sequence[Outcome]) -> None:
    for command, outcome in zip(commands, outcomes, strict=True):
        if not isinstance(outcome, (Done, NotFound)) and not _is_unsupported(outcome):
            raise CommandFailed(command, outcome)


def _is_unsupported(outcome: Outcome) -> bool:
    return isinstance(outcome, Invalid) and outcome.code == UNSUPPORTED_MEDIA_TYPE


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
