"""The pods that a Job creates.

Source: kubernetes v1.36 pkg/controller/job (manageJob, addCompletionIndexEnvVariables, podGenerateNameWithIndex,
addIndexFailureCountAnnotation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.shared.generated_names import generated_names
from kcm.actors.controllers.shared.pod_control import PodForm
from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX, JobSpec
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.controllers.workloads.job.policies import failure_verdict
from kcm.protocols.objects import Key, Object, name_of
from kcm.protocols.resources import JOBS

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
