"""The pod condition DisruptionTarget, which controllers set before they delete a pod.

Source: kubernetes v1.36 pkg/util/pod (PatchPodStatus), pkg/api/v1/pod (UpdatePodCondition).
"""

from __future__ import annotations

from kcm.protocols.conditions import changed_condition
from kcm.protocols.objects import Object, metadata

DISRUPTION_TARGET = "DisruptionTarget"


def observed_generation(pod: Object) -> Object:
    """Return {"observedGeneration": …} with the pod's generation, to merge into a status or a condition.

    The result is empty if the pod has no generation.
    """
    generation = metadata(pod).get("generation")
    return {"observedGeneration": generation} if generation else {}


def disruption_condition(pod: Object, *, reason: str, message: str, now: float) -> Object | None:
    """Return the condition DisruptionTarget to write to a pod; None if the pod already has an equal condition.

    now: Unix seconds, for lastTransitionTime.
    """
    conditions, generation = (pod.get("status") or {}).get("conditions"), metadata(pod).get("generation") or None
    return changed_condition(
        conditions, DISRUPTION_TARGET, "True", reason, message, now=now, observed_generation=generation
    )
