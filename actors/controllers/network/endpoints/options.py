"""Flags of the Endpoints controller."""

from __future__ import annotations

from dataclasses import dataclass

from actors.options import ControllerOptions
from runtime.flags.declaration import flag
from runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsOptions(ControllerOptions):
    configz_block = "EndpointController"

    concurrent_syncs: int = flag(
        5, "Services synced at once.", name="concurrent-endpoint-syncs", config="ConcurrentEndpointSyncs"
    )
    updates_batch_period: float = flag(
        0.0,
        "Changes of pods are gathered for so long.",
        name="endpoint-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )
