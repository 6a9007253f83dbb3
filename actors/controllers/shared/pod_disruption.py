"""The condition DisruptionTarget, written to a pod before its deletion.

Source: kubernetes v1.36 pkg/util/pod (PatchPodStatus), pkg/api/v1/pod (UpdatePodCondition).
"""

from __future__ import annotations

from kcm.protocols.conditions import changed_condition
from kcm.protocols.objects import Object, metadata

DISRUPTION_TARGET = "DisruptionTarget"


def observed_generation(pod: Object) -> Object:
    """Return the field observedGeneration for a status or a condition; empty if the pod has no generation."""
    generation = metadata(pod).get("generation")
    return {"observedGeneration": generation} if generation else {}


def disruption_condition(pod: Object, *, reason: str, message: str, now: float) -> Object | None:
    """Return the condition DisruptionTarget to write; None if the pod has it already."""
    conditions, generation = (pod.get("status") or {}).get("conditions"), metadata(pod).get("generation") or None
    return changed_condition(
        conditions, DISRUPTION_TARGET, "True", reason, message, now=now, observed_generation=generation
    )
