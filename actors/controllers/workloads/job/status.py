"""Status of a Job as it is written: conditions, counts of pods, and the tally of finished pods.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (newCondition, ensureJobConditionStatus).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from kcm.actors.controllers.workloads.job.fields import JobStatus
from kcm.protocols.conditions import find_condition
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_active, is_terminating
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.tables.lister import Lister

SUSPENDED = "Suspended"
FAILURE_TARGET, FAILED = "FailureTarget", "Failed"
SUCCESS_CRITERIA_MET, COMPLETE = "SuccessCriteriaMet", "Complete"
FINAL = {FAILURE_TARGET: FAILED, SUCCESS_CRITERIA_MET: COMPLETE}
"""What a Job is once its pods are gone and counted, by what it is before."""


def condition(type: str, reason: str, message: str, *, now: float, status: str = "True") -> Object:
    at = format_time(now)
    found = {"type": type, "status": status, "lastProbeTime": at, "lastTransitionTime": at}
    found |= {"reason": reason} if reason else {}
    return found | ({"message": message} if message else {})


def with_status(conditions: Sequence[Object], new: Object) -> list[Object] | None:
    """With this condition in the place of the one of its type, or at the end; None if nothing changes.

    One that is False is not added: nothing is said of what never was.
    """
    known = find_condition(conditions, new["type"])
    if known is None:
        return [*conditions, new] if new["status"] != "False" else None
    if all((known.get(field) or "") == (new.get(field) or "") for field in ("status", "reason", "message")):
        return None
    return [new if one is known else one for one in conditions]


_OMITTED = ("active", "succeeded", "failed", "completedIndexes", "conditions", "startTime", "failedIndexes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How many of a Job's pods have not ended."""

    active: int
    ready: int
    terminating: int

    def differs_from(self, status: Object) -> bool:
        said = status.get("active", 0), status.get("ready"), status.get("terminating")
        return said != (self.active, self.ready, self.terminating)


def running_pods(pods: Lister, uid: str) -> Running:
    """Of the Job with this uid, with what was just created and deleted."""
    owned = [entry.facts for entry in pods.entries_owned_by(uid)]
    active = [pod for pod in owned if is_active(pod)]
    return Running(
        active=len(active),
        ready=sum(pod.ready for pod in active),
        terminating=sum(map(is_terminating, owned)),
    )


def written_status(
    status: Object, *, tally: Tally, running: Running, conditions: Sequence[Object], started: float | None
) -> Object:
    """As Go writes it. What we do not know of stays."""
    uncounted: dict[str, Any] = {}
    if tally.uncounted_succeeded:
        uncounted["succeeded"] = list(tally.uncounted_succeeded)
    if tally.uncounted_failed:
        uncounted["failed"] = list(tally.uncounted_failed)
    new = {
        **status,
        "conditions": list(conditions),
        "startTime": None if started is None else format_time(started),
        "active": running.active,
        "ready": running.ready,
        "terminating": running.terminating,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "completedIndexes": tally.completed_indexes,
        "failedIndexes": tally.failed_indexes,
        "uncountedTerminatedPods": uncounted,
    }
    return {name: value for name, value in new.items() if name not in _OMITTED or _is_said(name, value)}


def completion_time(complete: Object, *, started: float | None) -> str:
    """When the Job became complete by this condition; when it started, by a clock that was ahead, if that is later."""
    at = parse_time(complete["lastTransitionTime"])
    return format_time(at if started is None else max(at, started))


def _is_said(name: str, value: Any) -> bool:
    return value is not None if name == "failedIndexes" else bool(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counting part of a status. failed_indexes: None where the Job has none."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    completed_indexes: str
    failed_indexes: str | None

    @property
    def has_uncounted(self) -> bool:
        return bool(self.uncounted_succeeded or self.uncounted_failed)

    def settled(self, tracked: Container[str], *, is_indexed: bool) -> Tally:
        """With the uncounted ones in the counters whose finalizer is gone. tracked: uids of pods that have it.

        With indexes, the indexes say how many have succeeded.
        """
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid in tracked)
        failed = tuple(uid for uid in self.uncounted_failed if uid in tracked)
        gone = 0 if is_indexed else len(self.uncounted_succeeded) - len(succeeded)
        return replace(
            self,
            succeeded=self.succeeded + gone,
            failed=self.failed + len(self.uncounted_failed) - len(failed),
            uncounted_succeeded=succeeded,
            uncounted_failed=failed,
        )


def tally_of(status: JobStatus) -> Tally:
    return Tally(
        succeeded=status.succeeded,
        failed=status.failed,
        uncounted_succeeded=status.uncounted_succeeded,
        uncounted_failed=status.uncounted_failed,
        completed_indexes=status.completed_indexes,
        failed_indexes=status.failed_indexes,
    )
