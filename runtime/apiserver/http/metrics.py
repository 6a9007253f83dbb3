"""Request metrics, and /metrics in the text format of Prometheus.

Source for names and labels: apiserver pkg/endpoints/metrics/metrics.go, pkg/storage/etcd3/metrics (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate

from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Metrics, Reading, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
REQUESTS = Family(
    name="apiserver_request_total",
    kind="counter",
    help="Counter of apiserver requests broken out for each verb, dry run value, group, version, "
    "resource, scope, component, and HTTP response code.",
    labels=("verb", "dry_run", *_REQUEST_LABELS[1:], "code"),
    stability="STABLE",
)
DURATION = Family(
    name="apiserver_request_duration_seconds",
    kind="histogram",
    help="Response latency distribution in seconds for each verb, dry run value, group, version, "
    "resource, subresource, scope and component.",
    labels=("verb", "dry_run", *_REQUEST_LABELS[1:]),
    buckets=(*_BUCKETS, 30.0, 45.0, 60.0),
    stability="STABLE",
)
LONG_RUNNING = Family(
    name="apiserver_longrunning_requests",
    kind="gauge",
    help="Gauge of all active long-running apiserver requests broken out by verb, group, version, "
    "resource, scope and component. Not all requests are tracked this way.",
    labels=_REQUEST_LABELS,
    stability="STABLE",
)
OBJECTS = Family(
    name="apiserver_resource_objects",
    kind="gauge",
    help="Number of stored objects at the time of last check split by kind. In case of a fetching error, "
    "the value will be -1.",
    labels=("group", "resource"),
)
_COMPONENT = "apiserver"
_VERBS = {"get": "GET", "list": "LIST", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH"} | {
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}

MOST_SERIES = 10_000  # combinations of labels; further requests are counted without their resource


class RequestMetrics:
    """Metrics of the server's requests and objects. Not thread-safe."""

    def __init__(self) -> None:
        self._metrics = Metrics()
        self._series_of: dict[tuple[str | bool | int, ...], tuple[Counter, Histogram]] = {}

    def responded(self, info: RequestInfo, *, dry_run: bool, code: int, seconds: float) -> None:
        labels_key = (*info[:5], bool(info.namespace), bool(info.name), dry_run, code)
        found = self._series_of.get(labels_key)
        if found is None:
            if len(self._series_of) >= MOST_SERIES:  # custom resources are created and deleted without limit
                info = RequestInfo(info.verb, is_resource_request=False)
                labels_key = (*info[:5], False, False, dry_run, code)
            verb, *labels = _labels(info)
            values = (verb, "All" if dry_run else "", *labels)
            counter = self._metrics.counter(REQUESTS, *values, str(code))
            found = self._series_of[labels_key] = (counter, self._metrics.histogram(DURATION, *values))
        found[0].inc()
        found[1].observe(seconds)

    def watching(self, info: RequestInfo, change: int) -> None:
        """Record that a watch has started (change 1) or ended (change -1)."""
        self._metrics.gauge(LONG_RUNNING, *_labels(info)).inc(change)
        if change < 0:
            verb, *labels = _labels(info)
            self._metrics.counter(REQUESTS, verb, "", *labels, "200").inc()

    def count_objects(self, read: Callable[[], Iterable[tuple[str, str, int]]]) -> None:
        """Export the number of stored objects by resource.

        read: returns (group, resource, number of objects) for each resource
        """

        def readings() -> Iterator[Reading]:
            for group, resource, count in read():
                yield OBJECTS, (group, resource), float(count)

        self._metrics.add_source(readings)

    def text(self) -> bytes:
        return "".join(_lines(self._metrics)).encode()


@lru_cache(maxsize=4096)
def _labels_of(verb: str, group: str, version: str, resource: str, subresource: str, scope: str) -> tuple[str, ...]:
    return _VERBS.get(verb, verb.upper()), group, version, resource, subresource, scope, _COMPONENT


def _labels(info: RequestInfo) -> tuple[str, ...]:
    """Return the label values of a request, in the order of _REQUEST_LABELS."""
    if not info.is_resource_request:
        return _labels_of(
            info.verb,
            "",
            "",
            "",
            "",
            "",
        )
    if info.name or info.verb == "create":
        scope = "resource"
    else:
        scope = "namespace" if info.namespace else "cluster"
    return _labels_of(info.verb, info.group, info.version, info.resource, info.subresource, scope)


# --- Prometheus' text


def _lines(metrics: Metrics) -> Iterator[str]:
    for family, all_series in metrics.collect():
        yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        for values, series in all_series:
            labels = [f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, values, strict=True)]
            yield from _samples(family, labels, series)


def _samples(family: Family, labels: list[str], series: Series) -> Iterator[str]:
    if isinstance(series, Counter | Gauge):
        yield f"{family.name}{{{','.join(labels)}}} {series.value:.15g}\n"
        return
    bounds = [*(f"{bound:g}" for bound in series.bounds), "+Inf"]
    counts = list(accumulate(series.counts))
    for bound, count in zip(bounds, counts, strict=True):
        within = f'le="{bound}"'
        yield f"{family.name}_bucket{{{','.join([*labels, within])}}} {count}\n"
    yield f"{family.name}_sum{{{','.join(labels)}}} {series.sum:.9g}\n"
    yield f"{family.name}_count{{{','.join(labels)}}} {counts[-1]}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
