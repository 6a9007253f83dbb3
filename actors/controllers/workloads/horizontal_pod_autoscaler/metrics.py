"""Metrics of the HorizontalPodAutoscaler controller itself, which Prometheus reads from kcm.

Source: kubernetes v1.36 pkg/controller/podautoscaler/monitor. Difference: the series of a deleted
HorizontalPodAutoscaler is removed; upstream keeps it.
"""

from __future__ import annotations

from enum import StrEnum

from kcm.protocols.objects import Key, split_key
from kcm.runtime.metrics.registry import Family, Metrics

_BUCKETS = tuple(0.001 * 2**power for power in range(15))
_LABELS = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'."
_ERROR = "he label 'error' should be either 'spec', 'internal', or 'none'."
_ERRORS = f" Also, t{_ERROR}"
_FIRST = (
    " Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in "
    "`error` label."
)
_TYPE = " The label 'metric_type' corresponds to HPA.spec.metrics[*].type"

RECONCILIATIONS = Family(
    name="horizontal_pod_autoscaler_controller_reconciliations_total",
    kind="counter",
    help=f"Number of reconciliations of HPA controller. {_LABELS}{_ERRORS}{_FIRST}",
    stability="BETA",
    labels=("action", "error"),
)
RECONCILIATION_SECONDS = Family(
    name="horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    kind="histogram",
    help=f"The time(seconds) that the HPA controller takes to reconcile once. {_LABELS}{_ERRORS}{_FIRST}",
    stability="BETA",
    labels=("action", "error"),
    buckets=_BUCKETS,
)
COMPUTATIONS = Family(
    name="horizontal_pod_autoscaler_controller_metric_computation_total",
    kind="counter",
    help=f"Number of metric computations. {_LABELS}{_ERRORS}{_TYPE}",
    stability="BETA",
    labels=("action", "error", "metric_type"),
)
COMPUTATION_SECONDS = Family(
    name="horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    kind="histogram",
    help=f"The time(seconds) that the HPA controller takes to calculate one metric. {_LABELS} T{_ERROR}{_TYPE}",
    stability="BETA",
    labels=("action", "error", "metric_type"),
    buckets=_BUCKETS,
)
AUTOSCALERS = Family(
    name="horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    kind="gauge",
    help="Current number of controlled HPA objects.",
)
DESIRED_REPLICAS = Family(
    name="horizontal_pod_autoscaler_controller_desired_replicas",
    kind="gauge",
    help="Current desired replica count for HPA objects.",
    labels=("namespace", "hpa_name"),
)


class ScaleAction(StrEnum):
    UP = "scale_up"
    DOWN = "scale_down"
    NONE = "none"


class FaultOrigin(StrEnum):
    """Cause of a failed evaluation: value of the label `error` of the metrics."""

    SPEC = "spec"  # the autoscaler's spec is invalid
    INTERNAL = "internal"
    NONE = "none"


def action_of(change: int) -> ScaleAction:
    return ScaleAction.UP if change > 0 else ScaleAction.DOWN if change < 0 else ScaleAction.NONE


class Monitor:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._autoscalers = metrics.gauge(AUTOSCALERS)

    def reconciled(self, action: ScaleAction, fault: FaultOrigin, seconds: float) -> None:
        self._metrics.counter(RECONCILIATIONS, action, fault).inc()
        self._metrics.histogram(RECONCILIATION_SECONDS, action, fault).observe(seconds)

    def computed(self, action: ScaleAction, fault: FaultOrigin, seconds: float, type_: str) -> None:
        self._metrics.counter(COMPUTATIONS, action, fault, type_).inc()
        self._metrics.histogram(COMPUTATION_SECONDS, action, fault, type_).observe(seconds)

    def set_desired(self, key: Key, replicas: int) -> None:
        self._metrics.gauge(DESIRED_REPLICAS, *split_key(key)).set(replicas)

    def forget(self, key: Key) -> None:
        self._metrics.remove(DESIRED_REPLICAS, *split_key(key))

    def set_count(self, autoscalers: int) -> None:
        self._autoscalers.set(autoscalers)
