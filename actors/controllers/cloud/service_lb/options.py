"""Flags of the service load balancer controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLoadBalancerOptions(ControllerOptions):
    configz_block = "ServiceController"

    concurrent_syncs: int = flag(
        1,
        "Number of Services that are synced concurrently.",
        name="concurrent-service-syncs",
        config="ConcurrentServiceSyncs",
    )
