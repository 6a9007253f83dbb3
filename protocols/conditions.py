"""Conditions of an object's status, metav1.Condition and its predecessors.

`conditions` is status.conditions of an object, or None if it has none. No function here modifies its argument.

An existing condition is updated by one of two rules. set_condition has the rule of metav1.Condition, for all new kinds
(apimachinery pkg/api/meta/conditions.go, SetStatusCondition). with_condition has the rule of workloads (kubernetes
v1.36 pkg/controller/deployment/util/deployment_util.go, SetDeploymentCondition).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from kcm.protocols.arguments import check_number, check_text
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

ConditionStatus = Literal["True", "False", "Unknown"]
_STATUSES = ("True", "False", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
Conditions = Iterable[Mapping[str, Any]] | None


def find_condition(conditions: Conditions, type: str) -> Mapping[str, Any] | None:
    """Return the first condition of this type, or None."""
    try:
        for condition in conditions or ():
            if condition.get("type") == type:
                return condition
    except (AttributeError, TypeError):
        raise TypeError(f"conditions are a list of maps, not {conditions!r:.80}") from None
    return None


def is_true(conditions: Conditions, type: str) -> bool:
    """Report whether the condition's status is True. An Unknown or missing condition is not true."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == "True"


def next_condition(
    current: Mapping[str, Any] | None,
    type: str,
    status: ConditionStatus | bool,
    reason: str,
    message: str = "",
    *,
    now: float,
    observed_generation: int | None = None,
) -> Object:
    """Return the new condition. current: the present condition of this type, or None. See set_condition."""
    text = str(status)  # True and False become "True" and "False"
    if text not in _STATUSES:
        raise ValueError(f"the status of condition {type} is one of {', '.join(_STATUSES)}, not {status!r}")
    check_text("type of a condition", type)
    check_text("reason of a condition", reason, may_be_empty=True)
    check_text("message of a condition", message, may_be_empty=True)
    check_number("now of a condition", now)
    if not _REASON.fullmatch(reason):
        raise ValueError(f"the reason of condition {type} is a word like NotReady, not {reason!r}")
    since = current.get("lastTransitionTime") if current is not None and current.get("status") == text else None
    condition: Object = {"type": type, "status": text, "reason": reason, "message": message}
    condition["lastTransitionTime"] = since or format_time(now)
    if observed_generation is not None:
        condition["observedGeneration"] = observed_generation
    return condition


def changed_condition(
    conditions: Conditions,
    type: str,
    status: ConditionStatus | bool,
    reason: str,
    message: str = "",
    *,
    now: float,
    observed_generation: int | None = None,
) -> Object | None:
    """Return the condition for a patch that merges by type, or None if it has not changed. See set_condition."""
    current = find_condition(conditions, type)
    new = next_condition(current, type, status, reason, message, now=now, observed_generation=observed_generation)
    is_there = current is not None and all(current.get(field) == value for field, value in new.items())
    return None if is_there else new


def set_condition(
    conditions: Conditions,
    type: str,
    status: ConditionStatus | bool,
    reason: str,
    message: str = "",
    *,
    now: float,
    observed_generation: int | None = None,
) -> list[Object]:
    """Return a copy of the list with this condition; a new type is appended, the other conditions are unchanged.

    now: Unix seconds. It becomes lastTransitionTime only if the status changes. Without a change the returned list is
    equal to the given one, and patch_status writes nothing.

    Raises ValueError for a status or a reason that the API rejects.
    """
    current = find_condition(conditions, type)
    new = next_condition(current, type, status, reason, message, now=now, observed_generation=observed_generation)
    if current is None:
        return [*_copies(conditions), new]
    kept = {name: value for name, value in current.items() if name not in ("observedGeneration", *new)}
    if observed_generation is None and "observedGeneration" in current:
        kept["observedGeneration"] = current["observedGeneration"]
    return [{**new, **kept} if each is current else dict(each) for each in conditions or ()]


def with_condition(conditions: Conditions, new: Mapping[str, Any]) -> list[Object]:
    """Return a copy of the list in which `new` replaces the condition of its type, or is appended.

    If status and reason are the same, the old condition is kept: a new message or lastUpdateTime alone is not written,
    because every sync would write the status. lastTransitionTime is kept while the status is the same.
    """
    current = find_condition(conditions, new["type"])
    if current is None:
        return [*_copies(conditions), dict(new)]
    same_status = current.get("status") == new.get("status")
    if same_status and (current.get("reason") or "") == (new.get("reason") or ""):
        return _copies(conditions)
    replacement = dict(new)
    if same_status and current.get("lastTransitionTime"):
        replacement["lastTransitionTime"] = current["lastTransitionTime"]
    return [*without_condition(conditions, new["type"]), replacement]


def without_condition(conditions: Conditions, type: str) -> list[Object]:
    """Return a copy of the list without the conditions of this type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type]


def _copies(conditions: Conditions) -> list[Object]:
    return [dict(condition) for condition in conditions or ()]
