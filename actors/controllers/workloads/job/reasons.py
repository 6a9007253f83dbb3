"""Reason of a decision about a Job, in one line."""

from __future__ import annotations

from kcm.actors.controllers.workloads.job.finalizers import StatusUpdate
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.plan import JobPodPlan
from kcm.protocols.integers import counted
from kcm.protocols.times import describe_time


def reason_of(job: Observed, plan: JobPodPlan, update: StatusUpdate) -> str:
    """Return why a sync creates, deletes or awaits pods, or finishes the Job; "" if it only awaits running pods."""
    spec, finished = job.spec, update.finished
    if finished is not None:
        return f"finishes: {finished['type']}, {finished['reason']}: {finished['message']}; has {_counts(job)}"
    if job.is_deleting:
        return f"is being deleted: removes the finalizers of its pods; has {_counts(job)}"
    if spec.is_suspended:
        return f"is suspended: deletes {counted(len(plan.delete), 'active pod')}" if plan.delete else "is suspended"
    wanted = "any" if spec.completions is None else str(spec.completions)
    goal = f"parallelism {spec.parallelism}, completions {wanted}"
    if plan.delete:
        return f"deletes {counted(len(plan.delete), 'surplus pod')}: has {_counts(job)}; {goal}"
    if plan.create:
        return f"creates {counted(plan.create, 'pod')}: has {_counts(job)}; {goal}"
    if plan.delay is not None:
        return f"creates pods in {plan.delay:.0f} s (backoff): has {_counts(job)}; backoffLimit {spec.backoff_limit}"
    if job.terminating and spec.only_failed:
        return f"replaces pods only when they have ended: {job.terminating} are terminating; has {_counts(job)}"
    if spec.deadline is not None and update.started is not None:
        return f"has {_counts(job)}; activeDeadlineSeconds passes at {describe_time(update.started + spec.deadline)}"
    return ""


def _counts(job: Observed) -> str:
    return f"{len(job.active)} active, {job.succeeded} succeeded and {job.failed} failed pods"
