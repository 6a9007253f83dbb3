"""What the namespace controller does with one namespace that is being deleted.

In: namespaces, deletions of what they hold; live reads of all that is served and of each collection. Out: deletions of
collections, or of single objects; status and `finalize` of the namespace. Key: a namespace's name.

Pods go first, and nothing else is touched before the last is gone. Then everything else goes at once. What is left is
waited for: where tables show it, the namespace is looked at again as soon as they are empty, else after upstream's
estimate. Finalizers of objects are never touched. Of the namespace's own, `kubernetes` is removed when all that is
served was discovered, listed and empty, at a time when nothing could be created any more (api_servers.py).

Source: kubernetes v1.36 pkg/controller/namespace/{namespace_controller,deletion/namespaced_resources_deleter}.go.
Differences:
- No namespace is left alone for 5 s; see api_servers.py. Resources and pages are dealt with at once, and empty
  resources not deleted.
- While pods cannot be listed or deleted, nothing else is: upstream goes on, and leaves them without what protects them.
- A group version whose name makes no sense keeps the namespace, as upstream, and the other resources go all the same.
- What is left without a finalizer is looked at again after 0.1 s, then 0.2 s, … and at most a minute; upstream
  begins with 5 ms. So is a namespace in which something failed, though what we write of that wakes us at once.
- A namespace is kept for a minute after a deletion of a collection whose outcome is unknown: it may be carried out
  late, and names no uid that would spare another namespace of this name.
- A namespace that has other finalizers alone is left to whoever removes these; upstream empties it again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.apimachinery.namespace.api_servers import SEVERAL, creations_end_after
from kcm.actors.controllers.apimachinery.namespace.conditions import Findings, with_findings
from kcm.actors.controllers.apimachinery.namespace.content import (
    PAGE,
    Content,
    Pages,
    delete_content,
    find_any,
    grace_left,
    items_of,
    what_follows,
)
from kcm.actors.controllers.apimachinery.namespace.served import Served, served_now
from kcm.actors.reconciliation import (
    Change,
    Reconciliation,
    RequeueAfter,
    Step,
    get_live,
    list_live,
    must,
    perform,
    update,
)
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, is_deleting, uid_of
from kcm.protocols.resources import NAMESPACES, PODS, Resource
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

FINALIZER = "kubernetes"
SERVED_PODS = ServedResource(
    group=PODS.group,
    version=PODS.version,
    plural=PODS.plural,
    kind=PODS.kind,
    namespaced=True,
    verbs=("delete", "deletecollection", "list"),
)
TERMINATING = "Terminating"
FINALIZERS_TAKE = 15  # seconds that whoever has finalizers may take, as estimated
MOST_CONFLICTS = 10  # in a row, then the key is tried again
PER_LOOK = Backoff(first=0.1, most=60.0)  # of a namespace in which the same is left
CARRIED_OUT = 60.0  # seconds after which a server gives up a request, by default
AT_FIRST, AT_MOST = 0.05, 5.0  # seconds between two looks at least, however soon tables say that all is gone


class NamespaceController:
    """Remembers since when each namespace has been seen to be deleted, and what it waits for."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._tables, self._clock, self._log = tables, clock, log
        self._namespaces = tables[NAMESPACES]
        self._under_way: dict[Key, _Deletion] = {}

    def reconcile(self, name: Key) -> Reconciliation:
        shown = self._namespaces.entry(name)
        if shown is None or not _is_terminating(shown):
            self._under_way.pop(name, None)
            return None
        deletion = self._under_way.get(name)
        if deletion is None or deletion.uid != shown.uid:
            deletion = self._under_way[name] = _Deletion(shown.uid, self._clock.monotonic())
        pause = self._pause(name, deletion)
        if pause > 0:
            return RequeueAfter(pause)
        namespace = yield from self._read(name)
        if namespace is None or not _waits_for_us(namespace) or uid_of(namespace) != deletion.uid:
            return None
        try:
            return (yield from self._empty(namespace, deletion))
        except CommandError:
            deletion.wait_until(self._clock.monotonic() + PER_LOOK.delay(deletion.looks))
            deletion.looks += 1
            raise

    def _empty(self, namespace: Object, deletion: _Deletion) -> Reconciliation:
        began = self._clock.monotonic()
        name = namespace["metadata"]["name"]
        terminating = yield from self._write(namespace, _terminating, "status")
        if terminating is None:
            return None
        served = yield from served_now()
        content, estimate = yield from self._delete_all(terminating, served)
        found = _findings(name, served, content, estimate)
        reported = yield from self._report(terminating, found)
        if content.doubtful:
            deletion.doubtful_until = self._clock.monotonic() + CARRIED_OUT
        if content.failures:
            raise content.failures[0]
        if content.numbers or found.discovery or found.parsing:
            return self._wait(deletion, found, content, estimate)
        settled = deletion.doubtful_until
        if began < deletion.since + SEVERAL:
            settled = max(settled, deletion.since + (yield from creations_end_after()))
        if began < settled:
            deletion.wait_until(settled)
            return RequeueAfter(max(0.0, settled - self._clock.monotonic()))
        if reported is not None:
            self._log.info("namespace finalized", key=name, uid=deletion.uid)
            yield from self._write(reported, _finalized, "finalize")
        return None

    def _delete_all(self, namespace: Object, served: Served) -> Step[tuple[Content, int]]:
        """Returns what is left, and in how many seconds it may be gone; 0 is not known."""
        name = namespace["metadata"]["name"]
        content, estimate = yield from self._delete_pods(namespace)
        if content.numbers or content.failures:
            return content, estimate
        there = yield from find_any(name, [kind for kind in served.resources if kind.resource.id != PODS.id])
        if not there:
            return content, 0
        self._log.info("content deleted", key=name, resources=[str(kind.resource) for kind in there])
        content = yield from delete_content(name, there)
        return content, FINALIZERS_TAKE if any(content.finalizers.values()) else 0

    def _delete_pods(self, namespace: Object) -> Step[tuple[Content, int]]:
        """They are asked for whatever discovery found: if it failed, all else would go before them."""
        name = namespace["metadata"]["name"]
        pages: Pages = ()
        there: list[Object] = []
        follows = ""
        while follows or not pages:
            command = list_live(PODS, name, limit=PAGE, continue_from=follows)
            listed = yield from perform(command)
            if not isinstance(listed, Done):
                if isinstance(listed, NotFound):
                    return Content(), 0
                return Content(failures=[CommandError(command, listed)]), 0
            pages = (*pages, follows)
            there += items_of(listed)
            follows = what_follows(listed)
        if not there:
            return Content(), 0
        since = self._clock.now() - parse_time(namespace["metadata"]["deletionTimestamp"])
        grace = grace_left(there, since_deletion=since)
        self._log.info("pods deleted", key=name, pods=len(there), grace_seconds=grace)
        content = yield from delete_content(name, {SERVED_PODS: pages})
        if grace == 0 and any(content.finalizers.values()):
            grace = FINALIZERS_TAKE
        return content, grace

    # Waiting.

    def _wait(self, deletion: _Deletion, found: Findings, content: Content, estimate: int) -> RequeueAfter:
        looks = deletion.looks + 1 if content.numbers == deletion.remaining else 0
        deletion.looks, deletion.remaining = looks, content.numbers
        seconds = estimate // 2 + 1 if estimate and not found.failures else PER_LOOK.delay(looks)
        if found.discovery or found.parsing:
            seconds = PER_LOOK.delay(looks)
        now = self._clock.monotonic()
        deletion.due, deletion.resources = now + seconds, tuple(content.numbers)
        deletion.not_before = now + min(AT_FIRST * 2.0 ** min(looks, 10), AT_MOST)
        left = {str(resource): number for resource, number in content.numbers.items()}
        self._log.debug("content remaining in namespace", uid=deletion.uid, remaining=left, seconds=round(seconds, 3))
        return RequeueAfter(seconds)

    def _pause(self, name: Key, deletion: _Deletion) -> float:
        """Seconds until it is to be looked at: what was left may be gone by now."""
        due = deletion.due
        if self._are_gone(name, deletion.resources):
            due = min(due, deletion.not_before)
        return due - self._clock.monotonic()

    def _are_gone(self, name: Key, resources: Sequence[Resource]) -> bool:
        """Whether tables show none of these there any more; those that no table shows do not count."""
        readable = [self._tables[resource] for resource in resources if self._tables.is_readable(resource.id)]
        return bool(readable) and not any(lister.entries(name) for lister in readable)

    # The namespace itself.

    def _read(self, name: Key) -> Step[Object | None]:
        """As it is now: a table may be late, and another of its name not be deleted."""
        outcome = yield from must(get_live(NAMESPACES, name), but=(NotFound,))
        return decode_object(outcome.body) if isinstance(outcome, Done) else None

    def _report(self, namespace: Object, found: Findings) -> Step[Object | None]:
        """Returns the namespace as it is then; None if it is gone. A failure is logged, and keeps nothing back."""
        now = self._clock.now()

        def with_conditions(obj: Object) -> Object:
            return {**obj, "status": with_findings(obj.get("status") or {}, found, now=now)}

        try:
            return (yield from self._write(namespace, with_conditions, "status"))
        except CommandError as err:
            self._log.warning("conditions not written", key=namespace["metadata"]["name"], error=str(err))
            return namespace

    def _write(self, namespace: Object, change: Callable[[Object], Object], subresource: str) -> Step[Object | None]:
        """Returns it as it is then; None if it is gone. Nothing is written where nothing changes. Another version is
        read and changed anew, but not another namespace of its name: CommandError is raised.
        """
        name, uid = namespace["metadata"]["name"], uid_of(namespace)
        for _ in range(MOST_CONFLICTS):
            wanted = change(namespace)
            if wanted == namespace:
                return namespace
            command = update(NAMESPACES, wanted, subresource=subresource)
            outcome = yield from must(command, but=(NotFound, Conflict))
            if isinstance(outcome, Done):
                return decode_object(outcome.body)
            if isinstance(outcome, NotFound):
                return None
            live = yield from self._read(name)
            if live is None:
                return None
            if uid_of(live) != uid:
                break
            namespace = live
        assert isinstance(outcome, Conflict)
        raise CommandError(command, outcome)


@dataclass(slots=True)
class _Deletion:
    """Of one namespace. since: when it was first seen, monotonic.

    It is looked at when it is `due`, or once no table shows any of `resources` there, though `not_before` that.
    remaining: what was left at the last look; looks: how often that was the same. doubtful_until: when what we asked to
    be deleted will have been, or not.
    """

    uid: str
    since: float
    due: float = 0.0
    not_before: float = 0.0
    resources: tuple[Resource, ...] = ()
    remaining: Mapping[Resource, int] | None = None
    looks: int = 0
    doubtful_until: float = 0.0

    def wait_until(self, due: float) -> None:
        self.due, self.resources = due, ()


def _findings(name: str, served: Served, content: Content, estimate: int) -> Findings:
    """As upstream, what is left of pods is no finding of itself: nothing else has been looked at yet."""
    found = Findings(discovery=served.failure, parsing=served.unparsed)
    found.failures = [error.failure.message or type(error.failure).__name__ for error in content.failures]
    for resource, number in content.numbers.items():
        of_pods = resource.id == PODS.id
        if not content.finalizers[resource] and not (of_pods and estimate):
            group_version = f"{resource.group}/{resource.version}"
            found.failures.append(
                f"unexpected items still remain in namespace: {name} for gvr: {group_version}, "
                f"Resource={resource.plural}"
            )
        if not of_pods:
            found.remaining[f"{resource.plural}.{resource.group}"] = number
            found.finalizers.update(content.finalizers[resource])
    return found


def _terminating(namespace: Object) -> Object:
    status = namespace.get("status") or {}
    if status.get("phase") == TERMINATING:
        return namespace
    return {**namespace, "status": {**status, "phase": TERMINATING}}


def _finalized(namespace: Object) -> Object:
    spec: dict[str, Any] = namespace.get("spec") or {}
    left = sorted({finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER})
    return {**namespace, "spec": {**spec, "finalizers": left}}


def _waits_for_us(namespace: Object) -> bool:
    return is_deleting(namespace) and FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def _is_terminating(entry: Entry) -> bool:
    # The bytes are searched first: most namespaces stay.
    return b'"deletionTimestamp"' in entry.raw and is_deleting(decode_object(entry.raw))


# Which namespace a change concerns.


def terminating(change: Change, _tables: Tables) -> tuple[Key, ...]:
    """A namespace that is being deleted, or was."""
    return (change.key,) if is_deleting(change.new) else ()


def in_terminating(change: Change, tables: Tables) -> tuple[Key, ...]:
    """The namespace of an object that is gone, if that is being deleted."""
    entry = tables[NAMESPACES].entry(change.namespace)
    return (change.namespace,) if entry is not None and b'"deletionTimestamp"' in entry.raw else ()
