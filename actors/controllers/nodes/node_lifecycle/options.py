"""Flags of node-lifecycle.

Defaults: kubernetes v1.36 cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go, but for
--node-monitor-grace-period, which is 40s as in the releases that had these flags of old.
"""

from __future__ import annotations

from actors.options import ControllerOptions
from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import DURATION, FLOAT32

GONE = "Kubernetes removed it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycleOptions(ControllerOptions):
    configz_block = "NodeLifecycleController"

    monitor_grace_period: float = flag(
        40.0,
        "A node that says nothing for so long is unhealthy.",
        name="node-monitor-grace-period",
        kind=DURATION,
        config="NodeMonitorGracePeriod",
    )
    startup_grace_period: float = flag(
        60.0,
        "The same for a node that has just started.",
        name="node-startup-grace-period",
        kind=DURATION,
        config="NodeStartupGracePeriod",
    )
    eviction_rate: float = flag(
        0.1,
        "Nodes a second to be emptied in a zone that is well.",
        name="node-eviction-rate",
        kind=FLOAT32,
        config="NodeEvictionRate",
    )
    secondary_eviction_rate: float = flag(
        0.01,
        "Nodes a second to be emptied in a zone that is not; 0 in a cluster that is not large.",
        name="secondary-node-eviction-rate",
        kind=FLOAT32,
        config="SecondaryNodeEvictionRate",
    )
    large_cluster_size_threshold: int = flag(
        50, "With more nodes a cluster is large.", config="LargeClusterSizeThreshold"
    )
    unhealthy_zone_threshold: float = flag(
        0.55,
        "A zone is not well when this part of its nodes, and at least 3, are not ready.",
        kind=FLOAT32,
        config="UnhealthyZoneThreshold",
    )
    full_disruption_eviction_rate: float = flag(
        -1.0,
        "Nodes a second to be emptied in a zone none of whose nodes is ready, while other zones have some; "
        "below 0: as --node-eviction-rate.",
        kind=FLOAT32,
    )
    pause_evictions_in_disrupted_zones: bool = flag(
        False, "Empty no node of a disrupted zone, in part or whole, and take NoExecute taints back there."
    )
    live_heartbeat_reads: bool = flag(
        False,
        "Ask the server for a node's Lease before the node is given up while its watch says nothing; "
        "else wait for the watch.",
    )
    pod_eviction_timeout: float = flag(
        300.0,
        "Pods of a failed node are deleted after this, without taints.",
        kind=DURATION,
        config="PodEvictionTimeout",
    )
    enable_taint_manager: bool = flag(
        True, "Evict by taints; else, as with --feature-gates=TaintBasedEvictions=false, by deleting pods directly."
    )
    deleting_pods_qps: float = flag(
        0.1, "Nodes a second whose pods are deleted, without taints; --node-eviction-rate if not given.", kind=FLOAT32
    )
    deleting_pods_burst: int = flag(1, "Nodes whose pods are deleted at once, without taints.")
    register_retry_count: int = flag(10, "Tries to register a node.", hidden=True, retired=GONE)
