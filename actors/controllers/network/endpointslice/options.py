"""Flags of the EndpointSlice controller."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.shared.option_checks import range_errors
from kcm.actors.options import ControllerOptions, Options
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class EndpointSliceOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "EndpointSliceController"

    concurrent_syncs: int = flag(
        5,
        "Number of Services whose EndpointSlices are synced concurrently, 1 to 50.",
        name="concurrent-service-endpoint-syncs",
        config="ConcurrentServiceEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Time for which changes of pods are collected before EndpointSlices are updated.",
        name="endpointslice-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )
    max_endpoints: int = flag(
        100,
        "Maximum number of endpoints in an EndpointSlice, 1 to 1000.",
        name="max-endpoints-per-slice",
        config="MaxEndpointsPerSlice",
    )


def check_limits(options: Options) -> Iterator[str]:
    slices = options[EndpointSliceOptions]
    yield from range_errors("concurrent-service-endpoint-syncs", slices.concurrent_syncs, largest=50)
    yield from range_errors("max-endpoints-per-slice", slices.max_endpoints, largest=1000)
