"""What the resourcequota controller does with one quota: it counts what its namespace uses.

In: ResourceQuotas, and all that they limit. Out: updates of their status, which has the limits that are in force and
what is used of them. Key: a quota's namespace and name. Two queues, so that quotas whose usage is not known, which
let nothing through, do not wait for those that are only counted again.

What cannot be counted keeps its last usage; the rest is written, and the key is tried again.

A usage that is written was counted from a table at least as new as the quota. Else an object might not be in it that
was charged already, and the quota would be exceeded by as much. A table that is behind is waited for; then the server
itself is asked for the objects of the namespace.

Source: kubernetes v1.36 pkg/controller/resourcequota/resource_quota_controller.go. Differences: the one above; a pod
that should be gone by a certain time has its quota counted again then; a resource that is served from now on has the
quotas counted that wait for it; and some time after a usage has changed it is looked at once more, as what came and
went while a watch was away was charged, and no event tells that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.controllers.objects.resourcequota.counting import Counting, is_uncounted, limits, status_of
from actors.reconciliation import Enqueue, Reconciliation, RequeueAfter, Step, list_live, must, must_object, update
from protocols.messages.discovery import TablesChanged
from protocols.messages.lifecycle import Restarted
from protocols.messages.outcomes import NotFound
from protocols.objects import Key, Object, namespace_of, resource_version_of
from protocols.quantities import Quantity
from protocols.quota.amounts import Amounts, equal, masked, read_amounts, written
from protocols.quota.calculation import Usage, calculate_usage
from protocols.quota.evaluators import Evaluator
from protocols.quota.pods import gone_at
from protocols.resources import PODS, RESOURCE_QUOTAS
from protocols.versions import parse_version
from runtime.scheduling.clock import Clock
from runtime.tables.overlay import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PRIMARY, PRIORITY, CHANGED = "resourcequota_primary", "resourcequota_priority", "resourcequota_changed"
LOOKS_AGAIN_AFTER = 10.0  # seconds from a change of the usage until it is compared with what there is
CATCHES_UP_WITHIN = 1.0  # seconds that a table is waited for which is behind a quota
BEHIND_CHECK = 0.2  # seconds between two looks at whether it still is


class ResourceQuotaReconciler:
    """Remembers which quotas wait for a table, and since when."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._tables, self._clock, self._log = tables, clock, log
        self._quotas = tables[RESOURCE_QUOTAS]
        self._counting = Counting(tables, clock.now)
        self._behind: dict[Key, float] = {}  # since when, by the uptime

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        match message:
            case TablesChanged():
                return list(self._waiting_for_tables())
            case Restarted():
                return ()
            case _:
                raise TypeError(f"the resourcequota controller cannot handle {message!r}")

    def _waiting_for_tables(self) -> Iterator[Enqueue]:
        evaluators = list(self._counting.evaluators())
        for entry in self._quotas.entries():
            if is_uncounted(self._quotas.object_of(entry), evaluators):
                yield Enqueue(PRIORITY, entry.key)

    def enqueue_all(self) -> Reconciliation:
        for entry in self._quotas.entries():
            yield Enqueue(PRIMARY, entry.key)
        return None

    def look_again(self, key: Key) -> Reconciliation:
        """Somebody has changed what is used, admission or we; or a pod has begun to go."""
        yield Enqueue(PRIMARY, key, after=LOOKS_AGAIN_AFTER)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        quota = self._quotas.get(key)
        if quota is None:
            self._behind.pop(key, None)
            return None
        evaluators = list(self._counting.evaluators())
        usage = calculate_usage(
            quota, limits(quota), evaluators, lambda one: self._counting.objects(one, namespace_of(quota))
        )
        used = _used(quota, usage)
        behind = self._tables_behind(quota, usage, used, evaluators)
        if behind:
            since = self._behind.setdefault(key, self._clock.monotonic())
            waits = not is_uncounted(quota, evaluators)
            if waits and self._clock.monotonic() - since < CATCHES_UP_WITHIN:
                return RequeueAfter(BEHIND_CHECK)
            usage = yield from self._count_live(quota, evaluators, behind)
            used = _used(quota, usage)
        self._behind.pop(key, None)
        if _differs(quota, used):
            status = {"hard": limits(quota), "used": written(used)}
            yield from must(update(RESOURCE_QUOTAS, {**quota, "status": status}, subresource="status"), but=(NotFound,))
            self._log.debug("quota counted", key=key, used=status["used"])
        for error in usage.errors:
            raise error
        return self._when_pods_are_gone(quota, usage)

    def _tables_behind(
        self, quota: Object, usage: Usage, used: Amounts, evaluators: Sequence[Evaluator]
    ) -> list[Evaluator]:
        """Those by whose count the usage changes, from a table that is older than the quota."""
        known = read_amounts(status_of(quota).get("used"))
        changed = {name for name, one in used.items() if name not in known or known[name].value != one.value}
        if not changed:
            return []
        version = parse_version(resource_version_of(quota)) or 0
        return [
            one
            for one in evaluators
            if changed.intersection(usage.counted.get(one.resource, ()))
            and self._counting.lister(one).version < version
        ]

    def _count_live(self, quota: Object, evaluators: Sequence[Evaluator], behind: Sequence[Evaluator]) -> Step[Usage]:
        """The same, with what the server itself has where tables are behind."""
        namespace = namespace_of(quota)
        live: dict[str, list[Object]] = {}
        for evaluator in behind:
            found = yield from must_object(list_live(self._counting.lister(evaluator).resource, namespace))
            live[evaluator.resource] = found.get("items") or []

        def listed(evaluator: Evaluator) -> Sequence[Object]:
            objects = live.get(evaluator.resource)
            return self._counting.objects(evaluator, namespace) if objects is None else objects

        return calculate_usage(quota, limits(quota), evaluators, listed)

    def _when_pods_are_gone(self, quota: Object, usage: Usage) -> RequeueAfter | None:
        """A pod that is being deleted does not count beyond its time, and no event tells of that."""
        if not usage.counted.get(PODS.name, frozenset()) - {"count/pods"}:
            return None
        now = self._clock.now()
        pods = self._tables[PODS]
        deleted = (entry for entry in pods.entries(namespace_of(quota)) if entry.facts.deleting)
        times = (gone_at(pods.object_of(entry)) for entry in deleted)
        due = min((time for time in times if time is not None and time >= now), default=None)
        return None if due is None else RequeueAfter(due - now + 1.0)


def _used(quota: Mapping[str, Any], usage: Usage) -> dict[str, Quantity]:
    """What was counted, and of what was not the last usage."""
    known = read_amounts(status_of(quota).get("used"))
    return masked({**known, **usage.used}, limits(quota))


def _differs(quota: Object, used: Amounts) -> bool:
    """The server leaves out maps that are empty."""
    status = status_of(quota)
    in_force, known = read_amounts(status.get("hard")), read_amounts(status.get("used"))
    return not (equal(read_amounts(limits(quota)), in_force) and equal(used, known))
