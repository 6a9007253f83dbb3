"""Receiver of OTLP over HTTP on loopback, which keeps the spans that it receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Collector of traces.

    requests: accepted requests, in order.
    status: HTTP status of the responses; requests are accepted with 200 only.
    """

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.status == 200 and self.path == "/v1/traces":
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        """Return host and port."""
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.endpoint}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """Return the spans of all accepted requests."""
        return spans_of(self.requests)


def spans_of(requests: Iterable[ExportTraceServiceRequest]) -> list[Span]:
    return [
        span
        for request in list(requests)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve a collector on a thread of its own until the end of the block."""
    collector = Collector()
    with serving(collector.server):
        yield collector


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Run a server on a thread of its own until the end of the block."""
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
