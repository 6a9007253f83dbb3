"""Condition DisruptionTarget of pods that were not deleted within two minutes: it is set to False.

Source: kubernetes v1.36 pkg/controller/disruption/disruption.go (nonTerminatingPodHasStaleDisruptionCondition,
syncStalePodDisruption).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET, observed_generation
from kcm.actors.reconciliation import Interest, Watch, itself
from kcm.actors.reconciliation.specs import Index
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, is_deleting
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time, parse_time

TIMEOUT = 120.0  # seconds
BY_KUBELET = "TerminationByKubelet"  # a reason without timeout: the kubelet may take any time to delete the pod
MARKED = "disruption-target"
TRUE = "True"


def marked_since(pod: Object) -> float | None:
    """Return since when the condition is True, in Unix seconds; None if the pod is being deleted or finished."""
    status = pod.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_TARGET)
    if condition is None or condition.get("status") != TRUE or condition.get("reason") == BY_KUBELET:
        return None
    if is_deleting(pod) or status.get("phase") in ("Succeeded", "Failed"):
        return None
    since = condition.get("lastTransitionTime")
    return parse_time(since) if since else -math.inf


def marked_values(pod: Object) -> Iterable[str]:
    """Return the values of the index MARKED; nearly all pods have none."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == DISRUPTION_TARGET:
            return (TRUE,) if condition.get("status") == TRUE and not is_deleting(pod) else ()
    return ()


MARKED_PODS = Index(PODS, MARKED, marked_values)
PODS_MARKED = Watch(PODS, to=itself, interest=Interest(indexed=((MARKED, TRUE),)))


def unmarked_status(pod: Object, *, now: float) -> Object:
    """Return the pod's status with the condition False, without reason and message."""
    status = pod["status"]
    cleared = {
        "type": DISRUPTION_TARGET,
        "status": "False",
        "lastTransitionTime": format_time(now),
        **observed_generation(pod),
    }
    conditions = [
        cleared if condition.get("type") == DISRUPTION_TARGET else condition for condition in status["conditions"]
    ]
    return {**status, "conditions": conditions}
