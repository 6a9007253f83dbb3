"""State of one evaluation of an autoscaler, and what is kept in memory between two evaluations.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import Recommendation, ScaleEvent
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import AutoscalerSpec
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import FaultOrigin, ScaleAction
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import StatusDraft
from kcm.actors.reconciliation import record
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import Key, Object, namespace_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS
from kcm.protocols.selectors import LabelSelector


class AutoscalerSettings(NamedTuple):
    """Flags and feature gates of the autoscaler."""

    period: float  # seconds between two evaluations
    window: float  # seconds of downscale stabilization
    tolerance: float
    scales_to_zero: bool  # feature gate HPAScaleToZero
    configurable_tolerance: bool  # feature gate HPAConfigurableTolerance


class AutoscalingError(Exception):
    """An evaluation failed. The next one follows after the period, without backoff."""

    def __init__(self, text: str, *, spec: bool = False) -> None:
        super().__init__(text)
        self.origin = FaultOrigin.SPEC if spec else FaultOrigin.INTERNAL


class UnknownUpdate(NamedTuple):
    """An update of the scale with unknown outcome."""

    version: str  # resourceVersion that the update was made from
    replicas: int
    change: int


@dataclass(slots=True, kw_only=True)
class AutoscalerMemory:
    """Memory of one autoscaler."""

    uid: str
    selector: LabelSelector | None = None  # of the target's pods; None until the scale was read
    recommendations: tuple[Recommendation, ...] = ()
    events: tuple[ScaleEvent, ...] = ()
    unknown_update: UnknownUpdate | None = None


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """One evaluation of an autoscaler, filled in step by step."""

    key: Key
    autoscaler: Mapping[str, Any]
    spec: AutoscalerSpec
    draft: StatusDraft
    memory: AutoscalerMemory
    action: ScaleAction = ScaleAction.NONE
    metrics: Sequence[Object] | None = None
    failed: AutoscalingError | None = None
    reason: str = ""

    @property
    def reference(self) -> str:
        """Return the target for messages."""
        return f"{self.spec.target.kind}/{namespace_of(self.autoscaler)}/{self.spec.target.name}"


def event(evaluation: Evaluation, type_: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return record(HORIZONTAL_POD_AUTOSCALERS, evaluation.autoscaler, type_, reason, message)
