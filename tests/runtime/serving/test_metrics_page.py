"""The page /metrics."""

from __future__ import annotations

import re

from kcm.runtime.metrics.families import WORKQUEUE_ADDS, WORKQUEUE_QUEUE_DURATION
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.serving.metrics_page import MetricsPage
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage


def test_metrics_are_prometheus_text(site: Site, request_page: RequestPage) -> None:
    site.metrics.counter(WORKQUEUE_ADDS, "replicaset").inc(3)
    waited = site.metrics.histogram(WORKQUEUE_QUEUE_DURATION, "replicaset")
    for seconds in (5e-9, 0.05, 20.0):
        waited.observe(seconds)
    answer = request_page("/metrics")
    lines = answer.text.splitlines()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "# TYPE workqueue_adds_total counter" in lines
    assert 'workqueue_adds_total{name="replicaset"} 3.0' in lines
    buckets = [line for line in lines if line.startswith("workqueue_queue_duration_seconds_bucket")]
    assert buckets[0] == 'workqueue_queue_duration_seconds_bucket{le="1e-08",name="replicaset"} 1.0'
    assert 'workqueue_queue_duration_seconds_bucket{le="0.1",name="replicaset"} 2.0' in buckets
    assert buckets[-1] == 'workqueue_queue_duration_seconds_bucket{le="+Inf",name="replicaset"} 3.0'
    assert 'workqueue_queue_duration_seconds_count{name="replicaset"} 3.0' in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


def test_metrics_are_open_metrics_if_accepted(site: Site, request_page: RequestPage) -> None:
    site.metrics.counter(WORKQUEUE_ADDS, "replicaset").inc()
    answer = request_page("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_counter_without_suffix_total_keeps_its_name(site: Site, request_page: RequestPage) -> None:
    site.metrics.counter(Family(name="slice_changes", kind="counter", help="x", labels=("operation",)), "create").inc()
    lines = request_page("/metrics").text.splitlines()
    assert "# TYPE slice_changes counter" in lines
    assert 'slice_changes{operation="create"} 1.0' in lines


def test_bucket_bounds_are_written_as_go_writes_them() -> None:
    metrics = Metrics()
    bounds = (1e-8, 0.0001, 1.0, 604800.0, 2592000.0)
    metrics.histogram(Family(name="ages", kind="histogram", help="", buckets=bounds)).observe(2.0)
    page = MetricsPage(metrics, process=False).render("")[0].decode()
    assert re.findall(r'le="(.*?)"', page) == ["1e-08", "0.0001", "1", "604800", "2.592e+06", "+Inf"]


def test_page_of_indicators_shows_only_the_start_of_the_process() -> None:
    page = MetricsPage(Metrics(), process=False, start_time=True).render("")[0].decode()
    assert re.findall(r"^# HELP (\S+) (\S+)", page, re.MULTILINE) == [("process_start_time_seconds", "[ALPHA]")]
