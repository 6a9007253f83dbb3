"""Pods of a Job that are created, and those that are too many and removed.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (manageJob, deleteJobPods).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.shared.pod_control import create_each, delete_pods, fetch_existing
from kcm.actors.controllers.workloads.job.forms import NewPod, indexed_pods, plain_pods
from kcm.actors.controllers.workloads.job.managing import PodPlan
from kcm.actors.controllers.workloads.job.metrics import PODS_ARE_CREATED, PODS_ARE_DELETED, JobMetrics
from kcm.actors.controllers.workloads.job.observing import Observed
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.syncs import LOOK_AGAIN, Managed, Sync
from kcm.actors.controllers.workloads.job.writing import track, untrack
from kcm.actors.reconciliation import Step, together
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, NotFound, Refused, Unknown
from kcm.protocols.objects import Key, make_key, split_key
from kcm.protocols.resources import JOBS
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class _NewPods(NamedTuple):
    """indexes: by the pod's name, where pods have some."""

    pods: list[NewPod]
    indexes: Mapping[str, int]


class PodActions:
    def __init__(self, *, pods: Lister, metrics: JobMetrics, log: FilteringBoundLogger) -> None:
        self._pods, self._metrics, self._log = pods, metrics, log

    def manage(self, sync: Sync, job: Observed, plan: PodPlan) -> Step[Managed]:
        if plan.remove or job.spec.is_suspended:
            return (yield from self._remove(sync, plan.remove))
        sync.memory.doomed.clear()
        lost = [pod.entry for pod in job.active if not pod.is_tracked]
        outcomes = yield from together([track(entry) for entry in lost])
        for entry, outcome in zip(lost, outcomes, strict=True):
            if not isinstance(outcome, Done | NotFound | Conflict):
                raise CommandError(track(entry), outcome)
        if plan.create:
            return (yield from self._create(sync, job, plan))
        if plan.wait is not None:
            return Managed(PODS_ARE_CREATED, wait=max(plan.wait, LOOK_AGAIN))
        return Managed()

    def _remove(self, sync: Sync, pods: Sequence[JobPod]) -> Step[Managed]:
        """Their finalizer goes first: they are not counted."""
        untracked = [pod.entry for pod in pods if not pod.is_tracked]
        tracked = [pod.entry for pod in pods if pod.is_tracked]
        commands = [untrack(entry, unchanged=True) for entry in tracked]
        outcomes = yield from together(commands)
        failure: CommandError | None = None
        wait: float | None = None
        for entry, command, outcome in zip(tracked, commands, outcomes, strict=True):
            if isinstance(outcome, Done):
                untracked.append(entry)
            elif isinstance(outcome, Conflict):
                wait = LOOK_AGAIN
            elif not isinstance(outcome, NotFound):
                if isinstance(outcome, Unknown):
                    sync.memory.doomed.add(entry.uid)
                if failure is None:
                    failure = CommandError(command, outcome)
        gone = yield from delete_pods(untracked, owner=sync.job, owners=JOBS)
        sync.memory.doomed.update(gone.maybe_deleted)
        sync.memory.doomed.difference_update(gone.known)
        if gone.deleted:
            self._log.info("pods deleted", key=sync.entry.key, count=len(gone.deleted))
        if gone.conflicting:
            wait = LOOK_AGAIN
        return Managed(PODS_ARE_DELETED, failure or gone.failure, wait)

    def _create(self, sync: Sync, job: Observed, plan: PodPlan) -> Step[Managed]:
        new = self._new_pods(sync, job, plan)
        made = yield from create_each(new.pods, owner=sync.job, owners=JOBS)
        if made.created:
            self._log.info("pods created", key=sync.entry.key, count=len(made.created))
        self._metrics.created(job, made=len(made.created), failed=made.failed)
        yield from fetch_existing(made)  # so that the next sync counts them or takes other names
        sync.memory.unsure = {name: new.indexes.get(name) for name in made.maybe_created}
        if made.failure is not None and (made.maybe_created or isinstance(made.failure.failure, Refused)):
            # A status write would change the resourceVersion that the names derive from, and so the retry's names.
            sync.action = PODS_ARE_CREATED
            raise made.failure
        return Managed(PODS_ARE_CREATED, made.failure, LOOK_AGAIN if made.existing else None)

    def _new_pods(self, sync: Sync, job: Observed, plan: PodPlan) -> _NewPods:
        """Those whose creation may have succeeded unseen first."""
        namespace, _ = split_key(sync.entry.key)

        def taken(pod: Key) -> bool:
            return self._pods.entry(pod) is not None

        again = {name: i for name, i in sync.memory.unsure.items() if not taken(make_key(namespace, name))}
        if not job.spec.is_indexed:
            pods = plain_pods(sync.job, job.spec, plan.create, again=list(again), taken=taken)
            return _NewPods(pods, {})
        names = {index: name for name, index in again.items() if index is not None}
        pods = indexed_pods(
            sync.job,
            job.spec,
            plan.indexes,
            again=names,
            replaced=job.kept.get,
            taken=taken,
            pod_group=sync.pod_group,
        )
        return _NewPods(pods, {name: i for (_, name), i in zip(pods, plan.indexes, strict=True)})
