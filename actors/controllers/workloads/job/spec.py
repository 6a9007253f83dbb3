"""ControllerSpec of the Job controller: its queues and watches.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (NewController, addJob, updateJob, addPod, updatePod,
deletePod).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.workloads.job.fields import FINALIZER
from kcm.actors.controllers.workloads.job.gang import GATE, GROUPS_BY_WORKLOAD, WORKLOADS_BY_JOB, Gangs
from kcm.actors.controllers.workloads.job.metrics import JobMetrics
from kcm.actors.controllers.workloads.job.options import JobOptions
from kcm.actors.controllers.workloads.job.orphans import Orphan, OrphanReconciler, left_behind, orphaned
from kcm.actors.controllers.workloads.job.reconciler import JobReconciler
from kcm.actors.options import Options
from kcm.actors.reconciliation import ORPHANS, Change, Interest, Reconciliation, Watch, its_controller, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Queue
from kcm.protocols.jobs import job_facts
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, is_deleting, key_of, labels_of, uid_of
from kcm.protocols.resources import JOBS, POD_GROUPS, PODS, WORKLOADS
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.tables.tables import Tables


def matching_jobs(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the Jobs whose selector matches a new, released or relabelled pod without a controller."""
    if change.controller is not None or change.deleted:
        return
    pod, old = change.new, change.old
    labels = labels_of(pod)
    if is_deleting(pod):
        return
    if old is not None and uid_of(old) == uid_of(pod):
        if change.previous_controller is None and labels_of(old) == labels:
            return
    for job in tables[JOBS].objects(change.namespace):
        try:
            selector = label_selector_of((job.get("spec") or {}).get("selector"))
        except ValueError:
            continue  # the sync of that Job reports the error
        if not selector.empty and selector.matches(labels):
            yield key_of(job)


QUEUE = "job"
BATCH_PERIOD = 1.0  # seconds; upstream's syncJobBatchPeriod
# Changes by users are synced immediately. Changes of pods and of the status are batched for BATCH_PERIOD.
WATCHES = (
    Watch(JOBS, to=itself, interest=Interest(changed=("generation",))),
    Watch(JOBS, to=itself, interest=Interest(types=(EventType.MODIFIED,)), delay=BATCH_PERIOD),
    # The sync that creates a pod also counts it.
    Watch(
        PODS,
        to=its_controller(JOBS),
        interest=Interest(owner_kinds=(JOBS.kind,), own_writes=False),
        delay=BATCH_PERIOD,
    ),
    Watch(
        PODS,
        to=matching_jobs,
        interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",)),
        delay=BATCH_PERIOD,
    ),
)
API_BACKOFF = Backoff(first=1.0, most=60.0)


class Jobs(NamedTuple):
    """The reconcilers behind the two queues of the controller."""

    jobs: JobReconciler
    orphans: OrphanReconciler

    def reconcile(self, key: Key) -> Reconciliation:
        return self.jobs.reconcile(key)

    def release(self, orphan: Orphan) -> Reconciliation:
        return self.orphans.reconcile(orphan)


def build(context: ControllerContext) -> Jobs:
    jobs = JobReconciler(
        tables=context.tables,
        clock=context.clock,
        metrics=JobMetrics(context.metrics),
        log=context.log,
        clears_start_time=context.options.feature_gates["MutableSchedulingDirectivesForSuspendedJobs"],
        gangs=Gangs(tables=context.tables, log=context.log) if context.options.feature_gates[GATE] else None,
    )
    return Jobs(jobs, OrphanReconciler(tables=context.tables))


def _with_gate(spec: ControllerSpec, options: Options) -> ControllerSpec:
    """Declare Workloads and PodGroups as read if the feature gate is enabled.

    Otherwise the server may not serve them.
    """
    if not options.feature_gates[GATE]:
        return spec
    return replace(spec, reads=(WORKLOADS, POD_GROUPS), indexes=(WORKLOADS_BY_JOB, GROUPS_BY_WORKLOAD))


def _workers(options: Options) -> int:
    return options[JobOptions].concurrent_syncs


SPEC = ControllerSpec(
    name="job-controller",
    aliases=("job",),
    never_blocks=True,
    client="job-controller",
    component="job-controller",
    queues=(
        Queue(
            QUEUE,
            watches=WATCHES,
            concurrency=_workers,
            terminal=(),
            backoff=API_BACKOFF,
            retry_qps=-1.0,
        ),
        Queue(
            "job_orphan_pod",
            watches=(
                Watch(PODS, to=orphaned, interest=Interest(finalizers=(FINALIZER,), owner_kinds=(ORPHANS,))),
                Watch(
                    PODS,
                    to=orphaned,
                    interest=Interest(finalizers=(FINALIZER,), changed=("deleting",), filled=("deleting",)),
                ),
                Watch(JOBS, to=left_behind, interest=Interest(changed=("finished",))),
            ),
            reconcile=Jobs.release,
            concurrency=_workers,
            terminal=(),
            backoff=API_BACKOFF,
            retry_qps=-1.0,
        ),
    ),
    facts=(Facts(JOBS, job_facts),),
    build=build,
    adapted=_with_gate,
    options=JobOptions,
    checks=(at_least_one("concurrent-job-syncs", lambda options: options[JobOptions].concurrent_syncs),),
)
