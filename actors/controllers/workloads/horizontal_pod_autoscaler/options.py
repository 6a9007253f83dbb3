"""Flags of the HorizontalPodAutoscaler controller.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/options/hpacontroller.go. Flags with `retired` are from older
releases; they are accepted and ignored.
"""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION, FLOAT


class HorizontalPodAutoscalerOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "HPAController"

    concurrent_syncs: int = flag(
        5,
        "Number of HorizontalPodAutoscalers that are synced concurrently.",
        name="concurrent-horizontal-pod-autoscaler-syncs",
        config="ConcurrentHorizontalPodAutoscalerSyncs",
    )
    sync_period: float = flag(
        15.0,
        "Interval at which the number of replicas is computed.",
        name="horizontal-pod-autoscaler-sync-period",
        kind=DURATION,
        config="HorizontalPodAutoscalerSyncPeriod",
    )
    tolerance: float = flag(
        0.1,
        "Minimum change of the ratio of desired to actual metrics that leads to scaling.",
        name="horizontal-pod-autoscaler-tolerance",
        kind=FLOAT,
        config="HorizontalPodAutoscalerTolerance",
    )
    downscale_stabilization: float = flag(
        300.0,
        "Time for which the autoscaler looks back: it does not scale below the highest recommendation within it.",
        name="horizontal-pod-autoscaler-downscale-stabilization",
        kind=DURATION,
        config="HorizontalPodAutoscalerDownscaleStabilizationWindow",
    )
    cpu_initialization_period: float = flag(
        300.0,
        "Time after the start of a pod during which its CPU samples may be ignored.",
        name="horizontal-pod-autoscaler-cpu-initialization-period",
        kind=DURATION,
        config="HorizontalPodAutoscalerCPUInitializationPeriod",
    )
    initial_readiness_delay: float = flag(
        30.0,
        "Time after the start of a pod during which changes of its readiness count as its initial readiness.",
        name="horizontal-pod-autoscaler-initial-readiness-delay",
        kind=DURATION,
        config="HorizontalPodAutoscalerInitialReadinessDelay",
    )
    use_rest_clients: bool = flag(
        True,
        "Take metrics from the metrics APIs.",
        name="horizontal-pod-autoscaler-use-rest-clients",
        hidden=True,
        retired="Kubernetes removed it",
    )
    upscale_delay: float = flag(
        180.0,
        "Pause after scaling up.",
        name="horizontal-pod-autoscaler-upscale-delay",
        kind=DURATION,
        hidden=True,
        retired="Kubernetes removed it",
    )
    downscale_delay: float = flag(
        300.0,
        "Pause after scaling down.",
        name="horizontal-pod-autoscaler-downscale-delay",
        kind=DURATION,
        hidden=True,
        retired="Kubernetes removed it",
    )
