"""Values of a metrics registry in a form that tests can compare."""

from __future__ import annotations

from kcm.runtime.metrics.registry import Histogram, Metrics


def readings(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return {(family, label values…): value}. The value of a histogram is its number of observations."""
    return {
        (family.name, *labels): float(sum(series.counts)) if isinstance(series, Histogram) else series.value
        for family, all_series in metrics.collect()
        for labels, series in all_series
    }
