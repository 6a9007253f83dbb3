"""Workload and PodGroup of a Job whose pods are scheduled together (feature gate WorkloadWithJob).

An Indexed Job with equal completions and parallelism, at least 2, gets a Workload with a gang of that size, and a
PodGroup that its pods refer to. Existing objects that refer to the Job are used if the Job controls them. If the Job
does not control them, or if it had started before without a Workload, its pods are scheduled individually.

Source: kubernetes v1.36 pkg/controller/job/job_scheduling_manager.go. Difference: if a creation fails with
AlreadyExists, it is retried in the next sync, when the table contains the object, instead of at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.workloads.job.fields import JobSpec, status_of
from kcm.actors.controllers.workloads.job.status import SUSPENDED
from kcm.actors.reconciliation import Step, controlled_by, create, must_object, own, record
from kcm.actors.reconciliation.specs import Index
from kcm.protocols.conditions import find_condition
from kcm.protocols.fnv import fnv1a_32
from kcm.protocols.hashing import safe_encode
from kcm.protocols.objects import Object, key_of, make_key, name_of, namespace_of, uid_of
from kcm.protocols.resources import JOBS, POD_GROUPS, WORKLOADS, Resource
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GATE = "WorkloadWithJob"
MAX_NAME = 253  # characters


def _job_of(workload: Object) -> Iterable[str]:
    reference = (workload.get("spec") or {}).get("controllerRef") or {}
    if reference.get("apiGroup") == JOBS.group and reference.get("kind") == JOBS.kind and reference.get("name"):
        yield make_key(namespace_of(workload), reference["name"])


def _workload_of(group: Object) -> Iterable[str]:
    reference = (group.get("spec") or {}).get("podGroupTemplateRef") or {}
    name = (reference.get("workload") or {}).get("workloadName")
    if name:
        yield make_key(namespace_of(group), name)


WORKLOADS_BY_JOB = Index(WORKLOADS, "job", _job_of)  # by "namespace/name" of the Job
GROUPS_BY_WORKLOAD = Index(POD_GROUPS, "workload", _workload_of)


def is_candidate(spec: JobSpec) -> bool:
    """Report whether the Job qualifies for gang scheduling. Source: IsGangSchedulingCandidate."""
    return (
        spec.is_indexed
        and spec.parallelism > 1
        and spec.completions == spec.parallelism
        and (spec.template.get("spec") or {}).get("schedulingGroup") is None
    )


def is_new(job: Object, *, has_pods: bool) -> bool:
    """Report whether a Job has never started. A Workload is only created for such a Job. Source: isNewJob."""
    status = status_of(job)
    has_run = status.get("startTime") is not None or status.get("succeeded") or status.get("failed")
    return not has_pods and not has_run and find_condition(status.get("conditions"), SUSPENDED) is None


def workload_name(job: Object) -> str:
    """Return `<job>-<hash>`, with the Job's name truncated if necessary. Source: computeWorkloadName."""
    hash = _encoded(f"(types.UID){uid_of(job)}")
    return f"{name_of(job)[: MAX_NAME - len(hash) - 1]}-{hash}"


def pod_group_name(workload: str, template: str) -> str:
    """Return `<workload>-<template>-<hash>`, with both names truncated if necessary. Source: computePodGroupName."""
    hash = _encoded(workload + template)
    limit = MAX_NAME - len(hash) - 2
    if len(workload) + len(template) > limit:
        half = limit // 2
        if len(workload) <= half:
            template = template[: limit - len(workload)]
        elif len(template) <= half:
            workload = workload[: limit - len(template)]
        else:
            workload, template = workload[: limit - half], template[:half]
    return f"{workload}-{template}-{hash}"


def _encoded(text: str) -> str:
    return safe_encode(str(fnv1a_32(text.encode())))


def new_workload(job: Object, spec: JobSpec) -> Object:
    policy = {"gang": {"minCount": spec.parallelism}}
    workload = {
        "metadata": {"name": workload_name(job), "namespace": namespace_of(job)},
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name_of(job)},
            "podGroupTemplates": [{"name": f"{name_of(job)}-pgt-0", "schedulingPolicy": policy}],
        },
    }
    return own(workload, by=job, of=JOBS)


def new_pod_group(job: Object, workload: Mapping[str, Any]) -> Object:
    template = workload["spec"]["podGroupTemplates"][0]
    reference = {"workloadName": name_of(workload), "podGroupTemplateName": template["name"]}
    group = {
        "metadata": {"name": pod_group_name(name_of(workload), template["name"]), "namespace": namespace_of(job)},
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template["schedulingPolicy"],
        },
    }
    owned = own(group, by=job, of=JOBS)
    # This owner reference does not block the deletion of the Workload.
    owned["metadata"]["ownerReferences"].append(
        {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "name": name_of(workload),
            "uid": uid_of(workload),
        }
    )
    return owned


class Gangs:
    """Finds or creates the Workloads and PodGroups of Jobs."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._workloads, self._groups, self._log = tables[WORKLOADS], tables[POD_GROUPS], log

    def pod_group_of(self, job: Object, spec: JobSpec, *, has_pods: bool) -> Step[str]:
        """Return the name of the PodGroup for new pods of this Job, creating missing objects; "" without gang
        scheduling.

        Raises CommandError if a creation fails.
        """
        if not is_candidate(spec):
            return ""
        workload = yield from self._workload(job, spec, has_pods=has_pods)
        if workload is None:
            return ""
        group = yield from self._group(job, workload)
        return "" if group is None else name_of(group)

    def _workload(self, job: Object, spec: JobSpec, *, has_pods: bool) -> Step[Object | None]:
        found = self._workloads.indexed(WORKLOADS_BY_JOB.name, key_of(job))
        if not found:
            if not is_new(job, has_pods=has_pods):
                return None
            made = yield from self._create(WORKLOADS, new_workload(job, spec))
            yield record(
                JOBS,
                job,
                "Normal",
                "WorkloadCreated",
                f"Created Workload {name_of(made)} for Job {name_of(job)}",
            )
            return made
        workload = self._only(found, job, kind=WORKLOADS.kind)
        if workload is not None and len((workload.get("spec") or {}).get("podGroupTemplates") or ()) != 1:
            self._log.debug(
                "Workload has unsupported number of PodGroupTemplates, falling back to default scheduling",
                job=key_of(job),
                workload=key_of(workload),
            )
            return None
        return workload

    def _group(self, job: Object, workload: Object) -> Step[Object | None]:
        found = self._groups.indexed(GROUPS_BY_WORKLOAD.name, key_of(workload))
        if found:
            return self._only(found, job, kind=POD_GROUPS.kind)
        return (yield from self._create(POD_GROUPS, new_pod_group(job, workload)))

    def _only(self, found: Sequence[Object], job: Object, *, kind: str) -> Object | None:
        """Return the object if it is the only one and the Job controls it, else None."""
        if len(found) > 1:
            self._log.error(
                f"found several {kind}s for a Job, falling back to default scheduling",
                job=key_of(job),
                count=len(found),
            )
            return None
        if not controlled_by(found[0], job):
            self._log.debug(
                f"{kind} not owned by this Job, skipping workload integration", job=key_of(job), name=name_of(found[0])
            )
            return None
        return found[0]

    def _create(self, resource: Resource, obj: Object) -> Step[Object]:
        made = yield from must_object(create(resource, obj))
        self._log.info("object created", resource=resource.name, key=key_of(made))
        return made
