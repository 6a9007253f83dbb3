"""A Job's status as it is written, and the patches of its pods' finalizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcm.actors.controllers.workloads.job.fields import FINALIZER
from kcm.actors.controllers.workloads.job.tracking import Tally
from kcm.actors.reconciliation import patch
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.objects import Object
from kcm.protocols.pods import is_active, is_terminating
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

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


def untrack(pod: Entry, *, unchanged: bool = False) -> Patch:
    """Remove the finalizer. unchanged: only if the pod is as it was read."""
    meta: Object = {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    if unchanged:
        meta["resourceVersion"] = str(pod.resource_version)
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)


def track(pod: Entry) -> Patch:
    """Add the finalizer, if the pod is as it was read."""
    meta: Object = {"uid": pod.uid, "resourceVersion": str(pod.resource_version), "finalizers": [FINALIZER]}
    return patch(PODS, pod.key, {"metadata": meta}, patch_type=PatchType.STRATEGIC)
