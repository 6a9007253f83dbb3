"""Flags of the service load balancer controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class ServiceLoadBalancerOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ServiceController"

    concurrent_syncs: int = flag(
        1,
        "Number of Services that are synced concurrently.",
        name="concurrent-service-syncs",
        config="ConcurrentServiceSyncs",
    )
