"""Flags of node-lifecycle-controller, and the settings that are derived from them.

Defaults: kubernetes v1.36 cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go, except for
--node-monitor-grace-period, which is 40s as in the releases that first had these flags.
"""

from __future__ import annotations

from msgspec import Struct, field

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.options import ControllerOptions, Options
from kcm.protocols.nodes import NodeFacts
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION, FLOAT32

GONE = "Kubernetes removed it"


class NodeLifecycleOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "NodeLifecycleController"

    monitor_grace_period: float = flag(
        40.0,
        "Time without a heartbeat after which a node is marked unhealthy.",
        name="node-monitor-grace-period",
        kind=DURATION,
        config="NodeMonitorGracePeriod",
    )
    startup_grace_period: float = flag(
        60.0,
        "Time without a heartbeat after which a node that has just started is marked unhealthy.",
        name="node-startup-grace-period",
        kind=DURATION,
        config="NodeStartupGracePeriod",
    )
    eviction_rate: float = flag(
        0.1,
        "Nodes per second to evict pods from when a node fails in a healthy zone.",
        name="node-eviction-rate",
        kind=FLOAT32,
        config="NodeEvictionRate",
    )
    secondary_eviction_rate: float = flag(
        0.01,
        "Nodes per second to evict pods from when a node fails in an unhealthy zone. 0 in a cluster that is not large.",
        name="secondary-node-eviction-rate",
        kind=FLOAT32,
        config="SecondaryNodeEvictionRate",
    )
    large_cluster_size_threshold: int = flag(
        50, "Number of nodes above which a cluster counts as large.", config="LargeClusterSizeThreshold"
    )
    unhealthy_zone_threshold: float = flag(
        0.55,
        "Fraction of nodes, at least 3, that must be not ready for a zone to count as unhealthy.",
        kind=FLOAT32,
        config="UnhealthyZoneThreshold",
    )
    full_disruption_eviction_rate: float = flag(
        -1.0,
        "Nodes per second to evict pods from in a zone without a ready node, while other zones have ready nodes. "
        "A negative value means --node-eviction-rate.",
        kind=FLOAT32,
    )
    pause_evictions_in_disrupted_zones: bool = flag(
        False, "Stop evictions in a partially or fully disrupted zone, and remove its NoExecute taints."
    )
    live_heartbeat_reads: bool = flag(
        False,
        "Read a node's Lease from the API server before the node is marked unhealthy while its watch is silent. "
        "Otherwise wait for the watch.",
    )
    pod_eviction_timeout: float = flag(
        300.0,
        "Grace period before the pods of a failed node are deleted, without taint-based evictions.",
        kind=DURATION,
        config="PodEvictionTimeout",
    )
    enable_taint_manager: bool = flag(
        True,
        "Evict pods by NoExecute taints. If false, or with --feature-gates=TaintBasedEvictions=false, pods are "
        "deleted directly.",
    )
    deleting_pods_qps: float = flag(
        0.1,
        "Nodes per second whose pods are deleted, without taint-based evictions. The default is --node-eviction-rate.",
        kind=FLOAT32,
    )
    deleting_pods_burst: int = flag(1, "Burst of nodes whose pods are deleted, without taint-based evictions.")
    register_retry_count: int = flag(10, "Tries to register a node.", hidden=True, retired=GONE)


class GracePeriods(Struct, frozen=True, kw_only=True):
    """Seconds without a heartbeat after which a node is unhealthy."""

    grace: float
    startup_grace: float  # for a node that has never had a condition Ready

    def period_of(self, node: NodeFacts) -> float:
        return self.startup_grace if node.ready is None else self.grace

    @property
    def stale_after(self) -> float:
        """Seconds without a watch event or bookmark after which the table of nodes or Leases counts as stale.

        This is a quarter of the grace period, at most 10 s, in which a kubelet renews its Lease about once. A table
        that is not stale can have missed one renewal, which is not enough for a healthy node to exceed its grace
        period.
        """
        return min(10.0, self.grace / 4)


class LifecycleSettings(Struct, frozen=True, kw_only=True):
    """Settings of node-lifecycle-controller, derived from its flags.

    If taint_based is true, failed nodes are tainted NoExecute, and taint-eviction-controller deletes their pods.
    Otherwise this controller deletes the pods itself, pod_eviction_timeout seconds after the node's last heartbeat.
    """

    grace_periods: GracePeriods = field(default_factory=lambda: GracePeriods(grace=40.0, startup_grace=60.0))
    limits: EvictionLimits = field(default_factory=EvictionLimits)
    burst: int = 1  # nodes of a zone that may be evicted at once
    taint_based: bool = True
    pod_eviction_timeout: float = 300.0
    live_reads: bool = False  # fetch a Lease before its node is marked unhealthy while the table is stale


def lifecycle_settings(options: Options) -> LifecycleSettings:
    """Derive the settings of node-lifecycle-controller from the flags.

    Without taint-based evictions, --deleting-pods-qps (if given) replaces --node-eviction-rate, as in the Kubernetes
    releases that had this flag.
    """
    own = options[NodeLifecycleOptions]
    taint_based = options.feature_gates["TaintBasedEvictions"] and own.enable_taint_manager
    rate = own.eviction_rate
    if not taint_based and "deleting-pods-qps" in options.given:
        rate = own.deleting_pods_qps
    return LifecycleSettings(
        grace_periods=GracePeriods(grace=own.monitor_grace_period, startup_grace=own.startup_grace_period),
        limits=EvictionLimits(
            eviction_rate=rate,
            secondary_rate=own.secondary_eviction_rate,
            full_disruption_rate=rate if own.full_disruption_eviction_rate < 0 else own.full_disruption_eviction_rate,
            large_zone=own.large_cluster_size_threshold,
            unhealthy_threshold=own.unhealthy_zone_threshold,
            pause_when_disrupted=own.pause_evictions_in_disrupted_zones,
        ),
        burst=1 if taint_based else max(1, own.deleting_pods_burst),
        taint_based=taint_based,
        pod_eviction_timeout=own.pod_eviction_timeout,
        live_reads=own.live_heartbeat_reads,
    )
