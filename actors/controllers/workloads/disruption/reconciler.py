"""Reconciler of PodDisruptionBudgets: computes how many pods of a budget may be evicted.

Input: PodDisruptionBudgets, pods, and the replicas of the workloads that the pods belong to. Output: the status of
budgets, the condition DisruptionTarget of evicted pods that were not deleted, and events on both. Keys:
"namespace/name" of a budget, and in two of the queues of a pod.

The API server decrements disruptionsAllowed when it evicts a pod, and records the pod in disruptedPods. Each status
write has the budget's resourceVersion as precondition, so that it overwrites no eviction.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go. Differences:
- A budget whose pods cannot be counted allows no disruption, as upstream, but is retried with backoff; upstream waits
  for its next event. A retry records no further event if budget and pods are unchanged, and at most one equal event per
  minute if only the pods have changed. Upstream records an event for each change of a pod. The controller's own write
  of the failure does not enqueue the budget; upstream's does if the text differs.
- An unreadable pod counts as not healthy.
- The event NotDeleted contains the name of the budget.
- The eviction of a pod that is not in the informer cache is kept in the status while that cache is older than the
  budget that recorded the eviction: the pod may still appear there as healthy. Upstream then counts it as healthy.
- The two minutes of an eviction begin when this controller observes it; upstream compares the API server's time with
  its own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.shared.selected_pods import selected_pods
from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.disruption import events
from kcm.actors.controllers.workloads.disruption.matching import selecting_budgets, selector_of
from kcm.actors.controllers.workloads.disruption.pod_counts import (
    CannotCountError,
    PodRequirement,
    fail_safe_status,
    is_healthy,
    needs_scale,
    next_status,
    pod_requirement,
    recent_evictions,
)
from kcm.actors.controllers.workloads.disruption.scales import Scales
from kcm.actors.controllers.workloads.disruption.stale_targets import TIMEOUT, marked_since, status_without_target
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    must,
    perform,
    record,
    update,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Refused
from kcm.protocols.objects import Key, Object, make_key, resource_version_of, split_key
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.protocols.times import describe_time, parse_time
from kcm.protocols.versions import parse_version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE, RECHECK_QUEUE, STALE_QUEUE = "disruption", "disruption_recheck", "stale_pod_disruption"
EQUAL_FAILURES = 60.0  # seconds between two equal events about a budget if only its pods have changed


class _ObservedEviction(NamedTuple):
    """Time and budget version at which this controller first observed an eviction in status.disruptedPods."""

    since: float  # monotonic seconds
    version: int  # resourceVersion of the budget that recorded it


class _ReportedFailure(NamedTuple):
    """Last event about a budget whose pods could not be counted, with the objects that it was computed from."""

    failure: tuple[str, str]  # text of the failure, and the budget's resourceVersion
    pods: frozenset[tuple[str, int]]  # uid and resourceVersion of each pod of the budget
    at: float  # time of the event in monotonic seconds


class DisruptionReconciler:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._budgets, self._pods = tables[POD_DISRUPTION_BUDGETS], tables[PODS]
        self._clock, self._log = clock, log
        self._served = ServedKinds()
        self._evictions: dict[
            Key, dict[tuple[str, Any], _ObservedEviction]
        ] = {}  # by budget, then by pod and time of the eviction
        self._scales = Scales(tables=tables, served=self._served)
        self._reported: dict[Key, _ReportedFailure] = {}  # by budget

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        return self._served.on_message(message)

    # Queue disruption.

    def reconcile(self, key: Key) -> Reconciliation:
        self._budgets.require(key)
        budget = self._budgets.get(key)
        if budget is None:
            self._evictions.pop(key, None)
            self._reported.pop(key, None)
            return None
        try:
            status, recheck = yield from self._count_pods(key, budget)
        except CannotCountError as err:
            yield Because(f"allows no disruptions: its pods cannot be counted: {err}")
            yield from self._report_failure(key, budget, err)
            yield from self._write_fail_safe(budget, str(err))
            raise
        self._reported.pop(key, None)
        if status is not None:
            yield from self._write(key, budget, status)
        if recheck is not None:
            yield Enqueue(RECHECK_QUEUE, key, after=max(0.0, recheck))
        return None

    def recheck(self, key: Key) -> Reconciliation:
        """Enqueue a PodDisruptionBudget for a sync, because DELETION_TIMEOUT of one of its evicted pods is over."""
        yield Enqueue(QUEUE, key)
        return None

    def _count_pods(self, key: Key, budget: Object) -> Step[tuple[Object | None, float | None]]:
        """Count the pods of a PodDisruptionBudget and compute its status.

        Returns (status to write, or None if it is unchanged; seconds until the pods must be counted again, or None).
        Raises CannotCountError, and Retry before discovery is complete.
        """
        spec = budget.get("spec") or {}
        pods = yield from self._pods_of(key, budget)
        try:
            requirement = yield from self._requirement(budget, spec, pods)
        except CannotCountError as err:
            raise CannotCountError(str(err), reason=events.CALCULATION_FAILED) from err
        recorded = (budget.get("status") or {}).get("disruptedPods") or {}
        evictions = self._observed_evictions(key, budget, recorded)
        since = {name: eviction.since for name, eviction in evictions.items()}
        not_in_table = self._not_in_table(key, evictions)
        disrupted = recent_evictions(since, pods, now=self._clock.monotonic(), not_in_table=not_in_table)
        for pod in disrupted.overdue:
            self._log.info("pod was expected to be deleted but it wasn't, updating PDB", v=1, key=key, pod=pod.key)
            yield record(PODS, self._pods.object_of(pod), "Warning", "NotDeleted", events.not_deleted(key))
        unreadable = {pod.key for pod in self._pods.unreadable(split_key(key)[0])}
        current = sum(1 for pod in pods if is_healthy(pod, disrupted) and pod.key not in unreadable)
        fresh = {name: recorded[name] for name in recorded if name in disrupted.fresh}
        allowed = max(0, current - requirement.desired) if requirement.expected > 0 else 0
        evicted = f", {len(fresh)} evicted pods are not deleted yet" if fresh else ""
        yield Because(
            f"allows {counted(allowed, 'disruption')}: {current} of {requirement.expected} expected pods are healthy, "
            f"{requirement.desired} must be{evicted}"
        )
        status = next_status(budget, requirement, current=current, disrupted=fresh, now=self._clock.now())
        return status, disrupted.recheck

    def _not_in_table(self, key: Key, evictions: Mapping[str, _ObservedEviction]) -> list[str]:
        """Return the names of evicted pods that are missing in the informer cache, but may still exist.

        The cache is older than the budget that recorded the eviction, so the pods may still appear in it.
        """
        namespace, version = split_key(key)[0], self._pods.version
        newer = [name for name, eviction in evictions.items() if version < eviction.version]
        return [name for name in newer if self._pods.entry(make_key(namespace, name)) is None]

    def _observed_evictions(
        self, key: Key, budget: Object, recorded: Mapping[str, Any]
    ) -> dict[str, _ObservedEviction]:
        """Return, by pod name, when this controller first observed the evictions in status.disruptedPods.

        recorded: status.disruptedPods of the budget.

        Raises CannotCountError if a time in it is malformed.
        """
        try:
            for at in recorded.values():
                parse_time(at)
        except ValueError as err:
            raise CannotCountError(f"status.disruptedPods: {err}") from err
        before = self._evictions.get(key, {})
        now = _ObservedEviction(self._clock.monotonic(), parse_version(resource_version_of(budget)) or 0)
        self._evictions[key] = {eviction: before.get(eviction, now) for eviction in recorded.items()}
        return {name: seen for (name, _), seen in self._evictions[key].items()}

    def _pods_of(self, key: Key, budget: Object) -> Step[list[Entry]]:
        try:
            pods = selected_pods(self._pods, split_key(key)[0], selector_of(budget))
        except ValueError as err:
            raise CannotCountError(str(err), reason=events.NO_PODS) from err
        if not pods:
            yield self._event(budget, "Normal", events.NO_PODS, "No matching pods found")
        return pods

    def _requirement(self, budget: Object, spec: Object, pods: list[Entry]) -> Step[PodRequirement]:
        scale = 0
        unmanaged: list[str] = []
        if needs_scale(spec):
            scale, unmanaged = yield from self._scales.total_replicas(pods)
        try:
            requirement = pod_requirement(spec, pods=len(pods), scale=scale)
        except ValueError as err:
            raise CannotCountError(str(err)) from err
        if unmanaged:
            self._log.debug("Found unmanaged pods associated with this PDB", pods=unmanaged)
            yield self._event(budget, "Warning", "UnmanagedPods", events.unmanaged_pods(spec.get("selector")))
        return requirement

    def _write(self, key: Key, budget: Object, status: Object) -> Step[None]:
        put = update(POD_DISRUPTION_BUDGETS, {**budget, "status": status}, subresource="status")
        outcome = yield from perform(put)
        if isinstance(outcome, NotFound):
            return
        if not isinstance(outcome, Done):
            if not isinstance(outcome, Conflict | Refused):
                yield from self._write_fail_safe(budget, outcome.message)
            raise CommandError(put, outcome)
        counts = {name: status[name] for name in ("expectedPods", "desiredHealthy", "currentHealthy")}
        self._log.info("disruptions counted", key=key, allowed=status["disruptionsAllowed"], **counts)

    def _report_failure(self, key: Key, budget: Object, err: CannotCountError) -> Step[None]:
        """Record an event for this failure, unless the same event was recorded recently.

        An event with the same text for the same version of the budget is repeated only if the pods have changed and
        EQUAL_FAILURES seconds have passed.
        """
        try:
            pods = selected_pods(self._pods, split_key(key)[0], selector_of(budget))
        except ValueError:
            pods = []
        versions = frozenset((pod.uid, pod.resource_version) for pod in pods)
        found = _ReportedFailure((str(err), resource_version_of(budget)), versions, self._clock.monotonic())
        last = self._reported.get(key)
        if last is not None and last.failure == found.failure:
            if last.pods == found.pods or found.at < last.at + EQUAL_FAILURES:
                return
        if err.reason:
            self._reported[key] = found
            yield self._event(budget, "Warning", err.reason, events.cannot_count(err.reason, str(err)))

    def _write_fail_safe(self, budget: Object, why: str) -> Step[None]:
        """Write a status that allows no disruptions, because the pods could not be counted."""
        status = fail_safe_status(budget, why, now=self._clock.now())
        if status is not None:
            put = update(POD_DISRUPTION_BUDGETS, {**budget, "status": status}, subresource="status")
            yield from must(put, but=(NotFound,))

    def _event(self, budget: Object, type_: Any, reason: str, message: str) -> Any:
        return record(POD_DISRUPTION_BUDGETS, budget, type_, reason, message)

    # Queues of pods.

    def report_multiple_budgets(self, key: Key) -> Reconciliation:
        """Record an event on a pod that several PodDisruptionBudgets select, because it cannot be evicted."""
        pod = self._pods.entry(key)
        if pod is None:
            return None
        namespace, name = split_key(key)
        budgets = selecting_budgets(self._budgets, namespace, pod.facts.labels)
        if len(budgets) > 1:
            yield Because(f"cannot be evicted: {len(budgets)} PodDisruptionBudgets select it: {', '.join(budgets[:3])}")
            text = events.multiple_budgets(namespace, name, split_key(budgets[0])[1])
            yield record(PODS, self._pods.object_of(pod), "Warning", "MultiplePodDisruptionBudgets", text)
        return None

    def clear_stale_target(self, key: Key) -> Reconciliation:
        """Set the condition DisruptionTarget of a pod to False if the pod was not deleted within two minutes.

        Source: syncStalePodDisruption.
        """
        self._pods.require(key)
        pod = self._pods.get(key)
        since = None if pod is None else marked_since(pod)
        if pod is None or since is None:
            return None
        now = self._clock.now()
        if since + TIMEOUT > now:
            yield Because(
                f"condition DisruptionTarget is reset at {describe_time(since + TIMEOUT)} unless it is deleted"
            )
            return RequeueAfter(min(since + TIMEOUT - now, TIMEOUT))  # `since` may be in the future, if clocks differ
        yield Because(f"resets the condition DisruptionTarget: was not deleted within {TIMEOUT:.0f} s")
        put = update(PODS, {**pod, "status": status_without_target(pod, now=now)}, subresource="status")
        outcome = yield from must(put, but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("Reset stale DisruptionTarget condition to False", v=2, pod=key)
        return None
