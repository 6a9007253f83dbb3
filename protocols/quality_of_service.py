"""Quality of service class of a pod.

Source: kubernetes pkg/apis/core/v1/helper/qos/qos.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from kcm.protocols.objects import Object
from kcm.protocols.quantities import parse_quantity

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COUNTED = ("cpu", "memory")


def quality_of_service(spec: Object) -> str:
    """Return the QoS class: Guaranteed if every container has equal requests and limits of CPU and memory, BestEffort
    if no container has requests or limits, else Burstable.

    spec: with defaults and valid quantities. Pod-level resources take precedence over those of containers.
    """
    if spec.get("resources"):
        holders = [spec["resources"]]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        holders = [container.get("resources") or {} for container in containers]
        if not any(holders):
            return BEST_EFFORT
    requests = [_counted(holder.get("requests") or {}) for holder in holders]
    limits = [_counted(holder.get("limits") or {}) for holder in holders]
    if not any(requests) and not any(limits):
        return BEST_EFFORT
    all_limited = all(len(limit) == len(_COUNTED) for limit in limits)
    return GUARANTEED if all_limited and _sums(requests) == _sums(limits) else BURSTABLE


def _counted(amounts: Mapping[str, str]) -> dict[str, Decimal]:
    parsed = {name: parse_quantity(amounts[name]) for name in _COUNTED if name in amounts}
    return {name: amount for name, amount in parsed.items() if amount > 0}


def _sums(amounts: list[dict[str, Decimal]]) -> dict[str, Decimal]:
    return {
        name: sum((amount.get(name, Decimal(0)) for amount in amounts), Decimal(0))
        for name in _COUNTED
        if any(name in amount for amount in amounts)
    }
