"""Tracer and exporter: sampling, the collector's failures, and the missing extra."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.runtime.tracing.configuration import TracingConfiguration, TracingError
from kcm.runtime.tracing.provider import OpenTracer
from tests.support.collector import Collector, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def open_tracer(collector: Collector, log: FilteringBoundLogger, *, rate: float = 1.0) -> OpenTracer:
    configuration = TracingConfiguration(url=collector.url, sampling_rate=rate)
    return OpenTracer(configuration, service="kube-controller-manager", instance="host_1", version="1", log=log)


def test_spans_are_exported_with_the_identity_of_the_process(collector: Collector, log: FilteringBoundLogger) -> None:
    opened = open_tracer(collector, log)
    opened.tracer.start_span("one").end()
    opened.close()
    [request] = collector.requests
    [spans] = request.resource_spans
    found = {attribute.key: attribute.value.string_value for attribute in spans.resource.attributes}
    assert found == {
        "service.name": "kube-controller-manager",
        "service.instance.id": "host_1",
        "service.version": "1",
    }
    [scope] = spans.scope_spans
    assert (scope.scope.name, [span.name for span in scope.spans]) == ("kcm", ["one"])


def test_rate_of_zero_exports_nothing(collector: Collector, log: FilteringBoundLogger) -> None:
    opened = open_tracer(collector, log, rate=0.0)
    span = opened.tracer.start_span("one")
    assert not span.is_recording()
    span.end()
    opened.close()
    assert collector.requests == []


def test_failing_collector_is_logged_once(
    collector: Collector, log: FilteringBoundLogger, logs: LogCapture, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = open_tracer(collector, log)
    collector.status = 400
    for _ in range(2):
        opened.tracer.start_span("lost").end()
        opened.flush()
    collector.status = 200
    opened.tracer.start_span("received").end()
    opened.close()
    assert [entry["event"] for entry in logs.entries] == [
        "cannot export traces, dropping spans",
        "exporting traces again",
    ]
    [request] = collector.requests
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["received"]
    assert capfd.readouterr() == ("", "")


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, log: FilteringBoundLogger) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(TracingError) as refusal:
        OpenTracer(TracingConfiguration(), service="a", instance="b", version="c", log=log)
    assert "pip install 'kcm[tracing]'" in str(refusal.value)
