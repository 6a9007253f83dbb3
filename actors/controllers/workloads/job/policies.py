"""Evaluates the pod failure policy and the success policy of a Job.

Source: kubernetes v1.36 pkg/controller/job/{pod_failure_policy,success_policy}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from kcm.protocols.completion_indexes import Indexes
from kcm.protocols.objects import Object, name_of, namespace_of


class FailureAction(StrEnum):
    """Action of a rule in the pod failure policy."""

    IGNORE = "Ignore"
    COUNT = "Count"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


class FailureMatch(NamedTuple):
    """Result of matching a failed pod against the pod failure policy."""

    action: FailureAction | None = None  # of the first rule that matches; None if no rule matches
    message: str = ""  # of the Job's failure, if the action is FailJob

    @property
    def counts(self) -> bool:
        """Report whether the failure counts towards the backoff limits."""
        return self.action is not FailureAction.IGNORE


UNMATCHED = FailureMatch()


def match_failure_policy(rules: Sequence[Object] | None, pod: Object) -> FailureMatch:
    """Return the result of the first rule that matches a failed pod. Source: matchPodFailurePolicy.

    rules: of the pod failure policy; None without a policy.
    """
    status = pod.get("status") or {}
    for number, rule in enumerate(rules or ()):
        action = rule.get("action")
        if action not in tuple(FailureAction):
            continue
        if rule.get("onExitCodes") is not None:
            container = _by_exit_codes(status, rule["onExitCodes"])
            if container is None:
                continue
            code = container["state"]["terminated"]["exitCode"]
            found = (
                f"Container {container.get('name')} for pod {namespace_of(pod)}/{name_of(pod)} "
                f"failed with exit code {code}"
            )
        elif rule.get("onPodConditions") is not None:
            condition = _by_condition(status, rule["onPodConditions"])
            if condition is None:
                continue
            found = f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {condition.get('type')}"
        else:
            continue
        message = f"{found} matching {action} rule at index {number}" if action == FailureAction.FAIL_JOB else ""
        return FailureMatch(FailureAction(action), message)
    return UNMATCHED


def _by_exit_codes(status: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first container whose exit code matches, or None.

    Init containers are checked last. Exit code 0 never matches.
    """
    name, values = wanted.get("containerName"), wanted.get("values") or ()
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            terminated = (container.get("state") or {}).get("terminated")
            if terminated is None or name not in (None, container.get("name")):
                continue
            code = terminated.get("exitCode") or 0
            if code == 0:
                continue
            operator = wanted.get("operator")
            if (operator == "In" and code in values) or (operator == "NotIn" and code not in values):
                return container  # type: ignore[no-any-return]
    return None


def _by_condition(status: Mapping[str, Any], patterns: Iterable[Any]) -> Mapping[str, Any] | None:
    wanted = {(pattern.get("type"), pattern.get("status")) for pattern in patterns}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in wanted:
            return condition  # type: ignore[no-any-return]
    return None


def success_message(rules: Sequence[Object] | None, succeeded: Indexes, *, completions: int) -> str | None:
    """Return the message of the condition SuccessCriteriaMet if a rule is met, else None. Source: matchSuccessPolicy.

    rules: of the success policy; None without a policy.
    """
    if not succeeded:
        return None
    for number, rule in enumerate(rules or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = Indexes.parse(rule["succeededIndexes"], completions=completions)
            common = wanted.overlap(succeeded)
            met = bool(wanted) and (common == wanted.total or (count is not None and common >= count))
        else:
            met = count is not None and succeeded.total >= count
        if met:
            return f"Matched rules at index {number}"
    return None
