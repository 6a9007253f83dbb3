"""Status of a HorizontalPodAutoscaler that is changed step by step during an evaluation.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (setStatus, setConditionInList,
updateStatusIfNeeded).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.protocols.conditions import ConditionStatus, is_true, set_condition, without_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
SCALED_TO_ZERO = "ScaledToZero"


class StatusDraft:
    """New status of a HorizontalPodAutoscaler, which begins as a copy of the present status.

    now: Unix seconds, for the times in the status.
    """

    def __init__(self, autoscaler: Mapping[str, Any], *, now: float) -> None:
        self._before: Mapping[str, Any] = autoscaler.get("status") or {}
        self._conditions = [dict(condition) for condition in self._before.get("conditions") or ()]
        self._counts: Object | None = None
        self._now = now

    def set_condition(self, type_: str, status: ConditionStatus, reason: str, message: str) -> None:
        self._conditions = set_condition(self._conditions, type_, status, reason, message, now=self._now)

    def remove_condition(self, type_: str) -> None:
        self._conditions = without_condition(self._conditions, type_)

    def is_true(self, type_: str) -> bool:
        return is_true(self._conditions, type_)

    def set_counts(self, *, current: int, metrics: Sequence[Object] | None, desired: int | None = None) -> None:
        """Set currentReplicas, desiredReplicas and currentMetrics. If `desired` is None, desiredReplicas is kept."""
        self._counts = {
            "currentReplicas": current,
            "desiredReplicas": self._before.get("desiredReplicas") or 0 if desired is None else desired,
            "currentMetrics": list(metrics) if metrics else None,
            "lastScaleTime": self._before.get("lastScaleTime"),
        }

    def set_scale_time(self) -> None:
        """Set lastScaleTime to the time of this sync. Must be called after set_counts, which resets it."""
        assert self._counts is not None
        self._counts["lastScaleTime"] = format_time(self._now)

    @property
    def status(self) -> Object:
        counts = dict(self._before) if self._counts is None else self._counts
        whole = {**counts, "conditions": self._conditions}
        return {name: value for name, value in whole.items() if value is not None or name == "currentMetrics"}

    @property
    def has_changed(self) -> bool:
        return _without_zeros(self.status) != _without_zeros(self._before)


def _without_zeros(status: Mapping[str, Any]) -> Object:
    return {name: value for name, value in status.items() if value not in (None, 0, [])}
