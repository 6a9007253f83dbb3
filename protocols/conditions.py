"""Conditions: the typed facts in an object's status.

`conditions` is status.conditions of an object, or None if it has none. No function here modifies its argument.

Source: pkg/controller/deployment/util/deployment_util.go, SetDeploymentCondition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from protocols.objects import Object

Conditions = Iterable[Mapping[str, Any]] | None


def find_condition(conditions: Conditions, type: str) -> Mapping[str, Any] | None:
    """The first condition of this type."""
    for condition in conditions or ():
        if condition.get("type") == type:
            return condition
    return None


def is_true(conditions: Conditions, type: str) -> bool:
    """True if the condition's status is True; False also if it is Unknown or missing."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == "True"


def with_condition(conditions: Conditions, new: Mapping[str, Any]) -> list[Object]:
    """A copy of the list in which `new` replaces the condition of its type; it is appended at the end.

    If status and reason are the same, the old condition is kept: a new message or lastUpdateTime alone is not written,
    lest every sync writes the status. lastTransitionTime is kept while the status is the same.
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
    """A copy of the list without the conditions of this type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type]


def _copies(conditions: Conditions) -> list[Object]:
    return [dict(condition) for condition in conditions or ()]
