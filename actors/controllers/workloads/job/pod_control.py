"""Creation and deletion of a Job's pods.

Source: kubernetes v1.36 pkg/controller/job (manageJob, deleteJobPods, addCompletionIndexEnvVariables,
podGenerateNameWithIndex, addIndexFailureCountAnnotation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.shared.generated_names import generated_names
from kcm.actors.controllers.shared.pod_control import PodForm, create_each, delete_pods, fetch_existing
from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX, JobSpec
from kcm.actors.controllers.workloads.job.finalizers import track, untrack
from kcm.actors.controllers.workloads.job.metrics import PODS_ARE_CREATED, PODS_ARE_DELETED, JobMetrics
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.plan import PodPlan
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import failure_verdict
from kcm.actors.controllers.workloads.job.sync import LOOK_AGAIN, Managed, Sync
from kcm.actors.reconciliation import Step, together
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, NotFound, Refused, Unknown
from kcm.protocols.objects import Key, Object, make_key, name_of, split_key
from kcm.protocols.resources import JOBS
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


ENV = "JOB_COMPLETION_INDEX"
LONGEST_BASE = 58  # of a generated name
NewPod = tuple[PodForm, str]  # and its name


def plain_pods(
    job: Object, spec: JobSpec, count: int, *, again: Sequence[str], taken: Callable[[Key], bool]
) -> list[NewPod]:
    """again: names to take first."""
    form = PodForm(_tracked(spec.template), owner=job, owners=JOBS)
    names = list(dict.fromkeys([*again, *generated_names(job, count, taken=taken)]))
    return [(form, name) for name in names[:count]]


def indexed_pods(
    job: Object,
    spec: JobSpec,
    indexes: Sequence[int],
    *,
    again: Mapping[int, str],
    replaced: Callable[[int], JobPod | None],
    taken: Callable[[Key], bool],
    pod_group: str = "",
) -> list[NewPod]:
    """again: names to take, by index. replaced: the failed pod of an index that this one takes the place of.
    pod_group: the PodGroup that they are scheduled with; empty for none.
    """
    template = _tracked(spec.template)
    template["spec"] = _with_index_in_env(template.get("spec") or {})
    if pod_group:
        template["spec"]["schedulingGroup"] = {"podGroupName": pod_group}
    made = []
    for index in indexes:
        counts = {} if spec.limit_per_index is None else failure_counts(spec, replaced(index))
        base = base_name(name_of(job), index)
        form = PodForm(_indexed(template, name_of(job), index, counts), owner=job, owners=JOBS, base=base)
        name = again.get(index) or generated_names(job, 1, taken=taken, base=base)[0]
        made.append((form, name))
    return made


def base_name(job: str, index: int) -> str:
    """What the name of a pod with this index begins with."""
    end = f"-{index}-"
    return f"{job[: LONGEST_BASE - len(end)]}{end}"


def failure_counts(spec: JobSpec, replaced: JobPod | None) -> dict[str, str]:
    """Annotations: how often an index has failed before."""
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted, ignored = replaced.failures, replaced.ignored_failures
    if failure_verdict(spec.failure_rules, replaced.object).counts:
        counted += 1
    else:
        ignored += 1
    return {FAILURE_COUNT: str(counted)} | ({IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _tracked(template: Object) -> Object:
    meta = template.get("metadata") or {}
    finalizers = list(meta.get("finalizers") or ())
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    return {**template, "metadata": {**meta, "finalizers": finalizers}}


def _indexed(template: Object, job: str, index: int, counts: dict[str, str]) -> Object:
    meta = template["metadata"]
    number = {INDEX: str(index)}
    meta = {
        **meta,
        "labels": {**(meta.get("labels") or {}), **number},
        "annotations": {**(meta.get("annotations") or {}), **number, **counts},
    }
    return {**template, "metadata": meta, "spec": {**template["spec"], "hostname": f"{job}-{index}"}}


def _with_index_in_env(spec: Object) -> Object:
    changed = {name: list(map(_knowing, spec[name])) for name in ("initContainers", "containers") if spec.get(name)}
    return {**spec, **changed}


def _knowing(container: Any) -> Any:
    """The container with its index in its environment, unless something else is called so."""
    env = container.get("env") or []
    if any(one.get("name") == ENV for one in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": ENV, "valueFrom": source}]}


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
