"""Flags of the Endpoints controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsOptions(ControllerOptions):
    configz_block = "EndpointController"

    concurrent_syncs: int = flag(
        5,
        "Number of Services whose Endpoints are synced concurrently.",
        name="concurrent-endpoint-syncs",
        config="ConcurrentEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Time for which changes of pods are collected before Endpoints are updated.",
        name="endpoint-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )
