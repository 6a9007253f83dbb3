"""The condition EvictionInProgress of DeviceTaintRules.

Source: kubernetes v1.36 pkg/controller/devicetainteviction/device_taint_eviction.go (maybeUpdateRuleStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.device_taints import NO_EFFECT, NO_EXECUTE
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time, parse_time

IN_PROGRESS = "EvictionInProgress"
STATUS_PERIOD = 10.0  # minimum of seconds between two updates of a rule's condition
_COMPARED = ("type", "status", "observedGeneration", "reason", "message")
_FINAL = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class Effects(NamedTuple):
    """Effects of a rule: pods that it evicts, or would evict if its effect were NoExecute.

    pods, namespaces: number of the pods that are not deleted yet, and of their namespaces.
    published, allocated: number of selected devices in the newest slices, and of selected allocated devices. They are
        counted only for the effect None.
    """

    pods: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0


def wait_seconds(condition: Mapping[str, Any] | None, generation: int, now: float) -> float:
    """Return the seconds until the condition may be updated.

    The first condition for a generation of the spec is written immediately. Every update changes lastTransitionTime,
    even if only the message differs, so that this field contains the time of the last update. A lastTransitionTime in
    the future, written with another clock, does not delay the update; upstream waits until that time.
    """
    if condition is None or (condition.get("observedGeneration") or 0) != generation:
        return 0.0
    try:
        since = now - parse_time(condition.get("lastTransitionTime") or "")
    except ValueError:
        return 0.0
    return max(0.0, STATUS_PERIOD - since) if since >= 0 else 0.0


def rule_condition(effect: str, effects: Effects, *, evicted: int, generation: int, now: float) -> Object:
    """Return the condition of a rule.

    evicted: number of pods that the controller evicted because of the rule since its start.
    """
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        message = ""
        if effects.pods > 0:
            status, reason = "True", "PodsPendingEviction"
            pods = _counted(effects.pods, "pod needs", "pods need")
            message = f"{pods} to be evicted in {_namespaces(effects.namespaces)}."
        else:
            reason = "Completed" if evicted > 0 else "NotStarted"
    elif effect == NO_EFFECT:
        reason = "NoEffect"
        published = _counted(effects.published, "published device", "published devices")
        allocated = _counted(effects.allocated, "allocated device", "allocated devices")
        pods = _counted(effects.pods, "pod", "pods")
        message = (
            f"{published} selected. {allocated} selected. {pods} would be evicted in "
            f"{_namespaces(effects.namespaces)} if the effect was NoExecute. {_FINAL}"
        )
    if evicted > 0:
        total = f"{_counted(evicted, 'pod', 'pods')} evicted since starting the controller."
        message = f"{message} {total}" if message else total
    return {
        "type": IN_PROGRESS,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    }


def differs(condition: Object, stored: Mapping[str, Any] | None) -> bool:
    """Report whether the condition differs from the stored one, apart from lastTransitionTime."""
    return stored is None or any((condition.get(name) or "") != (stored.get(name) or "") for name in _COMPARED)


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _namespaces(number: int) -> str:
    return _counted(number, "namespace", "different namespaces")
