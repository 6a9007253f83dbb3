"""One look at an autoscaler, as far as it has come, and what is remembered from one to the next.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import Bounds, Recommendation, ScaleEvent
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import Action, Fault
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import Draft
from kcm.actors.reconciliation import record
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import Key, Object, namespace_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS
from kcm.protocols.selectors import LabelSelector


class Settings(NamedTuple):
    """period, window: seconds; window: of downscale stabilization. scales_to_zero, tolerates: feature gates."""

    period: float
    window: float
    tolerance: float
    scales_to_zero: bool
    tolerates: bool


class AutoscalingError(Exception):
    """One look ended without all that was to be done; the next one is a period later."""

    def __init__(self, text: str, *, spec: bool = False) -> None:
        super().__init__(text)
        self.fault = Fault.SPEC if spec else Fault.INTERNAL


class Lost(NamedTuple):
    """An update of the scale that had no response. version: that it was made from."""

    version: str
    replicas: int
    change: int


@dataclass(slots=True, kw_only=True)
class Memory:
    """Of one autoscaler. selector: of its target's pods; None before it is known."""

    uid: str
    selector: LabelSelector | None = None
    recommendations: tuple[Recommendation, ...] = ()
    events: tuple[ScaleEvent, ...] = ()
    lost: Lost | None = None


@dataclass(slots=True, kw_only=True)
class Look:
    """One look at an autoscaler, as far as it has come."""

    key: Key
    autoscaler: Mapping[str, Any]
    draft: Draft
    memory: Memory
    action: Action = Action.NONE
    metrics: Sequence[Object] | None = None
    failed: AutoscalingError | None = None
    reason: str = ""
    spec: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.spec = self.autoscaler.get("spec") or {}

    @property
    def bounds(self) -> Bounds:
        least = self.spec.get("minReplicas")
        return Bounds(1 if least is None else least, self.spec.get("maxReplicas") or 0)

    @property
    def reference(self) -> str:
        target = self.spec.get("scaleTargetRef") or {}
        return f"{target.get('kind') or ''}/{namespace_of(self.autoscaler)}/{target.get('name') or ''}"


def event(look: Look, type_: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return record(HORIZONTAL_POD_AUTOSCALERS, look.autoscaler, type_, reason, message)
