"""Flags of the EndpointSlice controller."""

from __future__ import annotations

from collections.abc import Iterator

from actors.controllers.shared.option_checks import outside
from actors.options import ControllerOptions, Options
from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSliceOptions(ControllerOptions):
    configz_block = "EndpointSliceController"

    concurrent_syncs: int = flag(
        5,
        "Services synced at once, 1 to 50.",
        name="concurrent-service-endpoint-syncs",
        config="ConcurrentServiceEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Changes of pods are gathered for so long.",
        name="endpointslice-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )
    max_endpoints: int = flag(
        100, "Endpoints in one slice, 1 to 1000.", name="max-endpoints-per-slice", config="MaxEndpointsPerSlice"
    )


def limits(options: Options) -> Iterator[str]:
    slices = options[EndpointSliceOptions]
    yield from outside("concurrent-service-endpoint-syncs", slices.concurrent_syncs, largest=50)
    yield from outside("max-endpoints-per-slice", slices.max_endpoints, largest=1000)
