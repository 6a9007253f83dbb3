"""The flags of the workload controllers.

Names and defaults: cmd/kube-controller-manager/app/options/*controller.go, Kubernetes 1.36; flags
that later releases took away mean what they meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.flags.declaration import flag
from runtime.flags.values import DURATION, FLOAT

GONE = "Kubernetes removed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJob:
    concurrent_syncs: int = flag(
        5, "CronJobs synced at once.", name="concurrent-cron-job-syncs", config="ConcurrentCronJobSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    concurrent_syncs: int = flag(
        2, "DaemonSets synced at once.", name="concurrent-daemonset-syncs", config="ConcurrentDaemonSetSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    concurrent_syncs: int = flag(
        5, "Deployments synced at once.", name="concurrent-deployment-syncs", config="ConcurrentDeploymentSyncs"
    )
    sync_period: float = flag(
        30.0,
        "Every Deployment is looked at again after this.",
        name="deployment-controller-sync-period",
        kind=DURATION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalPodAutoscaler:
    concurrent_syncs: int = flag(
        5,
        "Autoscalers synced at once.",
        name="concurrent-horizontal-pod-autoscaler-syncs",
        config="ConcurrentHorizontalPodAutoscalerSyncs",
    )
    sync_period: float = flag(
        15.0,
        "How often the number of pods is decided.",
        name="horizontal-pod-autoscaler-sync-period",
        kind=DURATION,
        config="HorizontalPodAutoscalerSyncPeriod",
    )
    tolerance: float = flag(
        0.1,
        "Smaller changes of the ratio are left alone.",
        name="horizontal-pod-autoscaler-tolerance",
        kind=FLOAT,
        config="HorizontalPodAutoscalerTolerance",
    )
    downscale_stabilization: float = flag(
        300.0,
        "Never below what was wanted within this time.",
        name="horizontal-pod-autoscaler-downscale-stabilization",
        kind=DURATION,
        config="HorizontalPodAutoscalerDownscaleStabilizationWindow",
    )
    cpu_initialization_period: float = flag(
        300.0,
        "CPU of pods this young may be left out.",
        name="horizontal-pod-autoscaler-cpu-initialization-period",
        kind=DURATION,
        config="HorizontalPodAutoscalerCPUInitializationPeriod",
    )
    initial_readiness_delay: float = flag(
        30.0,
        "Pods this young that turn ready do so for the first time.",
        name="horizontal-pod-autoscaler-initial-readiness-delay",
        kind=DURATION,
        config="HorizontalPodAutoscalerInitialReadinessDelay",
    )
    use_rest_clients: bool = flag(
        True,
        "Take metrics from the metrics APIs.",
        name="horizontal-pod-autoscaler-use-rest-clients",
        hidden=True,
        retired=GONE,
    )
    upscale_delay: float = flag(
        180.0,
        "Pause after scaling up.",
        name="horizontal-pod-autoscaler-upscale-delay",
        kind=DURATION,
        hidden=True,
        retired=GONE,
    )
    downscale_delay: float = flag(
        300.0,
        "Pause after scaling down.",
        name="horizontal-pod-autoscaler-downscale-delay",
        kind=DURATION,
        hidden=True,
        retired=GONE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    concurrent_syncs: int = flag(5, "Jobs synced at once.", name="concurrent-job-syncs", config="ConcurrentJobSyncs")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGarbageCollector:
    terminated_pod_threshold: int = flag(
        12500,
        "Beyond so many terminated pods the oldest are deleted; 0: never.",
        name="terminated-pod-gc-threshold",
        config="TerminatedPodGCThreshold",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    concurrent_syncs: int = flag(
        5, "ReplicaSets synced at once.", name="concurrent-replicaset-syncs", config="ConcurrentRSSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    concurrent_syncs: int = flag(
        5, "ReplicationControllers synced at once.", name="concurrent-rc-syncs", config="ConcurrentRCSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    concurrent_syncs: int = flag(50, "Claims synced at once.", name="concurrent-resourceclaim-syncs")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSet:
    concurrent_syncs: int = flag(
        5, "StatefulSets synced at once.", name="concurrent-statefulset-syncs", config="ConcurrentStatefulSetSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlAfterFinished:
    concurrent_syncs: int = flag(
        5, "Jobs synced at once.", name="concurrent-ttl-after-finished-syncs", config="ConcurrentTTLSyncs"
    )
