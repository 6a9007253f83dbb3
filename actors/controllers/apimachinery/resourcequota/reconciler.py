"""Reconciler of the resourcequota controller: counts the usage of a quota's namespace.

Input: ResourceQuotas, and the objects that they limit. Output: updates of the quotas' status, which contains the
enforced limits (hard) and the usage (used). Key: "namespace/name" of a quota. Quotas with unknown usage, for which
admission rejects all requests, have a queue of their own, so that they do not wait for periodic recounts.

If a resource cannot be counted, the status keeps its last usage, the usage of other resources is written, and the sync
is retried.

Usage is counted from informer caches that are at least as new as the quota. Otherwise an object that admission has
already added to status.used might be missing from the count, and the quota could be exceeded. The reconciler waits up
to a second for an older cache, and then lists the objects of the namespace from the API server. Admission does not
count objects that are created before the write that enforces a limit, so the quota is counted again immediately after
that write.

Source: kubernetes v1.36 pkg/controller/resourcequota/resource_quota_controller.go. Differences:
- The age of the caches is checked, as described above.
- A quota is counted again when the grace period of a terminating pod is over.
- Quotas that limit a resource are counted when discovery finds the resource.
- A quota is counted again 10 s after its usage has changed: admission also counts objects that were created and deleted
  while a watch was disconnected, and no event reports their deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.apimachinery.resourcequota.evaluators import (
    EvaluationContext,
    is_uncounted,
    limits,
    status_of,
)
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    list_live,
    must,
    must_object,
    update,
)
from kcm.protocols.messages.discovery import TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, Object, key_of, metadata, namespace_of, resource_version_of, split_key
from kcm.protocols.quantities import Quantity
from kcm.protocols.quota.amounts import Amounts, equal, masked, read_amounts, written
from kcm.protocols.quota.calculation import NotCountedError, Usage, calculate_usage
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.quota.pods import Pods, gone_at
from kcm.protocols.resources import PODS, RESOURCE_QUOTAS
from kcm.protocols.versions import parse_version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PRIMARY, PRIORITY, DELAYED = "resourcequota_primary", "resourcequota_priority", "resourcequota_changed"
RECOUNT_AFTER = 10.0  # seconds from a change of the usage to the recount
CATCH_UP_TIMEOUT = 1.0  # seconds to wait for a table that is older than a quota
PAGE = 500  # objects in a page of a live list
BEHIND_CHECK = 0.2  # seconds between two checks of a table that is older than a quota
MOST_NAMED = 8  # resources that a reason names


class ResourceQuotaReconciler:
    """Counts the objects that ResourceQuotas limit, and writes their usage to the status of the quotas."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._tables, self._clock, self._log = tables, clock, log
        self._quotas = tables[RESOURCE_QUOTAS]
        self._context = EvaluationContext(tables, clock.now)
        self._waiting_since: dict[Key, float] = {}  # quotas that wait for a newer table: monotonic start of the wait
        self._undiscovered: set[Key] = set()  # quotas with a limit whose resource was not discovered yet
        self._newly_enforced: dict[Key, frozenset[str]] = {}  # names of limits that were new in the last write

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        match message:
            case TablesChanged():
                return list(self._keys_waiting_for_tables())
            case Restarted():
                return ()
            case _:
                raise TypeError(f"the resourcequota controller cannot handle {message!r}")

    def _keys_waiting_for_tables(self) -> Iterator[Enqueue]:
        evaluators = list(self._context.evaluators())
        for entry in self._quotas.entries():
            if is_uncounted(self._quotas.object_of(entry), evaluators):
                yield Enqueue(PRIORITY, entry.key)
            elif entry.key in self._undiscovered:
                yield Enqueue(PRIMARY, entry.key)

    def enqueue_all(self) -> Reconciliation:
        for entry in self._quotas.entries():
            yield Enqueue(PRIMARY, entry.key)
        return None

    def recount_later(self, key: Key) -> Reconciliation:
        """Enqueue a quota for a recount in RECOUNT_AFTER seconds."""
        yield Enqueue(PRIMARY, key, after=RECOUNT_AFTER)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        """Count the usage of a ResourceQuota and write it to the status. Source: syncResourceQuota."""
        quota = self._quotas.get(key)
        if quota is None:
            self._forget(key)
            return None
        namespace = namespace_of(quota)
        evaluators = list(self._context.evaluators())
        for evaluator in evaluators:
            if evaluator.matching(limits(quota)) and not self._context.fill_cache(evaluator, namespace):
                return RequeueAfter(0.0)  # lets other keys run before the next batch is read
        usage = calculate_usage(
            quota, limits(quota), evaluators, lambda evaluator: self._context.objects(evaluator, namespace)
        )
        used = _used(quota, usage)
        behind = self._tables_behind(quota, usage, self._changed(quota, used), evaluators)
        if behind:
            since = self._waiting_since.setdefault(key, self._clock.monotonic())
            waits = not is_uncounted(quota, evaluators) and key not in self._newly_enforced
            if waits and self._clock.monotonic() - since < CATCH_UP_TIMEOUT:
                yield Because("waits until the tables are as new as the quota, to count what they contain")
                return RequeueAfter(BEHIND_CHECK)
            yield Because("the tables are older than the quota: counts its objects on the server")
            usage = yield from self._count_live(quota, evaluators, behind)
            used = _used(quota, usage)
        self._waiting_since.pop(key, None)
        if limits(quota).keys() - frozenset().union(*usage.counted.values()):
            yield Because("a resource that it limits is not served, or not discovered yet")
            self._undiscovered.add(key)  # after a start, discovery may be incomplete
        else:
            self._undiscovered.discard(key)
        if _differs(quota, used):
            status = {"hard": limits(quota), "used": written(used)}
            yield Because(_reason(status))
            yield from must(update(RESOURCE_QUOTAS, {**quota, "status": status}, subresource="status"), but=(NotFound,))
            self._log.debug("quota counted", key=key, used=status["used"])
        self._newly_enforced.pop(key, None)
        new_limits = used.keys() - (status_of(quota).get("hard") or {}).keys()
        if new_limits:
            self._newly_enforced[key] = frozenset(new_limits)
            yield Enqueue(PRIMARY, key)
        for error in usage.errors:
            raise error
        return None if new_limits else self._next_recount(quota, usage)

    def _forget(self, key: Key) -> None:
        self._waiting_since.pop(key, None)
        self._newly_enforced.pop(key, None)
        self._undiscovered.discard(key)
        namespace = split_key(key)[0]
        if not self._quotas.entries(namespace):
            self._context.forget(namespace)

    def _changed(self, quota: Object, used: Amounts) -> frozenset[str]:
        """Return the names of the resources that must be counted from informer caches as new as the quota.

        These are the resources whose usage differs from status.used, and those whose limit was enforced by the last
        write: before it, admission did not add new objects to status.used.
        """
        known = read_amounts(status_of(quota).get("used"))
        changed = {name for name, amount in used.items() if name not in known or known[name].value != amount.value}
        return self._newly_enforced.get(key_of(quota), frozenset()) | changed

    def _tables_behind(
        self, quota: Object, usage: Usage, changed: frozenset[str], evaluators: Sequence[Evaluator]
    ) -> list[Evaluator]:
        """Return the evaluators that count a changed resource from an informer cache that is older than the quota.

        changed: names of limited resources, from _changed.
        """
        if not changed:
            return []
        version = parse_version(resource_version_of(quota)) or 0
        return [
            evaluator
            for evaluator in evaluators
            if changed.intersection(usage.counted.get(evaluator.resource, ()))
            and self._context.lister(evaluator).version < version
        ]

    def _count_live(self, quota: Object, evaluators: Sequence[Evaluator], behind: Sequence[Evaluator]) -> Step[Usage]:
        """Count the usage of a quota without informer caches that are older than the quota.

        The objects of the evaluators in `behind` are listed from the API server. The result contains errors for the
        resources that could not be listed.
        """
        namespace = namespace_of(quota)
        live: dict[str, Sequence[Object] | NotCountedError] = {}
        for evaluator in behind:
            try:
                live[evaluator.resource] = yield from self._list_live(evaluator, namespace)
            except NotCountedError as err:
                live[evaluator.resource] = err

        def listed(evaluator: Evaluator) -> Sequence[Object]:
            found = live.get(evaluator.resource)
            if isinstance(found, NotCountedError):
                raise found
            return self._context.objects(evaluator, namespace) if found is None else found

        return calculate_usage(quota, limits(quota), evaluators, listed)

    def _list_live(self, evaluator: Evaluator, namespace: str) -> Step[Sequence[Object]]:
        """List the objects of an evaluator's resource from the API server, in pages. Raises NotCountedError.

        Each page is a separate command, so that other actors can run between the decoding of two pages.
        """
        resource = self._context.lister(evaluator).resource
        found: list[Object] = []
        rest = ""
        while True:
            page = yield from must_object(list_live(resource, namespace, limit=PAGE, continue_from=rest))
            found += self._context.converted(evaluator, page.get("items") or (), namespace)
            rest = metadata(page).get("continue") or ""
            if not rest:
                return found

    def _next_recount(self, quota: Object, usage: Usage) -> RequeueAfter | None:
        """Return a RequeueAfter for the end of the first grace period of a terminating pod; None without such pods.

        The pod is not counted from then on, and no event reports this change.
        """
        if not usage.counted.get(PODS.name, frozenset()) - {"count/pods"}:
            return None
        now = self._clock.now()
        pods = self._context.objects(Pods(self._clock.now), namespace_of(quota))
        times = (gone_at(pod) for pod in {id(pod): pod for pod in pods}.values())
        due = min((time for time in times if time is not None and time >= now), default=None)
        return None if due is None else RequeueAfter(due - now + 1.0)


def _reason(status: Mapping[str, Mapping[str, str]]) -> str:
    hard, used = status["hard"], status["used"]
    usage = [f"{name} {used.get(name, '?')} of {limit}" for name, limit in list(hard.items())[:MOST_NAMED]]
    return f"its usage or its limits have changed: writes {', '.join(usage)}"


def _used(quota: Mapping[str, Any], usage: Usage) -> dict[str, Quantity]:
    """Return the usage to write: the counted amounts, and the last known amounts of resources that were not counted."""
    known = read_amounts(status_of(quota).get("used"))
    return masked({**known, **usage.used}, limits(quota))


def _differs(quota: Object, used: Amounts) -> bool:
    # Compare parsed amounts, because the server omits empty maps and normalizes quantities.
    status = status_of(quota)
    in_force, known = read_amounts(status.get("hard")), read_amounts(status.get("used"))
    return not (equal(read_amounts(limits(quota)), in_force) and equal(used, known))
