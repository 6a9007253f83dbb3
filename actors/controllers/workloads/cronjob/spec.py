"""ControllerSpec of the CronJob controller, its flags and its metric."""

from __future__ import annotations

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.workloads.cronjob.reconciler import CronJobReconciler
from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import Interest, Watch, its_controller, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Queue
from kcm.protocols.jobs import job_facts
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.runtime.flags.declaration import flag
from kcm.runtime.metrics.registry import Family
from kcm.runtime.scheduling.time_zones import local_zone

CREATION_SKEW = Family(
    name="cronjob_controller_job_creation_skew_duration_seconds",
    kind="histogram",
    help="Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
    buckets=tuple(float(2**power) for power in range(10)),
    stability="STABLE",
)


class CronJobOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "CronJobController"

    concurrent_syncs: int = flag(
        5,
        "Number of CronJobs that are synced concurrently.",
        name="concurrent-cron-job-syncs",
        config="ConcurrentCronJobSyncs",
    )


def _build(context: ControllerContext) -> CronJobReconciler:
    skew = context.metrics.histogram(CREATION_SKEW)
    return CronJobReconciler(tables=context.tables, clock=context.clock, local=local_zone(), created=skew.observe)


# A sync does all that follows its writes, and reads nothing of a Job's status before it is finished. Upstream syncs on
# each change.
OF_CRON_JOBS = Interest(owner_kinds=(CRONJOBS.kind,), changed=("generation", "finished"), own_writes=False)
SPEC = ControllerSpec(
    name="cronjob-controller",
    aliases=("cronjob",),
    never_blocks=True,
    queues=(
        Queue(
            "cronjob",
            watches=(
                Watch(CRONJOBS, to=itself, interest=Interest(own_writes=False)),
                Watch(JOBS, to=its_controller(CRONJOBS), interest=OF_CRON_JOBS),
            ),
            concurrency=lambda options: options[CronJobOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    facts=(Facts(JOBS, job_facts),),
    build=_build,
    options=CronJobOptions,
    checks=(at_least_one("concurrent-cron-job-syncs", lambda options: options[CronJobOptions].concurrent_syncs),),
)
