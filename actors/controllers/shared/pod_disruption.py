"""How a pod's status says, before it is deleted, that it was not its own doing.

Source: kubernetes v1.36 pkg/util/pod (PatchPodStatus), pkg/api/v1/pod (UpdatePodCondition).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.reconciliation import patch
from protocols.conditions import find_condition
from protocols.messages.commands import Patch
from protocols.objects import Key, Object, metadata, uid_of
from protocols.resources import PODS
from protocols.times import format_time

DISRUPTION_TARGET = "DisruptionTarget"


def observed_generation(pod: Object) -> Object:
    """The field observedGeneration, for a status or a condition; nothing where pods are not counted."""
    generation = metadata(pod).get("generation")
    return {"observedGeneration": generation} if generation else {}


def disruption_condition(pod: Object, *, reason: str, message: str, now: float) -> Object | None:
    """The condition DisruptionTarget as it should be in the pod's status; None if it is so already."""
    wished: Object = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        **observed_generation(pod),
    }
    current = find_condition((pod.get("status") or {}).get("conditions"), DISRUPTION_TARGET)
    since = format_time(now)
    if current is not None and current.get("status") == "True":
        since = current.get("lastTransitionTime") or since
        if all(current.get(field) == value for field, value in wished.items()):
            return None
    return {**wished, "lastTransitionTime": since}


def patch_status(key: Key, pod: Object, changes: Mapping[str, Any]) -> Patch:
    """Write these fields of its status, conditions merged by type; refused if another pod has its name by now."""
    return patch(PODS, key, {"metadata": {"uid": uid_of(pod)}, "status": changes}, subresource="status")
