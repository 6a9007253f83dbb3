"""Flags of the EndpointSlice mirroring controller."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.shared.option_checks import range_errors
from kcm.actors.options import ControllerOptions, Options
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class EndpointSliceMirroringOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "EndpointSliceMirroringController"

    concurrent_syncs: int = flag(
        5,
        "Number of Endpoints that are mirrored concurrently, 1 to 50.",
        name="mirroring-concurrent-service-endpoint-syncs",
        config="MirroringConcurrentServiceEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Time for which changes are collected before mirrored EndpointSlices are updated.",
        name="mirroring-endpointslice-updates-batch-period",
        kind=DURATION,
        config="MirroringEndpointUpdatesBatchPeriod",
    )
    max_endpoints: int = flag(
        1000,
        "Maximum number of addresses to mirror from one subset, 1 to 1000.",
        name="mirroring-max-endpoints-per-subset",
        config="MirroringMaxEndpointsPerSubset",
    )


def check_limits(options: Options) -> Iterator[str]:
    mirroring = options[EndpointSliceMirroringOptions]
    yield from range_errors("mirroring-concurrent-service-endpoint-syncs", mirroring.concurrent_syncs, largest=50)
    yield from range_errors("mirroring-max-endpoints-per-subset", mirroring.max_endpoints, largest=1000)
