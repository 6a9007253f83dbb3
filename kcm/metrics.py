"""Metrics of a controller."""

from kcm.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics

__all__ = ["Counter", "Family", "Gauge", "Histogram", "Metrics"]
