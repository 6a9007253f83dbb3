"""Reconciler of the namespace controller: deletes the content of a terminating namespace.

Input: namespaces, deletions of objects in them; discovery documents and object lists, which are requested in each sync.
Output: deletions of collections or of single objects; updates of the namespace's subresources status and finalize. Key:
the name of a namespace.

Pods are deleted first, and nothing else is deleted until no pod is left. Then all other objects are deleted
concurrently. While objects remain, the namespace is synced again as soon as informers have observed their deletion, or
after upstream's estimate if their resources are not watched. Finalizers of objects are never changed. The finalizer
`kubernetes` of the namespace is removed when all served resources were discovered, listed and found empty at a time
when no object could be created any more (api_servers.py).

Source: kubernetes v1.36 pkg/controller/namespace/{namespace_controller,deletion/namespaced_resources_deleter}.go.
Differences:
- There is no initial delay of 5 s; see api_servers.py. Resources and pages are processed concurrently, and empty
  collections are not deleted.
- While pods cannot be listed or deleted, nothing else is deleted. Upstream continues, and deletes for example the
  NetworkPolicies that protect these pods.
- If a group version is invalid, the namespace is not finalized, as upstream, but other resources are deleted.
- If objects without finalizers remain, the next sync is after 0.1 s, 0.2 s, … up to a minute; upstream begins with
  5 ms. The same delays apply after a failure, although the status update would enqueue the namespace at once.
- A namespace is kept for a minute after a deletecollection with unknown outcome: the server may carry it out late, and
  it has no uid precondition that would protect a new namespace with the same name.
- A namespace without the finalizer `kubernetes` is ignored; upstream deletes its content repeatedly until the other
  finalizers are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.actors.controllers.apimachinery.namespace.api_servers import SEVERAL_SERVERS, creation_window
from kcm.actors.controllers.apimachinery.namespace.conditions import Findings, with_findings
from kcm.actors.controllers.apimachinery.namespace.content import (
    PAGE,
    Content,
    Pages,
    continue_token,
    delete_content,
    find_content,
    items_of,
    remaining_grace,
)
from kcm.actors.controllers.apimachinery.namespace.served import Served, discover_served
from kcm.actors.reconciliation import (
    Because,
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
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
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
MOST_NAMED = 5  # resources and finalizers that a reason names
FINALIZER_ESTIMATE = 15  # estimated seconds until the owners of finalizers have removed them
MAX_CONFLICTS = 10  # consecutive conflicts until the sync fails
SYNC_BACKOFF = Backoff(first=0.1, most=60.0)  # between syncs of a namespace in which the same objects remain
REQUEST_TIMEOUT = 60.0  # seconds: default of kube-apiserver
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # minimum seconds between two syncs, even if the tables are empty earlier


class NamespaceController:
    """Deletes the content of terminating namespaces and finalizes them. Keeps the progress of deletions in memory."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._tables, self._clock, self._log = tables, clock, log
        self._namespaces = tables[NAMESPACES]
        self._deletions: dict[Key, _Deletion] = {}

    def reconcile(self, name: Key) -> Reconciliation:
        """Delete the content of a terminating namespace, then finalize it. Source: syncNamespaceFromKey."""
        shown = self._namespaces.entry(name)
        if shown is None or not _is_terminating(shown):
            self._deletions.pop(name, None)
            return None
        deletion = self._deletions.get(name)
        if deletion is None or deletion.uid != shown.uid:
            deletion = self._deletions[name] = _Deletion(shown.uid, self._clock.monotonic())
        pause = self._pause(name, deletion)
        if pause > 0:
            yield Because(f"looks again in {pause:.0f} s: {_remaining(deletion)}")
            return RequeueAfter(pause)
        namespace = yield from self._read(name)
        if namespace is None or not _has_our_finalizer(namespace) or uid_of(namespace) != deletion.uid:
            return None
        try:
            return (yield from self._delete_and_finalize(namespace, deletion))
        except CommandError:
            deletion.wait_until(self._clock.monotonic() + SYNC_BACKOFF.delay(deletion.repeats))
            deletion.repeats += 1
            raise

    def _delete_and_finalize(self, namespace: Object, deletion: _Deletion) -> Reconciliation:
        began = self._clock.monotonic()
        name = namespace["metadata"]["name"]
        terminating = yield from self._write(namespace, _terminating, "status")
        if terminating is None:
            return None
        served = yield from discover_served()
        content, estimate = yield from self._delete_all(terminating, served)
        found = _findings(name, served, content, estimate)
        reported = yield from self._report(terminating, found)
        if content.has_unknown:
            deletion.unknown_until = self._clock.monotonic() + REQUEST_TIMEOUT
        if content.failures:
            yield Because(f"could not list or delete all content, {len(content.failures)} requests failed")
            raise content.failures[0]
        if content.numbers or found.discovery or found.parsing:
            wait = self._wait(deletion, found, content, estimate)
            yield Because(_content_reason(found, content))
            return wait
        settled = deletion.unknown_until
        if began < deletion.since + SEVERAL_SERVERS:
            settled = max(settled, deletion.since + (yield from creation_window()))
        if began < settled:
            deletion.wait_until(settled)
            yield Because("is empty: waits until no API server can create objects in it any more")
            return RequeueAfter(max(0.0, settled - self._clock.monotonic()))
        if reported is not None:
            yield Because(f"is empty: removes its finalizer {FINALIZER}")
            self._log.info("namespace finalized", key=name, uid=deletion.uid)
            yield from self._write(reported, _finalized, "finalize")
        return None

    def _delete_all(self, namespace: Object, served: Served) -> Step[tuple[Content, int]]:
        """Delete the pods of a namespace, or all other objects once it has no pods.

        Returns the remaining objects, and the estimated seconds until they are deleted; 0 if unknown.
        """
        name = namespace["metadata"]["name"]
        content, estimate = yield from self._delete_pods(namespace)
        if content.numbers or content.failures:
            return content, estimate
        found = yield from find_content(name, [kind for kind in served.resources if kind.resource.id != PODS.id])
        if not found:
            return content, 0
        self._log.info("content deleted", key=name, resources=[str(kind.resource) for kind in found])
        content = yield from delete_content(name, found)
        return content, FINALIZER_ESTIMATE if any(content.finalizers.values()) else 0

    def _delete_pods(self, namespace: Object) -> Step[tuple[Content, int]]:
        # Pods are listed even if discovery has not found them: pods must be deleted before all other content.
        name = namespace["metadata"]["name"]
        pages: Pages = ()
        pods: list[Object] = []
        token = ""
        while token or not pages:
            command = list_live(PODS, name, limit=PAGE, continue_from=token)
            listed = yield from perform(command)
            if not isinstance(listed, Done):
                if isinstance(listed, NotFound):
                    return Content(), 0
                return Content(failures=[CommandError(command, listed)]), 0
            pages = (*pages, token)
            pods += items_of(listed)
            token = continue_token(listed)
        if not pods:
            return Content(), 0
        since = self._clock.now() - parse_time(namespace["metadata"]["deletionTimestamp"])
        grace = remaining_grace(pods, since_deletion=since)
        self._log.info("pods deleted", key=name, pods=len(pods), grace_seconds=grace)
        content = yield from delete_content(name, {SERVED_PODS: pages})
        if grace == 0 and any(content.finalizers.values()):
            grace = FINALIZER_ESTIMATE
        return content, grace

    # Waiting.

    def _wait(self, deletion: _Deletion, found: Findings, content: Content, estimate: int) -> RequeueAfter:
        repeats = deletion.repeats + 1 if content.numbers == deletion.remaining else 0
        deletion.repeats, deletion.remaining = repeats, content.numbers
        seconds = estimate // 2 + 1 if estimate and not found.failures else SYNC_BACKOFF.delay(repeats)
        if found.discovery or found.parsing:
            seconds = SYNC_BACKOFF.delay(repeats)
        now = self._clock.monotonic()
        deletion.due, deletion.resources = now + seconds, tuple(content.numbers)
        deletion.not_before = now + min(FIRST_PAUSE * 2.0 ** min(repeats, 10), LONGEST_PAUSE)
        left = {str(resource): number for resource, number in content.numbers.items()}
        self._log.debug("content remaining in namespace", uid=deletion.uid, remaining=left, seconds=round(seconds, 3))
        return RequeueAfter(seconds)

    def _pause(self, name: Key, deletion: _Deletion) -> float:
        """Return the seconds until the namespace's next sync is due; 0 or less if it is due now.

        The sync is due early if the informers have observed that all remaining objects are deleted.
        """
        due = deletion.due
        if self._are_empty(name, deletion.resources):
            due = min(due, deletion.not_before)
        return due - self._clock.monotonic()

    def _are_empty(self, name: Key, resources: Sequence[Resource]) -> bool:
        """Report whether the informer caches of these resources contain no objects of the namespace.

        Resources without a cache are ignored; the result is False if none of them has a cache.
        """
        readable = [self._tables[resource] for resource in resources if self._tables.is_readable(resource.id)]
        return bool(readable) and not any(lister.entries(name) for lister in readable)

    # The namespace itself.

    def _read(self, name: Key) -> Step[Object | None]:
        # Read live: the table may be stale, and a new namespace with the same name must not be emptied.
        outcome = yield from must(get_live(NAMESPACES, name), but=(NotFound,))
        return decode_object(outcome.body) if isinstance(outcome, Done) else None

    def _report(self, namespace: Object, found: Findings) -> Step[Object | None]:
        """Write the deletion conditions to the namespace's status.

        Returns the updated namespace, or None if it does not exist. A failed write is only logged, and the namespace is
        returned unchanged.
        """
        now = self._clock.now()

        def with_conditions(obj: Object) -> Object:
            return {**obj, "status": with_findings(obj.get("status") or {}, found, now=now)}

        try:
            return (yield from self._write(namespace, with_conditions, "status"))
        except CommandError as err:
            self._log.warning("conditions not written", key=namespace["metadata"]["name"], error=str(err))
            return namespace

    def _write(self, namespace: Object, change: Callable[[Object], Object], subresource: str) -> Step[Object | None]:
        """Update a subresource of the namespace. Return the stored namespace; None if it does not exist.

        change: returns the namespace to write for a given namespace. After a conflict it is called again with the
            current version, up to MAX_CONFLICTS times.

        Raises CommandError if the update fails, or if a new namespace with the same name exists.
        """
        name, uid = namespace["metadata"]["name"], uid_of(namespace)
        for _ in range(MAX_CONFLICTS):
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


class _Deletion(Struct):
    """Progress of the deletion of one namespace. Times are monotonic seconds.

    The next sync is at `due`, or earlier when the informer caches of `resources` contain no objects of the namespace,
    but not before `not_before`.
    """

    uid: str  # of the namespace
    since: float  # when the deletion was first observed
    due: float = 0.0
    not_before: float = 0.0
    resources: tuple[Resource, ...] = ()  # whose objects remained at the last sync
    remaining: Mapping[Resource, int] | None = None  # number of objects that remained at the last sync
    repeats: int = 0  # consecutive syncs with the same remaining objects
    unknown_until: float = 0.0  # by then the server has carried out or dropped every deletion with unknown outcome

    def wait_until(self, due: float) -> None:
        self.due, self.resources = due, ()


def _remaining(deletion: _Deletion) -> str:
    left = [f"{number} {resource.plural}" for resource, number in list((deletion.remaining or {}).items())[:MOST_NAMED]]
    return f"{', '.join(left)} remained" if left else "content may appear until then"


def _content_reason(found: Findings, content: Content) -> str:
    """Return what remains in a namespace, and which finalizers keep it."""
    if found.discovery or found.parsing:
        return f"waits, as its resources cannot all be discovered: {found.discovery or found.parsing}"
    left = []
    for resource, number in list(content.numbers.items())[:MOST_NAMED]:
        finalizers = ", ".join(list(content.finalizers[resource])[:MOST_NAMED])
        left.append(f"{number} {resource.plural}" + (f" with the finalizers {finalizers}" if finalizers else ""))
    return f"content remains: {'; '.join(left)}"


def _findings(name: str, served: Served, content: Content, estimate: int) -> Findings:
    # As upstream, remaining pods are not reported as such: no other resource has been listed yet.
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


def _has_our_finalizer(namespace: Object) -> bool:
    return is_deleting(namespace) and FINALIZER in ((namespace.get("spec") or {}).get("finalizers") or ())


def _is_terminating(entry: Entry) -> bool:
    # The bytes are searched first, because most namespaces are not deleted and need not be decoded.
    return b'"deletionTimestamp"' in entry.raw and is_deleting(decode_object(entry.raw))


# The keys that a change enqueues.


def terminating(change: Change, _tables: Tables) -> tuple[Key, ...]:
    """Return the key of the changed namespace if it is terminating; otherwise nothing."""
    return (change.key,) if is_deleting(change.new) else ()


def in_terminating(change: Change, tables: Tables) -> tuple[Key, ...]:
    """Return the namespace of the changed object as key if that namespace is terminating; otherwise nothing."""
    entry = tables[NAMESPACES].entry(change.namespace)
    return (change.namespace,) if entry is not None and b'"deletionTimestamp"' in entry.raw else ()
