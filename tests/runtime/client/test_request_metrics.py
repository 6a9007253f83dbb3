"""Metrics of requests, as client-go reports them."""

from __future__ import annotations

from kcm.runtime.client.request_metrics import ClientMetrics
from kcm.runtime.metrics.families import (
    REST_CLIENT_REQUEST_DURATION,
    REST_CLIENT_REQUEST_SIZE,
    REST_CLIENT_REQUESTS,
    REST_CLIENT_RESPONSE_SIZE,
    REST_CLIENT_RETRIES,
)
from kcm.runtime.metrics.registry import Metrics
from tests.runtime.metrics.readings import readings

HOST = "api:6443"


def test_request_is_counted_by_its_status_or_by_error() -> None:
    metrics = Metrics()
    requests = ClientMetrics(metrics, host=HOST)
    for status in (200, 503, 200, 0):
        requests.attempted("GET", status)
    requests.retried("GET", 503)
    assert readings(metrics) == {
        (REST_CLIENT_REQUESTS.name, "200", "GET", HOST): 2.0,
        (REST_CLIENT_REQUESTS.name, "503", "GET", HOST): 1.0,
        (REST_CLIENT_REQUESTS.name, "<error>", "GET", HOST): 1.0,
        (REST_CLIENT_RETRIES.name, "503", "GET", HOST): 1.0,
    }


def test_empty_bodies_have_no_size() -> None:
    metrics = Metrics()
    requests = ClientMetrics(metrics, host=HOST)
    requests.finished("GET", seconds=0.5, sent=0, received=2048)
    requests.finished("DELETE", seconds=1.5, sent=0, received=0)
    sizes = {key: value for key, value in readings(metrics).items() if value}
    assert sizes == {
        (REST_CLIENT_REQUEST_DURATION.name, "GET", HOST): 1.0,
        (REST_CLIENT_REQUEST_DURATION.name, "DELETE", HOST): 1.0,
        (REST_CLIENT_RESPONSE_SIZE.name, "GET", HOST): 1.0,
    }
    assert metrics.histogram(REST_CLIENT_REQUEST_DURATION, "DELETE", HOST).sum == 1.5
    assert metrics.histogram(REST_CLIENT_REQUEST_SIZE, "GET", HOST).sum == 0
