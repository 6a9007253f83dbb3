"""Tracer of OpenTelemetry that samples spans and exports them by OTLP over HTTP.

The packages are the extra "tracing". They are imported when a tracer is opened, because few runs have one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcm.runtime.tracing.configuration import TracingConfiguration, TracingError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Tracer
    from structlog.typing import FilteringBoundLogger

SCOPE = "kcm"  # instrumentation scope of all spans
EXPORT_TIMEOUT = 5.0  # seconds for one export, including its retries
LAST_EXPORT = 2.0  # seconds that the end of the process waits for the export of the remaining spans
MISSING = "--tracing-config-file requires the packages of an extra, {name} is missing: pip install 'kcm[tracing]'"


class OpenTracer:
    """Tracer, with the thread that exports its spans in batches. close() exports the remaining spans.

    Spans are dropped while the collector does not accept them; the log reports the beginning and the end of that.
    """

    def __init__(
        self,
        configuration: TracingConfiguration,
        *,
        service: str,
        instance: str,
        version: str,
        log: FilteringBoundLogger,
    ) -> None:
        """Open the tracer. Raises TracingError if the extra is not installed, or the environment is invalid.

        service, instance, version: attributes of the resource, by which backends identify this process.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            from kcm.runtime.tracing.sampler import CauseSampler
        except ImportError as err:
            raise TracingError(MISSING.format(name=err.name)) from err
        # Its lines would go to stderr, one for each failed export.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        resource = Resource({"service.name": service, "service.instance.id": instance, "service.version": version})
        try:
            exporter = OTLPSpanExporter(endpoint=configuration.url or None, timeout=EXPORT_TIMEOUT)
        except (ValueError, OSError) as err:
            raise TracingError(f"cannot export traces: {err}") from err
        self._provider: TracerProvider = TracerProvider(
            sampler=CauseSampler(configuration.sampling_rate), resource=resource, shutdown_on_exit=False
        )
        self._exporter = reporting_exporter(exporter, log.bind(endpoint=configuration.url or "environment"))
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self.tracer: Tracer = self._provider.get_tracer(SCOPE, version)

    def close(self) -> None:
        """Export the remaining spans, for at most LAST_EXPORT seconds, and end the thread."""
        # On a thread of its own: the library waits for each batch until the exporter's timeout.
        closing = threading.Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        closing.start()
        closing.join(LAST_EXPORT)
        if closing.is_alive():
            self._exporter.shutdown()  # ends the pauses between attempts


def reporting_exporter(exporter: SpanExporter, log: FilteringBoundLogger) -> SpanExporter:
    """Wrap an exporter so that the log reports when exports begin to fail, and when they succeed again."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class ReportingExporter(SpanExporter):
        def __init__(self) -> None:
            self._fails = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                result = exporter.export(spans)
            except Exception as err:  # an error of the library must not end its thread
                result, text = SpanExportResult.FAILURE, f"{type(err).__name__}: {err}"
            else:
                text = "the collector did not accept them"
            fails = result is not SpanExportResult.SUCCESS
            if fails and not self._fails:
                log.warning("cannot export traces, dropping spans", error=text, spans=len(spans))
            elif self._fails and not fails:
                log.info("exporting traces again")
            self._fails = fails
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30000) -> bool:
            return exporter.force_flush(timeout_millis)

    return ReportingExporter()
