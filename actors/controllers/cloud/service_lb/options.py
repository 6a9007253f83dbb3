"""Flags of the service load balancer controller."""

from __future__ import annotations

from dataclasses import dataclass

from actors.options import ControllerOptions
from runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLoadBalancerOptions(ControllerOptions):
    configz_block = "ServiceController"

    concurrent_syncs: int = flag(
        1, "Services synced at once.", name="concurrent-service-syncs", config="ConcurrentServiceSyncs"
    )
