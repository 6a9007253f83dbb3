"""Metrics of the EndpointSlice mirroring controller.

Source: kubernetes v1.36 pkg/controller/endpointslicemirroring/metrics/{metrics,cache}.go.
"""

from __future__ import annotations

from kcm.actors.controllers.network.endpointslice_mirroring.mirrors import MirrorPlan
from kcm.actors.controllers.network.shared.slice_totals import SliceTotals, slice_families
from kcm.protocols.objects import Key
from kcm.runtime.metrics.registry import Family, Metrics

_SUBSYSTEM = "endpoint_slice_mirroring_controller_"
_COUNTS = tuple(float(2 ** (number + 1)) for number in range(15))
_SECONDS = tuple(0.001 * 2**number for number in range(15))


def _per_sync(what: str, does: str) -> Family:
    return Family(
        name=f"{_SUBSYSTEM}{what}_{does}_per_sync",
        kind="histogram",
        help=f"Number of {what} {does} on each Endpoints sync",
        buckets=_COUNTS,
    )


ADDED, UPDATED, REMOVED = (_per_sync("endpoints", change) for change in ("added", "updated", "removed"))
SKIPPED = Family(
    name=f"{_SUBSYSTEM}addresses_skipped_per_sync",
    kind="histogram",
    help="Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
    buckets=_COUNTS,
)
DURATION = Family(
    name=f"{_SUBSYSTEM}endpoints_sync_duration",
    kind="histogram",
    help="Duration of syncEndpoints() in seconds",
    buckets=_SECONDS,
)
FAMILIES = slice_families(_SUBSYSTEM, stability="ALPHA")
DESIRED, SLICES, DESIRED_SLICES, CHANGES = FAMILIES


class MirrorMetrics:
    """Metrics of the mirroring controller. Gauges are totals over all Endpoints, as of the last sync of each."""

    def __init__(self, metrics: Metrics) -> None:
        self._histograms = {family: metrics.histogram(family) for family in (ADDED, UPDATED, REMOVED, SKIPPED)}
        self._duration = metrics.histogram(DURATION)
        self._totals = SliceTotals(metrics, FAMILIES)
        self.changed = self._totals.changed

    def took(self, seconds: float) -> None:
        self._duration.observe(seconds)

    def planned(self, key: Key, plan: MirrorPlan, *, skipped: int) -> None:
        for family, count in (
            (ADDED, plan.added),
            (UPDATED, plan.updated),
            (REMOVED, plan.removed),
            (SKIPPED, skipped),
        ):
            self._histograms[family].observe(count)
        self._totals.replace(key, {DESIRED: plan.endpoints, SLICES: plan.slices, DESIRED_SLICES: plan.slices})

    def forget(self, key: Key) -> None:
        self._totals.replace(key, None)
