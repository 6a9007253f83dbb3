"""The status of a Job: its conditions, and the counts of running and finished pods.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (newCondition, ensureJobConditionStatus).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.controllers.workloads.job.fields import JobStatus
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_active, is_terminating
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

SUSPENDED = "Suspended"
FAILURE_TARGET, FAILED = "FailureTarget", "Failed"
SUCCESS_CRITERIA_MET, COMPLETE = "SuccessCriteriaMet", "Complete"
FINAL = {FAILURE_TARGET: FAILED, SUCCESS_CRITERIA_MET: COMPLETE}
"""The final condition for each interim one. The interim one is set until all pods have terminated and are counted."""


def condition(type: str, reason: str, message: str, *, now: float, status: str = "True") -> Object:
    at = format_time(now)
    found = {"type": type, "status": status, "lastProbeTime": at, "lastTransitionTime": at}
    found |= {"reason": reason} if reason else {}
    return found | ({"message": message} if message else {})


def with_status(conditions: Sequence[Object], new: Object) -> list[Object] | None:
    """Return the conditions with `new` added or replacing the condition of the same type; None if nothing changes.

    A condition with status False is not added. Source: ensureJobConditionStatus.
    """
    known = find_condition(conditions, new["type"])
    if known is None:
        return [*conditions, new] if new["status"] != "False" else None
    if all((known.get(field) or "") == (new.get(field) or "") for field in ("status", "reason", "message")):
        return None
    return [new if old is known else old for old in conditions]


_OMITTED = ("active", "succeeded", "failed", "completedIndexes", "conditions", "startTime", "failedIndexes")


class RunningPods(Struct, frozen=True, kw_only=True):
    """Counts of a Job's unfinished pods."""

    active: int
    ready: int
    terminating: int

    def differs_from(self, status: Object) -> bool:
        recorded = status.get("active", 0), status.get("ready"), status.get("terminating")
        return recorded != (self.active, self.ready, self.terminating)


def running_pods(pods: Lister, uid: str, *, settled: Collection[Entry] = ()) -> RunningPods:
    """Count the unfinished pods of the Job with this uid, including the writes of this sync.

    settled: pods that are known to have finished.
    """
    owned = [entry.facts for entry in pods.entries_owned_by(uid) if entry not in settled]
    active = [pod for pod in owned if is_active(pod)]
    return RunningPods(
        active=len(active),
        ready=sum(pod.ready for pod in active),
        terminating=sum(map(is_terminating, owned)),
    )


def written_status(
    status: Object, *, tally: Tally, running: RunningPods, conditions: Sequence[Object], started: float | None
) -> Object:
    """Return the status to write. Unknown fields are kept, and empty fields are omitted as upstream does."""
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
    return {name: value for name, value in new.items() if name not in _OMITTED or _is_present(name, value)}


def completion_time(complete: Object, *, started: float | None) -> str:
    """Return the completionTime: the time of the condition Complete, or startTime if it is later.

    The server rejects a completionTime before startTime.
    """
    at = parse_time(complete["lastTransitionTime"])
    return format_time(at if started is None else max(at, started))


def _is_present(name: str, value: Any) -> bool:
    return value is not None if name == "failedIndexes" else bool(value)


class Tally(Struct, frozen=True, kw_only=True):
    """The fields of a Job's status that count finished pods."""

    succeeded: int
    failed: int
    uncounted_succeeded: tuple[str, ...]  # uids
    uncounted_failed: tuple[str, ...]
    completed_indexes: str
    failed_indexes: str | None  # None without backoffLimitPerIndex

    @property
    def has_uncounted(self) -> bool:
        return bool(self.uncounted_succeeded or self.uncounted_failed)

    def settled(self, tracked: Container[str], *, is_indexed: bool) -> Tally:
        """Move the uids of pods without the finalizer into the counters. Source: cleanUncountedPodsWithoutFinalizers.

        tracked: uids of pods that still have the finalizer.
        """
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid in tracked)
        failed = tuple(uid for uid in self.uncounted_failed if uid in tracked)
        # The successes of an Indexed Job are counted by completedIndexes.
        counted = 0 if is_indexed else len(self.uncounted_succeeded) - len(succeeded)
        return replace(
            self,
            succeeded=self.succeeded + counted,
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
