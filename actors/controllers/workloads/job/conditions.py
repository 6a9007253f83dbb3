"""A Job's conditions.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (newCondition, ensureJobConditionStatus).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

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
