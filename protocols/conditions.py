"""Conditions: the typed facts in an object's status.

A list of conditions is status.conditions as it stands in the object, or None where there is none. Nothing here changes
the list it was given.

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
    """False also where the condition is missing or Unknown."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == "True"


def set_condition(conditions: Conditions, new: Mapping[str, Any]) -> list[Object]:
    """The list with this condition in the place of the former one of its type; it goes to the end.

    Nothing changes if status and reason are what they were: a new message or lastUpdateTime alone is not written, so
    that a status does not change for ever. lastTransitionTime stays while the status stays.
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
    """The list without conditions of this type."""
    return [dict(condition) for condition in conditions or () if condition.get("type") != type]


def _copies(conditions: Conditions) -> list[Object]:
    return [dict(condition) for condition in conditions or ()]
