"""Metrics that the EndpointSlice and the mirroring controller both have, each with its own name prefix.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/metrics, pkg/controller/endpointslicemirroring/metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcm.protocols.objects import Key
from kcm.runtime.metrics.registry import Family, Metrics


class SliceFamilies(NamedTuple):
    desired: Family
    slices: Family
    desired_slices: Family
    changes: Family


def slice_families(subsystem: str, *, stability: str) -> SliceFamilies:
    """Return the definitions of the metrics that both controllers of EndpointSlices have.

    subsystem: prefix of the metrics' names.
    stability: stability level of the gauges; the counter is ALPHA.
    """
    return SliceFamilies(
        Family(
            name=f"{subsystem}endpoints_desired",
            kind="gauge",
            help="Number of endpoints desired",
            stability=stability,
        ),
        Family(
            name=f"{subsystem}num_endpoint_slices",
            kind="gauge",
            help="Number of EndpointSlices",
            stability=stability,
        ),
        Family(
            name=f"{subsystem}desired_endpoint_slices",
            kind="gauge",
            help="Number of EndpointSlices that would exist with perfect endpoint allocation",
            stability=stability,
        ),
        Family(
            name=f"{subsystem}changes", kind="counter", help="Number of EndpointSlice changes", labels=("operation",)
        ),
    )


class SliceTotals:
    """Gauges with totals over all keys (Services or Endpoints), and a counter of EndpointSlice writes.

    Each key contributes the numbers of its last sync.
    """

    def __init__(self, metrics: Metrics, families: SliceFamilies) -> None:
        self._operations = {
            operation: metrics.counter(families.changes, operation) for operation in ("create", "update", "delete")
        }
        gauges = (families.desired, families.slices, families.desired_slices)
        self._totals = {family: metrics.gauge(family) for family in gauges}
        self._by_key: dict[Key, Mapping[Family, int]] = {}
        for gauge in self._totals.values():
            gauge.set(0)

    def changed(self, operation: str) -> None:
        """Count a write of an EndpointSlice. operation: "create", "update" or "delete"."""
        self._operations[operation].inc()

    def replace(self, key: Key, now: Mapping[Family, int] | None) -> None:
        """Replace the numbers that a key contributes to the totals. now: value by gauge; None removes the key."""
        before = self._by_key.pop(key, {})
        if now is not None:
            self._by_key[key] = now
        for family, gauge in self._totals.items():
            more = (now or {}).get(family, 0) - before.get(family, 0)
            if more:
                gauge.inc(more)
