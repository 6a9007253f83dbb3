"""Reset of the condition DisruptionTarget to False for pods that were not deleted within two minutes.

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

TIMEOUT = 120.0  # seconds within which a pod with the condition must be deleted
BY_KUBELET = "TerminationByKubelet"  # a reason without timeout: the kubelet may take any time to delete the pod
MARKED = "disruption-target"
TRUE = "True"


def marked_since(pod: Object) -> float | None:
    """Return since when the condition DisruptionTarget of a pod is True, in Unix seconds.

    None if the condition needs no reset: it is not True, the kubelet has set it, or the pod is finished or being
    deleted.
    """
    status = pod.get("status") or {}
    condition = find_condition(status.get("conditions"), DISRUPTION_TARGET)
    if condition is None or condition.get("status") != TRUE or condition.get("reason") == BY_KUBELET:
        return None
    if is_deleting(pod) or status.get("phase") in ("Succeeded", "Failed"):
        return None
    since = condition.get("lastTransitionTime")
    return parse_time(since) if since else -math.inf


def marked_values(pod: Object) -> Iterable[str]:
    """Return the values of a pod in the index MARKED: TRUE if its condition DisruptionTarget is True, else none."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == DISRUPTION_TARGET:
            return (TRUE,) if condition.get("status") == TRUE and not is_deleting(pod) else ()
    return ()


MARKED_PODS = Index(PODS, MARKED, marked_values)
PODS_MARKED = Watch(PODS, to=itself, interest=Interest(indexed=((MARKED, TRUE),)))


def status_without_target(pod: Object, *, now: float) -> Object:
    """Return a copy of the pod's status with the condition DisruptionTarget False, without reason and message.

    now: Unix seconds, for lastTransitionTime.
    """
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
