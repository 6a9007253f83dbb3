"""Data classes for one evaluation of a HorizontalPodAutoscaler, and for its state between evaluations.

An evaluation computes the number of replicas from the metrics once, and scales the target.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import Recommendation, ScaleEvent
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import AutoscalerSpec
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics import FaultOrigin, ScaleAction
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.status import StatusDraft
from kcm.actors.reconciliation import record
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import Key, Object, namespace_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS
from kcm.protocols.selectors import LabelSelector


class AutoscalerSettings(NamedTuple):
    """Values of the controller's flags and feature gates, which apply to all HorizontalPodAutoscalers."""

    period: float  # seconds between two evaluations
    window: float  # downscale stabilization window in seconds
    tolerance: float  # deviation of the ratio usage / target from 1 that does not lead to scaling
    scales_to_zero: bool  # feature gate HPAScaleToZero
    configurable_tolerance: bool  # feature gate HPAConfigurableTolerance
    evaluates_new_specs_at_once: bool = False  # from 1.37 on; before, after one period


class AutoscalingError(Exception):
    """Raised if an evaluation fails. The next evaluation follows after the usual period, without backoff."""

    def __init__(self, text: str, *, spec: bool = False) -> None:
        super().__init__(text)
        self.origin = FaultOrigin.SPEC if spec else FaultOrigin.INTERNAL


class UnknownUpdate(NamedTuple):
    """Update of a target's scale whose outcome is unknown."""

    version: str  # resourceVersion of the scale that was updated
    replicas: int  # requested number of replicas
    change: int  # requested number minus the previous number


class AutoscalerMemory(Struct, kw_only=True):
    """State of one HorizontalPodAutoscaler that is kept in memory between evaluations."""

    uid: str  # of the HorizontalPodAutoscaler
    selector: LabelSelector | None = None  # selects the target's pods; None until the scale was read
    recommendations: tuple[Recommendation, ...] = ()  # for stabilization
    events: tuple[ScaleEvent, ...] = ()  # for scaling policies
    unknown_update: UnknownUpdate | None = None
    scheduled_spec: Any = None  # the spec for which an evaluation was last scheduled


class Evaluation(Struct, kw_only=True):
    """Inputs and intermediate results of one evaluation of a HorizontalPodAutoscaler; updated during the sync."""

    key: Key
    autoscaler: Mapping[str, Any]  # the HorizontalPodAutoscaler
    spec: AutoscalerSpec
    draft: StatusDraft  # the status to write
    memory: AutoscalerMemory
    action: ScaleAction = ScaleAction.NONE
    metrics: Sequence[Object] | None = None  # status.currentMetrics; None before the metrics were read
    failed: AutoscalingError | None = None  # error of an invalid metric, raised after the status was written
    reason: str = ""  # why the target is scaled, for the event
    proposal: str = ""  # what the metrics propose, and how it is limited, for the reason of the decision

    @property
    def reference(self) -> str:
        """Return "kind/namespace/name" of the target, for messages."""
        return f"{self.spec.target.kind}/{namespace_of(self.autoscaler)}/{self.spec.target.name}"


def event(evaluation: Evaluation, type_: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return record(HORIZONTAL_POD_AUTOSCALERS, evaluation.autoscaler, type_, reason, message)
