"""Flags of node-lifecycle.

Defaults: kubernetes v1.36 cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go, but for
--node-monitor-grace-period, which is 40s as in the releases that had these flags of old.
"""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION, FLOAT32

GONE = "Kubernetes removed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions(ControllerOptions):
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
