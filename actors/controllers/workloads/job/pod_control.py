"""Creates and deletes the pods of a Job.

Source: kubernetes v1.36 pkg/controller/job (manageJob, deleteJobPods, addCompletionIndexEnvVariables,
podGenerateNameWithIndex, addIndexFailureCountAnnotation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.generated_names import generated_names
from kcm.actors.controllers.shared.pod_control import PodForm, create_each, delete_pods, fetch_existing
from kcm.actors.controllers.shared.unknown_outcomes import RETRY_DELAY, raise_if_unknown
from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX, JobSpec
from kcm.actors.controllers.workloads.job.finalizers import track, untrack
from kcm.actors.controllers.workloads.job.metrics import PODS_ARE_CREATED, PODS_ARE_DELETED, JobMetrics
from kcm.actors.controllers.workloads.job.observed import Observed
from kcm.actors.controllers.workloads.job.plan import JobPodPlan
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import match_failure_policy
from kcm.actors.controllers.workloads.job.sync import Managed, Sync
from kcm.actors.reconciliation import Step, together
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Unknown
from kcm.protocols.objects import Key, Object, name_of, split_key
from kcm.protocols.resources import JOBS
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


ENV = "JOB_COMPLETION_INDEX"
MAX_BASE = 58  # characters of generateName, so that the random suffix fits
NewPod = tuple[PodForm, str]  # and its name


def plain_pods(
    job: Object, spec: JobSpec, count: int, *, retried: Sequence[str], taken: Callable[[Key], bool]
) -> list[NewPod]:
    """Return `count` pods to create for a Job that is not Indexed.

    retried: names with unknown outcome, which are used before new names.
    taken: reports whether a pod with this key exists.
    """
    form = PodForm(_with_finalizer(spec.template), owner=job, owner_resource=JOBS)
    names = list(dict.fromkeys([*retried, *generated_names(job, count, taken=taken)]))
    return [(form, name) for name in names[:count]]


def indexed_pods(
    job: Object,
    spec: JobSpec,
    indexes: Sequence[int],
    *,
    retried: Mapping[int, str],
    replaced: Callable[[int], JobPod | None],
    taken: Callable[[Key], bool],
    pod_group: str = "",
) -> list[NewPod]:
    """Return one pod to create for each completion index.

    retried: names with unknown outcome, by index; used instead of new names.
    replaced: returns the failed pod that the new pod of an index replaces, or None.
    taken: reports whether a pod with this key exists.
    pod_group: name of the PodGroup in which the pods are scheduled; "" without gang scheduling.
    """
    template = _with_finalizer(spec.template)
    template["spec"] = _with_index_in_env(template.get("spec") or {})
    if pod_group:
        template["spec"]["schedulingGroup"] = {"podGroupName": pod_group}
    pods = []
    for index in indexes:
        counts = {} if spec.limit_per_index is None else failure_counts(spec, replaced(index))
        base = base_name(name_of(job), index)
        form = PodForm(_with_index(template, name_of(job), index, counts), owner=job, owner_resource=JOBS, base=base)
        name = retried.get(index) or generated_names(job, 1, taken=taken, base=base)[0]
        pods.append((form, name))
    return pods


def base_name(job: str, index: int) -> str:
    """Return the generateName of pods with this completion index. Source: podGenerateNameWithIndex."""
    suffix = f"-{index}-"
    return f"{job[: MAX_BASE - len(suffix)]}{suffix}"


def failure_counts(spec: JobSpec, replaced: JobPod | None) -> dict[str, str]:
    """Return the annotations with the failure counts of an index. Source: addIndexFailureCountAnnotation.

    replaced: the failed pod that the new pod of the index replaces; None if there is none.
    """
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted, ignored = replaced.failures, replaced.ignored_failures
    if match_failure_policy(spec.failure_rules, replaced.object).counts:
        counted += 1
    else:
        ignored += 1
    return {FAILURE_COUNT: str(counted)} | ({IGNORED_FAILURE_COUNT: str(ignored)} if ignored else {})


def _with_finalizer(template: Object) -> Object:
    meta = template.get("metadata") or {}
    finalizers = list(meta.get("finalizers") or ())
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    return {**template, "metadata": {**meta, "finalizers": finalizers}}


def _with_index(template: Object, job: str, index: int, counts: dict[str, str]) -> Object:
    meta = template["metadata"]
    number = {INDEX: str(index)}
    meta = {
        **meta,
        "labels": {**(meta.get("labels") or {}), **number},
        "annotations": {**(meta.get("annotations") or {}), **number, **counts},
    }
    return {**template, "metadata": meta, "spec": {**template["spec"], "hostname": f"{job}-{index}"}}


def _with_index_in_env(spec: Object) -> Object:
    """Return the pod spec with the environment variable JOB_COMPLETION_INDEX in each container.

    Source: addCompletionIndexEnvVariables.
    """
    lists = ("initContainers", "containers")
    return {**spec, **{name: list(map(_container_with_index, spec[name])) for name in lists if spec.get(name)}}


def _container_with_index(container: Any) -> Any:
    env = container.get("env") or []
    if any(variable.get("name") == ENV for variable in env):
        return container  # a variable of the user has precedence
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": ENV, "valueFrom": source}]}


class JobPodControl:
    """Creates and deletes the pods of a Job."""

    def __init__(self, *, pods: Lister, metrics: JobMetrics, log: FilteringBoundLogger) -> None:
        self._pods, self._metrics, self._log = pods, metrics, log

    def manage(self, sync: Sync, job: Observed, plan: JobPodPlan) -> Step[Managed]:
        """Create or delete pods according to the plan, and add missing finalizers to active pods. Source: manageJob."""
        if plan.delete or job.spec.is_suspended:
            return (yield from self._delete(sync, plan.delete))
        sync.memory.unknown.maybe_deleted.clear()
        untracked = [pod.entry for pod in job.active if not pod.is_tracked]
        outcomes = yield from together([track(entry) for entry in untracked])
        for entry, outcome in zip(untracked, outcomes, strict=True):
            if not isinstance(outcome, Done | NotFound | Conflict):
                raise CommandError(track(entry), outcome)
        if plan.create:
            return (yield from self._create(sync, job, plan))
        if plan.delay is not None:
            return Managed(PODS_ARE_CREATED, delay=max(plan.delay, RETRY_DELAY))
        return Managed()

    def _delete(self, sync: Sync, pods: Sequence[JobPod]) -> Step[Managed]:
        """Remove the finalizer of these pods and delete them. Without the finalizer they are not counted.

        Source: deleteJobPods.
        """
        untracked = [pod.entry for pod in pods if not pod.is_tracked]
        tracked = [pod.entry for pod in pods if pod.is_tracked]
        # A pod that changed since it was read may have succeeded: it keeps the finalizer, and the next sync counts it.
        commands = [untrack(entry, unchanged=True) for entry in tracked]
        outcomes = yield from together(commands)
        failure: CommandError | None = None
        delay: float | None = None
        for entry, command, outcome in zip(tracked, commands, outcomes, strict=True):
            if isinstance(outcome, Done):
                untracked.append(entry)
            elif isinstance(outcome, Conflict):
                delay = RETRY_DELAY
            elif not isinstance(outcome, NotFound):
                if isinstance(outcome, Unknown):
                    sync.memory.unknown.maybe_deleted.add(entry.uid)
                if failure is None:
                    failure = CommandError(command, outcome)
        deletions = yield from delete_pods(untracked, owner=sync.job, owner_resource=JOBS)
        sync.memory.unknown.record_deletions(deletions)
        if deletions.deleted:
            self._log.info("pods deleted", key=sync.entry.key, count=len(deletions.deleted))
        if deletions.conflicting:
            delay = RETRY_DELAY
        return Managed(PODS_ARE_DELETED, failure or deletions.failure, delay)

    def _create(self, sync: Sync, job: Observed, plan: JobPodPlan) -> Step[Managed]:
        pods, indexes = self._new_pods(sync, job, plan)
        creations = yield from create_each(pods, owner=sync.job, owner_resource=JOBS)
        if creations.created:
            self._log.info("pods created", key=sync.entry.key, count=len(creations.created))
        self._metrics.created(job, succeeded=len(creations.created), failed=creations.failed)
        sync.memory.unknown.record_creations(creations, (yield from fetch_existing(creations)), indexes)
        sync.action = PODS_ARE_CREATED
        raise_if_unknown(creations)  # before the status is written
        return Managed(PODS_ARE_CREATED, creations.failure, RETRY_DELAY if creations.existing else None)

    def _new_pods(self, sync: Sync, job: Observed, plan: JobPodPlan) -> tuple[list[NewPod], Mapping[str, int]]:
        """Return the pods to create. For an Indexed Job, also return their completion indexes by pod name."""

        def taken(pod: Key) -> bool:
            return self._pods.entry(pod) is not None

        namespace, _ = split_key(sync.entry.key)
        retried = sync.memory.unknown.names_to_retry(namespace, taken=taken)
        if not job.spec.is_indexed:
            return plain_pods(sync.job, job.spec, plan.create, retried=list(retried), taken=taken), {}
        pods = indexed_pods(
            sync.job,
            job.spec,
            plan.indexes,
            retried={index: name for name, index in retried.items() if index is not None},
            replaced=job.delayed_deletion.get,
            taken=taken,
            pod_group=sync.pod_group,
        )
        return pods, {name: index for (_, name), index in zip(pods, plan.indexes, strict=True)}
