"""/metrics: our own series in Prometheus' text format, or in OpenMetrics if the request accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kcm.runtime.flags.values import show_float
from kcm.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics, Series


class MetricsPage:
    """Page of some metrics. process: add process_* and python_* of this process."""

    def __init__(self, metrics: Metrics, *, process: bool) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        if process:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
            GCCollector(registry=self._registry)
        self._registry.register(_FromMetrics(metrics))

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type. accept: the request's header, "" for any."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _FromMetrics(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for family, all_series in self._metrics.collect():
            yield _metric(family, all_series)


def _metric(family: Family, all_series: Iterable[tuple[tuple[str, ...], Series]]) -> Metric:
    metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | UnknownMetricFamily
    match family.kind:
        case "counter" if not family.name.endswith("_total"):  # CounterMetricFamily would add that
            metric = UnknownMetricFamily(family.name, family.help, labels=family.labels)
        case "counter":
            metric = CounterMetricFamily(family.name, family.help, labels=family.labels)
        case "gauge":
            metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        case "histogram":
            metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for labels, series in all_series:
        match metric, series:
            case HistogramMetricFamily(), Histogram():
                metric.add_metric(labels, buckets=_cumulated(series), sum_value=series.sum)
            case CounterMetricFamily() | GaugeMetricFamily() | UnknownMetricFamily(), Counter() | Gauge():
                metric.add_metric(labels, series.value)
    return metric


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus has them."""
    bounds = [*map(show_float, histogram.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
