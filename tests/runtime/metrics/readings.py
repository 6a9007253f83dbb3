"""What a registry of metrics shows, in a form that tests compare."""

from __future__ import annotations

from kcm.runtime.metrics.registry import Histogram, Metrics


def readings(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """(family, label values...) → value; a histogram's is its number of observations."""
    return {
        (family.name, *labels): float(sum(series.counts)) if isinstance(series, Histogram) else series.value
        for family, all_series in metrics.collect()
        for labels, series in all_series
    }
