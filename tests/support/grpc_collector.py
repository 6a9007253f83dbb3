"""Receiver of OTLP over gRPC on loopback, as kube-apiserver sends its spans.

It implements the part of HTTP/2 and gRPC that one client with one method needs, and reads no headers.
"""

from __future__ import annotations

import socketserver
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.collector import serving, spans_of

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
WINDOW = 2**31 - 1 - 65_535  # raises the window of a connection to its maximum
INITIAL_WINDOW_SIZE = 4
# Header blocks in HPACK: ":status: 200" is entry 8 of the static table; the others are literals.
RESPONSE = b"\x88" + b"\x00\x0ccontent-type\x10application/grpc"
TRAILERS = b"\x00\x0bgrpc-status\x010"


class GrpcCollector:
    """Collector of traces. requests: received requests, in order."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    collector._converse(self)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """Return host and port."""
        return "{}:{}".format(*self.server.server_address[:2])

    @property
    def spans(self) -> list[Span]:
        return spans_of(self.requests)

    def _converse(self, peer: socketserver.StreamRequestHandler) -> None:
        """Receive requests on one connection until the client closes it."""

        def send(kind: int, flags: int, stream: int, content: bytes) -> None:
            peer.wfile.write(struct.pack(">I", len(content))[1:] + bytes((kind, flags)) + struct.pack(">I", stream))
            peer.wfile.write(content)

        if peer.rfile.read(len(PREFACE)) != PREFACE:
            return
        send(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 2**31 - 1))
        send(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))
        bodies: dict[int, bytes] = {}
        while len(head := peer.rfile.read(9)) == 9:
            size, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
            stream = int.from_bytes(head[5:]) & 0x7FFFFFFF
            content = peer.rfile.read(size)
            if kind in (SETTINGS, PING) and not flags & ACK:
                send(kind, ACK, 0, content if kind == PING else b"")
            elif kind == DATA:
                if size:
                    send(WINDOW_UPDATE, 0, 0, struct.pack(">I", size))
                if flags & PADDED:
                    content = content[1 : size - content[0]]
                bodies[stream] = bodies.get(stream, b"") + content
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self._receive(bodies.pop(stream, b""))
                send(HEADERS, END_HEADERS, stream, RESPONSE)
                send(DATA, 0, stream, bytes(5))  # an empty ExportTraceServiceResponse
                send(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS)

    def _receive(self, body: bytes) -> None:
        while body:
            is_compressed, size = struct.unpack(">BI", body[:5])
            assert not is_compressed
            self.requests.append(ExportTraceServiceRequest.FromString(body[5 : 5 + size]))
            body = body[5 + size :]


@contextmanager
def collecting_grpc() -> Iterator[GrpcCollector]:
    """Serve a collector on a thread of its own until the end of the block."""
    collector = GrpcCollector()
    with serving(collector.server):
        yield collector
