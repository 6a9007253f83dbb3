"""/metrics: our own series in Prometheus' text format, or in OpenMetrics if the request accepts it."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

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
from prometheus_client.utils import floatToGoString

from kcm.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics, Series

# A counter without "_total" in its name, which the library takes for a metric of unknown type. OpenMetrics has none.
_UNTYPED = re.compile(rb"^(# TYPE \S+) untyped$", re.MULTILINE)


class MetricsPage:
    """Page of some metrics.

    process: add process_* and python_* of this process.
    start_time: add only process_start_time_seconds of them, as on upstream's page /metrics/slis.
    """

    def __init__(self, metrics: Metrics, *, process: bool, start_time: bool = False) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        if process:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
            GCCollector(registry=self._registry)
            self._registry.register(_GoProcess())
        if start_time:
            self._registry.register(_StartTime())
        self._registry.register(_FromMetrics(metrics))

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type. accept: the request's header, "" for any."""
        encode, content_type = choose_encoder(accept)
        body = encode(self._registry)
        if content_type.startswith("text/plain"):
            body = _UNTYPED.sub(rb"\1 counter", body)
        return body, content_type


class _StartTime(Collector):
    def collect(self) -> Iterator[Metric]:
        for metric in ProcessCollector(registry=None).collect():
            if metric.name == "process_start_time_seconds":
                metric.documentation = f"[ALPHA] {metric.documentation}"
                yield metric


class _GoProcess(Collector):
    """Metrics that Go's runtime and its Prometheus client report of each process, as far as Python has a counterpart.

    With them the panels of dashboards for kube-controller-manager have data. The help texts are those of the Prometheus
    client for Go: as goroutines count the threads and the tasks of this server, as version that of Python.
    """

    def collect(self) -> Iterator[Metric]:
        threads = threading.active_count()
        with contextlib.suppress(RuntimeError):  # no event loop runs on this thread
            tasks = len(asyncio.all_tasks())
            yield GaugeMetricFamily("go_goroutines", "Number of goroutines that currently exist.", threads + tasks)
        yield GaugeMetricFamily("go_threads", "Number of OS threads created.", threads)
        info = GaugeMetricFamily("go_info", "Information about the Go environment.", labels=["version"])
        info.add_metric([f"python{platform.python_version()}"], 1)
        yield info
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource  # not on every platform

            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            most = float(2**64 - 1) if limit == resource.RLIM_INFINITY else float(limit)
            yield GaugeMetricFamily(
                "process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", most
            )
        with contextlib.suppress(OSError, ValueError, KeyError):
            traffic = _network_traffic(Path("/proc/self/net/netstat").read_text())
            for name, direction, value in zip(("receive", "transmit"), ("received", "sent"), traffic, strict=True):
                yield CounterMetricFamily(
                    f"process_network_{name}_bytes",
                    f"Number of bytes {direction} by the process over the network.",
                    value,
                )


def _network_traffic(netstat: str) -> tuple[float, float]:
    """Return the received and sent bytes in the text of /proc/self/net/netstat. Raises KeyError without them."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("IpExt:")]
    counts = dict(zip(lines[0], lines[1], strict=True)) if len(lines) > 1 else {}
    return float(counts["InOctets"]), float(counts["OutOctets"])


class _FromMetrics(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for family, all_series in self._metrics.collect():
            yield _metric(family, all_series)


def _metric(family: Family, all_series: Iterable[tuple[tuple[str, ...], Series]]) -> Metric:
    metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | UnknownMetricFamily
    help_text = f"[{family.stability}] {family.help}" if family.stability else family.help
    match family.kind:
        case "counter" if not family.name.endswith("_total"):  # CounterMetricFamily would add that
            metric = UnknownMetricFamily(family.name, help_text, labels=family.labels)
        case "counter":
            metric = CounterMetricFamily(family.name, help_text, labels=family.labels)
        case "gauge":
            metric = GaugeMetricFamily(family.name, help_text, labels=family.labels)
        case "histogram":
            metric = HistogramMetricFamily(family.name, help_text, labels=family.labels)
    for labels, series in all_series:
        match metric, series:
            case HistogramMetricFamily(), Histogram():
                metric.add_metric(labels, buckets=_cumulated(series), sum_value=series.sum)
            case CounterMetricFamily() | GaugeMetricFamily() | UnknownMetricFamily(), Counter() | Gauge():
                metric.add_metric(labels, series.value)
    return metric


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    """Return cumulative buckets, with their bounds as Go's Prometheus client writes them ("1", "2.592e+06")."""
    bounds = [*map(_go_float, histogram.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))


def _go_float(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text.removesuffix(".0")
