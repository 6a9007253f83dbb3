"""Spec and status of a Job, parsed and validated.

Source: kubernetes v1.36 staging/src/k8s.io/api/batch/v1/types.go, pkg/controller/job/util/utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.protocols.field_types import COUNT, FLAG, MAP, NUMBER, TEXT, TIME, CompiledShape, check
from kcm.protocols.jobs import CONDITIONS
from kcm.protocols.objects import Object
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.protocols.times import parse_time

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"  # an annotation of pods, and a label
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"  # annotations
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER = "kubernetes.io/job-controller"  # spec.managedBy of Jobs that this controller manages
NON_INDEXED, INDEXED = "NonIndexed", "Indexed"
NO_LIMIT = 2**31 - 1
BACKOFF_LIMIT = 6  # the default without backoffLimitPerIndex

_ON_EXIT_CODES = {"containerName": TEXT, "operator": TEXT, "values": [NUMBER]}
_FAILURE_RULE = {"action": TEXT, "onExitCodes": _ON_EXIT_CODES, "onPodConditions": [{"type": TEXT, "status": TEXT}]}
_SPEC = {
    "selector": MAP,
    "template": {"metadata": MAP, "spec": {"restartPolicy": TEXT}},
    "completionMode": TEXT,
    "parallelism": COUNT,
    "completions": COUNT,
    "suspend": FLAG,
    "backoffLimit": COUNT,
    "activeDeadlineSeconds": COUNT,
    "backoffLimitPerIndex": COUNT,
    "maxFailedIndexes": COUNT,
    "podReplacementPolicy": TEXT,
    "podFailurePolicy": {"rules": [_FAILURE_RULE]},
    "successPolicy": {"rules": [{"succeededIndexes": TEXT, "succeededCount": COUNT}]},
}
_STATUS = CompiledShape(
    {
        "startTime": TIME,
        "succeeded": COUNT,
        "failed": COUNT,
        "uncountedTerminatedPods": {"succeeded": [TEXT], "failed": [TEXT]},
        "completedIndexes": TEXT,
        "failedIndexes": TEXT,
        "conditions": CONDITIONS,
    }
)
_WITH_SPEC, _WITH_STATUS = CompiledShape({"spec": _SPEC}), CompiledShape({"status": MAP})
_WITH_MANAGER = CompiledShape({"spec": {"managedBy": TEXT}})


class JobSpec(Struct, frozen=True, kw_only=True):
    """Fields of a Job's spec that the controller uses."""

    selector: LabelSelector
    template: Object
    parallelism: int
    completions: int | None  # None if any success completes the Job
    is_indexed: bool
    is_suspended: bool
    backoff_limit: int
    deadline: int | None  # activeDeadlineSeconds
    limit_per_index: int | None  # backoffLimitPerIndex
    max_failed_indexes: int | None
    failure_rules: Sequence[Object] | None  # of podFailurePolicy; None without a policy
    success_rules: Sequence[Object] | None  # of successPolicy; None without a policy
    only_failed: bool  # a pod is replaced once it is Failed, not as soon as it is being deleted
    replaces_failed: bool  # podReplacementPolicy is Failed
    restarts: bool  # restartPolicy is OnFailure: the kubelet restarts failed containers in their pod

    @property
    def mode(self) -> str:
        return INDEXED if self.is_indexed else NON_INDEXED

    def has_index(self, index: int | None) -> bool:
        """Report whether the completion index is below spec.completions.

        True for every pod if the Job is not Indexed.
        """
        return not self.is_indexed or (index is not None and index < (self.completions or 0))


def job_spec(job: Object) -> JobSpec:
    """Parse a Job's spec. Raises ValueError, with the name of the field, if a field is missing or malformed."""
    check(job, _WITH_SPEC)
    spec = job.get("spec") or {}
    template = spec.get("template") or {}
    selector = label_selector_of(spec.get("selector"))
    if selector.empty:
        raise ValueError("spec.selector is empty")  # it would adopt every orphan of its namespace
    is_indexed = spec.get("completionMode") == INDEXED
    completions = spec.get("completions")
    if is_indexed and completions is None:
        raise ValueError("spec.completions is a number where completionMode is Indexed, got None")
    failure_rules = _rules(spec, "podFailurePolicy")
    limit_per_index = spec.get("backoffLimitPerIndex")
    replaces_failed = spec.get("podReplacementPolicy") == "Failed"
    return JobSpec(
        selector=selector,
        template=template,
        parallelism=_or(spec.get("parallelism"), 1),
        completions=completions,
        is_indexed=is_indexed,
        is_suspended=spec.get("suspend") is True,
        backoff_limit=_or(spec.get("backoffLimit"), BACKOFF_LIMIT if limit_per_index is None else NO_LIMIT),
        deadline=spec.get("activeDeadlineSeconds"),
        limit_per_index=limit_per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        failure_rules=failure_rules,
        success_rules=_rules(spec, "successPolicy"),
        only_failed=replaces_failed or failure_rules is not None,
        replaces_failed=replaces_failed,
        restarts=(template.get("spec") or {}).get("restartPolicy") == "OnFailure",
    )


class JobStatus(Struct, frozen=True, kw_only=True):
    """Fields of a Job's status that the controller reads."""

    started: float | None  # startTime in Unix seconds
    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]  # uids of pods that are not in the counters yet
    uncounted_failed: tuple[str, ...]
    completed_indexes: str
    failed_indexes: str | None
    conditions: Sequence[Object]


def job_status(status: Mapping[str, Any]) -> JobStatus:
    """Parse a Job's status. Raises ValueError, with the name of the field, if a field is malformed."""
    check(status, _STATUS, "status")
    started = status.get("startTime")
    uncounted = status.get("uncountedTerminatedPods") or {}
    return JobStatus(
        started=None if started is None else parse_time(started),
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        uncounted_succeeded=tuple(uncounted.get("succeeded") or ()),
        uncounted_failed=tuple(uncounted.get("failed") or ()),
        completed_indexes=status.get("completedIndexes") or "",
        failed_indexes=status.get("failedIndexes"),
        conditions=status.get("conditions") or [],
    )


def status_of(job: Object) -> Object:
    """Return the status of a Job. Raises ValueError if it is not a map."""
    check(job, _WITH_STATUS)
    return job.get("status") or {}


def external_manager(job: Object) -> str | None:
    """Return spec.managedBy if it names another controller, else None. Source: managedByExternalController.

    Raises ValueError if the field is not a string.
    """
    check(job, _WITH_MANAGER)
    manager = (job.get("spec") or {}).get("managedBy")
    return None if manager is None or manager == CONTROLLER else manager


def _rules(spec: Mapping[str, Any], policy: str) -> Sequence[Object] | None:
    return None if spec.get(policy) is None else spec[policy].get("rules") or ()


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
