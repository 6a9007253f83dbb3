"""What a Job's spec and status say, read and checked.

Source: kubernetes v1.36 staging/src/k8s.io/api/batch/v1/types.go, pkg/controller/job/util/utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocols.conditions import is_true
from protocols.late_methods import dataclass
from protocols.objects import Object
from protocols.selectors import LabelSelector, label_selector_of
from protocols.times import parse_time

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"  # an annotation of pods, and a label
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"  # annotations
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
CONTROLLER = "kubernetes.io/job-controller"  # of spec.managedBy
NON_INDEXED, INDEXED = "NonIndexed", "Indexed"
ENDS = ("Complete", "Failed")  # conditions
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """completions: None where any success ends the Job. deadline: seconds. limit_per_index, most_failed_indexes: None
    without one. failure_rules, success_rules: of the policies; None without a policy. only_failed: a pod is replaced
    once it has failed, not as soon as it is being deleted. replaces_failed: podReplacementPolicy says so itself.
    """

    selector: LabelSelector
    template: Object
    parallelism: int
    completions: int | None
    is_indexed: bool
    is_suspended: bool
    backoff_limit: int
    deadline: int | None
    limit_per_index: int | None
    most_failed_indexes: int | None
    failure_rules: Sequence[Object] | None
    success_rules: Sequence[Object] | None
    only_failed: bool
    replaces_failed: bool
    restarts: bool

    @property
    def mode(self) -> str:
        return INDEXED if self.is_indexed else NON_INDEXED

    def has_index(self, index: int | None) -> bool:
        """Whether a pod of this index counts; every pod does where they have none."""
        return not self.is_indexed or (index is not None and index < (self.completions or 0))


def job_spec(job: Object) -> JobSpec:
    """Raises ValueError that names the field that is missing or of the wrong type.

    restarts: containers that fail are started again in their pod (restartPolicy OnFailure).
    """
    spec = _map(job, "spec", "spec")
    template = _map(spec, "template", "spec.template")
    pod = _map(template, "spec", "spec.template.spec")
    selector = label_selector_of(spec.get("selector"))
    if selector.empty:
        raise ValueError("spec.selector is empty")  # it would adopt every orphan of its namespace
    is_indexed = spec.get("completionMode") == INDEXED
    completions = _number(spec, "completions")
    if is_indexed and completions is None:
        raise ValueError("spec.completions is a number where completionMode is Indexed, got None")
    failure_rules = _rules(spec, "podFailurePolicy")
    replaces_failed = spec.get("podReplacementPolicy") == "Failed"
    return JobSpec(
        selector=selector,
        template=template,
        parallelism=_number(spec, "parallelism", 1) or 0,
        completions=completions,
        is_indexed=is_indexed,
        is_suspended=spec.get("suspend") is True,
        backoff_limit=_number(spec, "backoffLimit", 6) or 0,
        deadline=_number(spec, "activeDeadlineSeconds"),
        limit_per_index=_number(spec, "backoffLimitPerIndex"),
        most_failed_indexes=_number(spec, "maxFailedIndexes"),
        failure_rules=failure_rules,
        success_rules=_rules(spec, "successPolicy"),
        only_failed=replaces_failed or failure_rules is not None,
        replaces_failed=replaces_failed,
        restarts=pod.get("restartPolicy") == "OnFailure",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """started: Unix seconds, None while it has not begun. uncounted_succeeded, uncounted_failed: uids of pods that are
    not in the counters yet, in order. failed_indexes: None where it does not say any.
    """

    started: float | None
    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    completed_indexes: str
    failed_indexes: str | None
    conditions: Sequence[Object]


def job_status(status: Mapping[str, Any]) -> JobStatus:
    """Raises ValueError that names the field of the wrong type."""
    started = status.get("startTime")
    uncounted = _map(status, "uncountedTerminatedPods", "status.uncountedTerminatedPods")
    conditions = status.get("conditions") or []
    if not isinstance(conditions, list):
        raise ValueError(f"status.conditions is a list, got {conditions!r}")
    return JobStatus(
        started=None if started is None else parse_time(started),
        succeeded=_number(status, "succeeded", 0, "status") or 0,
        failed=_number(status, "failed", 0, "status") or 0,
        uncounted_succeeded=_uids(uncounted, "succeeded"),
        uncounted_failed=_uids(uncounted, "failed"),
        completed_indexes=status.get("completedIndexes") or "",
        failed_indexes=status.get("failedIndexes"),
        conditions=conditions,
    )


def status_of(job: Object) -> Object:
    """Raises ValueError on a status that is no map."""
    return _map(job, "status", "status")


def is_finished(job: Object) -> bool:
    """Complete or Failed: nothing is done with its pods any more."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(is_true(conditions, end) for end in ENDS)


def manager_elsewhere(job: Object) -> str | None:
    """Who manages it, where that is another controller."""
    manager = (job.get("spec") or {}).get("managedBy")
    return None if manager is None or manager == CONTROLLER else str(manager)


def _map(of: Mapping[str, Any], name: str, path: str) -> Object:
    value = of.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{path} is a map, got {value!r}")
    return value


def _number(of: Mapping[str, Any], name: str, default: int | None = None, path: str = "spec") -> int | None:
    value = of.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ValueError(f"{path}.{name} is a number from 0 on, got {value!r}")
    return value


def _rules(spec: Mapping[str, Any], name: str) -> Sequence[Object] | None:
    policy = spec.get(name)
    if policy is None:
        return None
    rules = policy.get("rules") if isinstance(policy, dict) else None
    if not isinstance(rules, list):
        raise ValueError(f"spec.{name} has rules, got {policy!r}")
    return rules


def _uids(of: Mapping[str, Any], name: str) -> tuple[str, ...]:
    uids: Iterable[Any] = of.get(name) or ()
    if not isinstance(uids, list | tuple):
        raise ValueError(f"status.uncountedTerminatedPods.{name} is a list, got {uids!r}")
    return tuple(uids)
