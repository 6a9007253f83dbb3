"""What the flags mean for node-lifecycle."""

from __future__ import annotations

from dataclasses import field

from kcm.actors.controllers.nodes.node_lifecycle.health import Patience
from kcm.actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.options import Options
from kcm.protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """burst: nodes of a zone that may be let through at once.

    by_taints: nodes are tainted NoExecute and taint-eviction deletes their pods; else this controller deletes them
    itself, pod_eviction_timeout seconds after the node's last sign of life. live_reads: fetch a Lease before its node
    is given up while the table is stale.
    """

    patience: Patience = field(default_factory=lambda: Patience(grace=40.0, startup_grace=60.0))
    limits: EvictionLimits = field(default_factory=EvictionLimits)
    burst: int = 1
    by_taints: bool = True
    pod_eviction_timeout: float = 300.0
    live_reads: bool = False


def lifecycle_settings(options: Options) -> LifecycleSettings:
    """Without taints --deleting-pods-qps, if given, is the rate of zones that are well, as once it was."""
    own = options[NodeLifecycleOptions]
    by_taints = options.feature_gates["TaintBasedEvictions"] and own.enable_taint_manager
    rate = own.eviction_rate
    if not by_taints and "deleting-pods-qps" in options.given:
        rate = own.deleting_pods_qps
    return LifecycleSettings(
        patience=Patience(grace=own.monitor_grace_period, startup_grace=own.startup_grace_period),
        limits=EvictionLimits(
            eviction_rate=rate,
            secondary_rate=own.secondary_eviction_rate,
            full_disruption_rate=rate if own.full_disruption_eviction_rate < 0 else own.full_disruption_eviction_rate,
            large_zone=own.large_cluster_size_threshold,
            unhealthy_threshold=own.unhealthy_zone_threshold,
            pause_when_disrupted=own.pause_evictions_in_disrupted_zones,
        ),
        burst=1 if by_taints else max(1, own.deleting_pods_burst),
        by_taints=by_taints,
        pod_eviction_timeout=own.pod_eviction_timeout,
        live_reads=own.live_heartbeat_reads,
    )
