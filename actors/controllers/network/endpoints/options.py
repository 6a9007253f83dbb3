"""Flags of the Endpoints controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class EndpointsOptions(ControllerOptions, frozen=True, kw_only=True):
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
