"""The condition DisruptionTarget, written to a pod before its deletion.

Source: kubernetes v1.36 pkg/util/pod (PatchPodStatus), pkg/api/v1/pod (UpdatePodCondition).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.reconciliation import patch
from protocols.conditions import find_condition
from protocols.messages.commands import Patch, PatchType
from protocols.objects import Key, Object, metadata, uid_of
from protocols.resources import PODS
from protocols.times import format_time

DISRUPTION_TARGET = "DisruptionTarget"


def observed_generation(pod: Object) -> Object:
    """The field observedGeneration, for a status or a condition; empty where the pod has no generation."""
    generation = metadata(pod).get("generation")
    return {"observedGeneration": generation} if generation else {}


def disruption_condition(pod: Object, *, reason: str, message: str, now: float) -> Object | None:
    """The condition DisruptionTarget to write; None if the pod has it already."""
    desired: Object = {
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
        if all(current.get(field) == value for field, value in desired.items()):
            return None
    return {**desired, "lastTransitionTime": since}


def patch_status(key: Key, pod: Object, changes: Mapping[str, Any]) -> Patch:
    """Write these fields of its status, conditions merged by type; the uid is a precondition."""
    body = {"metadata": {"uid": uid_of(pod)}, "status": changes}
    return patch(PODS, key, body, patch_type=PatchType.STRATEGIC, subresource="status")
