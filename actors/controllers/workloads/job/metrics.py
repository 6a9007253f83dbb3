"""Metrics of the Job controller. Source: kubernetes v1.36 pkg/controller/job/metrics/metrics.go."""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.controllers.workloads.job.fields import JobSpec
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.status import COMPLETE, Tally
from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.metrics.registry import Family, Metrics

_SUBSYSTEM = "job_controller_"
_SYNC_LABELS = ("completion_mode", "result", "action")

SYNC_DURATION = Family(
    name=f"{_SUBSYSTEM}job_sync_duration_seconds",
    kind="histogram",
    help="The time it took to sync a job",
    labels=_SYNC_LABELS,
    buckets=tuple(0.004 * 2**power for power in range(15)),
    stability="STABLE",
)
SYNCS = Family(
    name=f"{_SUBSYSTEM}job_syncs_total",
    kind="counter",
    help="The number of job syncs",
    labels=_SYNC_LABELS,
    stability="STABLE",
)
FINISHED = Family(
    name=f"{_SUBSYSTEM}jobs_finished_total",
    kind="counter",
    help="The number of finished jobs",
    labels=("completion_mode", "result", "reason"),
    stability="STABLE",
)
BY_EXTERNAL_CONTROLLER = Family(
    name=f"{_SUBSYSTEM}jobs_by_external_controller_total",
    kind="counter",
    help="The number of Jobs managed by an external controller",
    labels=("controller_name",),
)
PODS_FINISHED = Family(
    name=f"{_SUBSYSTEM}job_pods_finished_total",
    kind="counter",
    help="The number of finished Pods that are fully tracked",
    labels=("completion_mode", "result"),
    stability="STABLE",
)
FAILURES_BY_POLICY = Family(
    name=f"{_SUBSYSTEM}pod_failures_handled_by_failure_policy_total",
    kind="counter",
    help="The number of failed Pods handled by failure policy with respect to the failure policy action "
    "applied based on the matched rule. Possible values of the action label correspond to the "
    'possible values for the failure policy rule action, which are: "FailJob", "Ignore" and "Count".',
    labels=("action",),
    stability="BETA",
)
TRACKED_FINISHED = Family(
    name=f"{_SUBSYSTEM}terminated_pods_tracking_finalizer_total",
    kind="counter",
    help="The number of terminated pods (phase=Failed|Succeeded) that have the finalizer "
    'batch.kubernetes.io/job-tracking The event label can be "add" or "delete".',
    labels=("event",),
    stability="BETA",
)
FINISHED_INDEXES = Family(
    name=f"{_SUBSYSTEM}job_finished_indexes_total",
    kind="counter",
    help="The number of finished indexes. Possible values for the\n\t\t\t"
    'status label are: "succeeded", "failed". Possible values for the\n\t\t\t'
    'backoffLimit label are: "perIndex" and "global"',
    labels=("status", "backoffLimit"),
)
PODS_CREATED = Family(
    name=f"{_SUBSYSTEM}job_pods_creation_total",
    kind="counter",
    help="The number of Pods created by the Job controller labelled with a reason for the Pod creation.\n"
    "This metric also distinguishes between Pods created using different PodReplacementPolicy "
    "settings.\n"
    'Possible values of the "reason" label are:\n'
    '"new", "recreate_terminating_or_failed", "recreate_failed".\n'
    'Possible values of the "status" label are:\n'
    '"succeeded", "failed".',
    labels=("reason", "status"),
)
STALE_SKIPS = Family(  # equal to that in STALE_SYNC_SKIPS, which is not imported because --help need not load it
    name=f"{_SUBSYSTEM}stale_sync_skips_total",
    kind="counter",
    help="Total number of Job syncs skipped due to a stale watch cache.",
    labels=("group", "resource"),
)

RECONCILING, TRACKING, PODS_ARE_CREATED, PODS_ARE_DELETED = "reconciling", "tracking", "pods_created", "pods_deleted"
SUCCEEDED, FAILED = "succeeded", "failed"
NEW, RECREATE, RECREATE_FAILED = "new", "recreate_terminating_or_failed", "recreate_failed"


class JobMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def synced(self, spec_mode: str, *, succeeded: bool, action: str, seconds: float) -> None:
        labels = (spec_mode, "success" if succeeded else "error", action)
        self._metrics.histogram(SYNC_DURATION, *labels).observe(seconds)
        self._metrics.counter(SYNCS, *labels).inc()

    def managed_elsewhere(self, manager: str) -> None:
        self._metrics.counter(BY_EXTERNAL_CONTROLLER, manager).inc()

    def finished(self, mode: str, end: Object) -> None:
        result = SUCCEEDED if end["type"] == COMPLETE else FAILED
        self._metrics.counter(FINISHED, mode, result, end.get("reason") or "").inc()

    def created(self, job: Observed, *, succeeded: int, failed: int) -> None:
        reason = NEW
        if job.spec.replaces_failed and job.failed > 0:
            reason = RECREATE_FAILED
        elif job.failed > 0 or job.terminating > 0:
            reason = RECREATE
        for status, count in ((SUCCEEDED, succeeded), (FAILED, failed)):
            if count:
                self._metrics.counter(PODS_CREATED, reason, status).inc(count)

    def counted(self, spec: JobSpec, before: Tally, after: Tally) -> None:
        """Increment the counters of finished pods and indexes after a status update.

        Series are created with the value 0, so that rate() includes the first increase.
        """
        succeeded = after.succeeded - before.succeeded
        if spec.is_indexed:
            limit = "global" if spec.limit_per_index is None else "perIndex"
            succeeded = _total(spec, after.completed_indexes) - _total(spec, before.completed_indexes)
            failed = _total(spec, after.failed_indexes) - _total(spec, before.failed_indexes)
            self._metrics.counter(FINISHED_INDEXES, SUCCEEDED, limit).inc(max(0, succeeded))
            if failed > 0:
                self._metrics.counter(FINISHED_INDEXES, FAILED, limit).inc(failed)
        for result, count in ((SUCCEEDED, succeeded), (FAILED, after.failed - before.failed)):
            self._metrics.counter(PODS_FINISHED, spec.mode, result).inc(max(0, count))

    def failures_handled(self, by_action: Mapping[str, int]) -> None:
        for action, count in by_action.items():
            self._metrics.counter(FAILURES_BY_POLICY, action).inc(count)

    def tracked_finished(self, *, added: int, removed: int) -> None:
        for event, count in (("add", added), ("delete", removed)):
            if count:
                self._metrics.counter(TRACKED_FINISHED, event).inc(count)

    def stale(self, resource: Resource) -> None:
        self._metrics.counter(STALE_SKIPS, resource.group, resource.plural).inc()


def _total(spec: JobSpec, indexes: str | None) -> int:
    return Indexes.parse(indexes or "", completions=spec.completions or 0).total
