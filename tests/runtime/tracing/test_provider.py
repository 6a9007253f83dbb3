"""Tracer and exporter: sampling, the collector's failures, and the missing extra."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.runtime.tracing.configuration import TracingConfiguration, TracingError
from kcm.runtime.tracing.provider import LAST_EXPORT, OpenTracer, reporting_exporter
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


class ScriptedExporter(SpanExporter):
    """Exporter that returns or raises the given results, in order."""

    def __init__(self, *results: SpanExportResult | Exception) -> None:
        self._results = list(results)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_failure_and_recovery_of_the_collector_are_logged_once(log: FilteringBoundLogger, logs: LogCapture) -> None:
    success, failure = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    results = (success, failure, ValueError("x"), success, success, ValueError("x"))
    exporter = reporting_exporter(ScriptedExporter(*results), log)
    assert [exporter.export([]) for _ in results] == [success, failure, failure, success, success, failure]
    assert [(entry["event"], entry.get("error")) for entry in logs.entries] == [
        ("cannot export traces, dropping spans", "the collector did not accept them"),
        ("exporting traces again", None),
        ("cannot export traces, dropping spans", "ValueError: x"),
    ]


def test_refused_export_writes_nothing_to_stderr(
    collector: Collector, log: FilteringBoundLogger, logs: LogCapture, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = open_tracer(collector, log)
    collector.status = 400
    opened.tracer.start_span("lost").end()
    opened.close()
    assert [entry["event"] for entry in logs.entries] == ["cannot export traces, dropping spans"]
    assert capfd.readouterr() == ("", "")


def test_unresponsive_collector_delays_the_end_by_two_seconds_at_most(log: FilteringBoundLogger) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # its connections get no response
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/traces"
        configuration = TracingConfiguration(url=url, sampling_rate=1.0)
        opened = OpenTracer(configuration, service="a", instance="b", version="c", log=log)
        opened.tracer.start_span("lost").end()
        begun = time.monotonic()
        opened.close()
        assert time.monotonic() - begun < LAST_EXPORT + 1.0


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, log: FilteringBoundLogger) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(TracingError) as refusal:
        OpenTracer(TracingConfiguration(), service="a", instance="b", version="c", log=log)
    assert "pip install 'kcm[tracing]'" in str(refusal.value)
