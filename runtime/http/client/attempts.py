"""Attempts at requests, and the libcurl handles that execute them.

libcurl by itself repeats a request whose kept connection was closed. Here a callback before each transmission
(`_may_send`) permits the repetition only if the attempt does.
"""

from __future__ import annotations

import math
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pycurl

from kcm.runtime.http.client.failures import Breakdown
from kcm.runtime.http.client.tls import TlsMaterial, set_tls
from kcm.runtime.http.client.warning_headers import warnings_of
from kcm.runtime.scheduling.permits import Permit

# Seconds after which an idle connection is not used again. Less than what servers and balancers allow (kube-apiserver
# 90 s, many balancers 60 s), so that the client closes first and a write seldom uses a connection about to be closed.
KEEP_ALIVE = 30
KEEP_NAMES = 10  # seconds for which resolved addresses are cached
LARGE = 1 << 16  # bytes; a larger request body is released at once instead of when the next one replaces it
DISCARD = struct.pack("ii", 1, 0)  # SO_LINGER: unsent data is discarded when the socket is closed
KEEP_ON_CLOSE = struct.pack("ii", 0, 0)  # SO_LINGER: unsent data is still sent
SENT: int = pycurl.PREREQFUNC_OK
NOT_SENT: int = pycurl.PREREQFUNC_ABORT
SOCKET_IS_READY: int = pycurl.SOCKOPT_OK
SWITCHING_PROTOCOLS = 101  # the only status below 200 that is a final response
WRITE_ERROR = -1  # returned to libcurl to end a transfer


class HttpAttempt:
    """Request that is sent once, and its response.

    The results are attributes; see their comments in the constructor.
    """

    __slots__ = (
        "body",
        "breakdown",
        "connect_to",
        "content_type",
        "error",
        "fresh",
        "handle",
        "head",
        "headers",
        "is_asked",
        "is_too_large",
        "largest",
        "may_lag",
        "may_repeat",
        "method",
        "on_chunk",
        "on_end",
        "on_refusal",
        "permit",
        "received",
        "repeated",
        "retry_after",
        "sent",
        "status",
        "tls",
        "url",
        "warnings",
    )

    def __init__(
        self,
        method: str,
        url: str,
        *,
        headers: list[bytes],
        body: bytes,
        tls: TlsMaterial | None,
        permit: Permit,
        on_end: Callable[[HttpAttempt], None],
        may_repeat: bool = False,
        fresh: bool = False,
        on_chunk: Callable[[bytes], None] | None = None,
        on_refusal: Callable[[], None] | None = None,
        connect_to: str = "",
        largest: int = 0,
        may_lag: float = 0.0,
    ) -> None:
        """Describe an attempt; Connections.begin starts it. All callbacks are called on the loop's thread.

        method, url, headers, body: as they are sent. A list of headers that is the same object as in the previous
            attempt costs nothing.
        permit: nothing is sent once it has expired, and the response must be complete by then.
        may_repeat: the request may be sent twice, if it was first sent over a kept connection that was closed.
        fresh: use a new connection.
        on_end: called with this attempt when it has ended.
        on_chunk: receives the body in parts, if the status is 200; `received` stays empty. An error that it raises ends
            the attempt.
        on_refusal: called if on_chunk is given and the status is not 200.
        connect_to: host to connect to instead of the URL's host, as libcurl's CONNECT_TO; "" for the default.
        largest: maximum size of the body as sent, in bytes, above which the attempt ends; 0 for no limit. With a limit
            the head of the response is kept.
        may_lag: seconds by which a part of the body may be delivered later than it arrives, so that fewer and larger
            parts are read; 0 for the default of Connections.
        """
        self.method, self.url, self.headers, self.body = method, url, headers, body
        self.tls, self.permit, self.fresh, self.may_repeat = tls, permit, fresh, may_repeat
        self.on_end, self.on_chunk, self.on_refusal = on_end, on_chunk, on_refusal
        self.connect_to, self.largest, self.may_lag = connect_to, largest, may_lag
        self.is_asked = False  # whether libcurl has been about to send it
        self.sent = False  # whether the server may have received it
        self.repeated = False  # whether it was sent twice
        self.is_too_large = False  # whether the body exceeds `largest`
        self.status = 0  # 0: no head of a response arrived
        self.head: tuple[bytes, ...] = ()  # lines of the response's head, where there is a limit
        self.received = b""  # the body
        self.content_type = ""
        self.retry_after = 0.0  # seconds
        self.warnings: tuple[str, ...] = ()  # of the response's head
        self.breakdown: Breakdown | None = None  # why there is no whole response
        self.error: Exception | None = None  # error of on_chunk
        self.handle: Handle | None = None  # while it is running


class Handle:
    """Handle of libcurl, which executes one attempt after the other. Only options that differ are set again."""

    __slots__ = (
        "_body",
        "_connect_to",
        "_fresh",
        "_head",
        "_headers",
        "_largest",
        "_method",
        "_now",
        "_parts",
        "_room",
        "_streaming",
        "_timeout",
        "attempt",
        "curl",
        "delivered",
        "status",
        "streams",
        "tls",
    )

    def __init__(
        self,
        tls: TlsMaterial | None,
        *,
        proxy: str,
        now: Callable[[], float],
        streaming: list[Handle] | None,
    ) -> None:
        """Create the handle.

        now: a monotonic clock in seconds.
        streaming: list to which this handle is appended when part of a body has arrived; None for a handle that
            collects bodies.
        """
        self.tls, self._now, self._streaming, self.streams = tls, now, streaming, streaming is not None
        self.attempt: HttpAttempt | None = None
        self.status = 0  # status of the last head that arrived; only set when streaming
        self.delivered = -math.inf  # when a part of the body was delivered last, by the loop's time
        self._parts: list[bytes] = []  # of the body
        self._head: list[bytes] = []  # lines
        self._method, self._body, self._timeout, self._fresh = "GET", b"", -1, False
        self._connect_to = ""
        self._largest = self._room = 0  # maximum size of the body, and what remains of it, in bytes
        self._headers: list[bytes] = []
        self.curl = curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.MAXAGE_CONN, KEEP_ALIVE)
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, KEEP_NAMES)
        curl.setopt(pycurl.PROXY, proxy)  # "" disables a proxy, also one of the environment
        curl.setopt(pycurl.NOPROXY, "")
        curl.setopt(pycurl.SOCKOPTFUNCTION, _prepare_socket)
        curl.setopt(pycurl.PREREQFUNCTION, self._may_send)
        if streaming is None:
            curl.setopt(pycurl.WRITEFUNCTION, self._parts.append)
            curl.setopt(pycurl.HEADERFUNCTION, self._head.append)
        else:
            curl.setopt(pycurl.WRITEFUNCTION, self._stream)
            curl.setopt(pycurl.HEADERFUNCTION, self._see_head)
        if tls is not None:
            set_tls(curl, tls, proxied=bool(proxy))

    def load(self, attempt: HttpAttempt, *, remaining: float, connect_timeout: float) -> None:
        self.attempt, curl = attempt, self.curl
        curl.setopt(pycurl.URL, attempt.url)
        if attempt.headers is not self._headers:
            curl.setopt(pycurl.HTTPHEADER, attempt.headers)
            self._headers = attempt.headers
        if attempt.method != "GET":
            self._body = attempt.body
            curl.setopt(pycurl.POSTFIELDS, attempt.body)
        if attempt.method != self._method:
            self._method = attempt.method
            if attempt.method == "GET":
                curl.unsetopt(pycurl.CUSTOMREQUEST)
                curl.setopt(pycurl.HTTPGET, 1)
            else:
                curl.setopt(pycurl.CUSTOMREQUEST, attempt.method)
        timeout = _milliseconds(remaining)
        if timeout != self._timeout:
            self._timeout = timeout
            curl.setopt(pycurl.TIMEOUT_MS, timeout)
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(min(remaining, connect_timeout)))
        if attempt.fresh != self._fresh:
            self._fresh = attempt.fresh
            curl.setopt(pycurl.FRESH_CONNECT, attempt.fresh)
        if attempt.connect_to != self._connect_to:
            self._connect_to = attempt.connect_to
            curl.setopt(pycurl.CONNECT_TO, [attempt.connect_to] if attempt.connect_to else [])
        if attempt.largest != self._largest and not self.streams:
            self._largest = attempt.largest
            curl.setopt(pycurl.WRITEFUNCTION, self._take_limited if attempt.largest else self._parts.append)
        self._room = attempt.largest

    def unload(self) -> None:
        self.attempt = None
        self._parts.clear()
        del self._head[:]
        if len(self._body) > LARGE:
            self._body = b""
            self.curl.setopt(pycurl.POSTFIELDS, b"")

    def end_without_reset(self) -> None:
        """Make the connection send unsent data when it is closed, so that the server receives an orderly end."""
        descriptor = self.curl.getinfo(pycurl.ACTIVESOCKET)
        if descriptor >= 0:
            with _socket_of(descriptor) as made:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, KEEP_ON_CLOSE)

    def take(self) -> bytes:
        """Return the part of the body that has arrived since the last call."""
        parts = self._parts
        taken = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return taken

    def report(self, failure: tuple[int, str] | None) -> None:
        """Record in the attempt how the transfer ended. failure: libcurl's code and text."""
        attempt, curl = self.attempt, self.curl
        assert attempt is not None
        if attempt.sent:  # otherwise it is that of a proxy
            status: int = curl.getinfo(pycurl.RESPONSE_CODE)
            attempt.status = status if status >= 200 or status == SWITCHING_PROTOCOLS else 0
        if failure is not None:
            attempt.breakdown = Breakdown(
                code=failure[0],
                text=failure[1],
                errno=curl.getinfo(pycurl.OS_ERRNO),
                proxy_status=curl.getinfo(pycurl.HTTP_CONNECTCODE),
                verify_result=curl.getinfo(pycurl.SSL_VERIFYRESULT),
            )
            return
        attempt.received = self.take()
        attempt.content_type = curl.getinfo(pycurl.CONTENT_TYPE) or ""
        attempt.warnings = warnings_of(self._head)
        if attempt.largest:
            attempt.head = tuple(self._head)
        if attempt.status >= 300:
            attempt.retry_after = float(curl.getinfo(pycurl.RETRY_AFTER))

    def _may_send(self, *_addresses: object) -> int:
        """Permit libcurl to send the request, or end the attempt (PREREQFUNCTION).

        Called when the connection is open, before the first byte of the request.

        The permit may have expired meanwhile: the thread was blocked, the machine suspended, the handshake slow. A
        second call for an attempt means that it was sent before, over a kept connection that was closed, with unknown
        outcome.
        """
        attempt = self.attempt
        if attempt is None:
            return NOT_SENT
        if attempt.is_asked:
            if not attempt.may_repeat:
                return NOT_SENT
            attempt.may_repeat, attempt.repeated = False, True
        attempt.is_asked = True
        if attempt.permit.is_over(self._now()):
            return NOT_SENT
        attempt.sent = True
        return SENT

    def _stream(self, chunk: bytes) -> None:
        if not self._parts and self.status == 200 and self._streaming is not None:
            self._streaming.append(self)
        self._parts.append(chunk)

    def _take_limited(self, chunk: bytes) -> int | None:
        self._room -= len(chunk)
        if self._room < 0 and self.attempt is not None:
            self.attempt.is_too_large = True
            return WRITE_ERROR
        self._parts.append(chunk)
        return None

    def _see_head(self, line: bytes) -> None:
        self._head.append(line)
        if line.startswith(b"HTTP/") and self._streaming is not None:
            self.status = int(line.split(None, 2)[1])
            if self.status > 200 and self.attempt is not None and self.attempt.sent:
                self._streaming.append(self)


def _milliseconds(seconds: float) -> int:
    """Convert a timeout to libcurl's form, in which 0 disables it."""
    return 0 if seconds == math.inf else max(1, math.ceil(seconds * 1000))


def _prepare_socket(descriptor: int, _purpose: int) -> int:
    """Set the behaviour of a new socket when it is closed and when its peer is silent.

    A close discards unsent data: otherwise the kernel would send it as soon as the server reads again or the network
    is back, minutes after the permit has expired. Keepalive detects a dead peer after 30 s of silence and four probes,
    15 s apart.
    """
    os.set_inheritable(descriptor, False)
    with _socket_of(descriptor) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARD)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):  # not every system has all of them
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return SOCKET_IS_READY


@contextmanager
def _socket_of(descriptor: int) -> Iterator[socket.socket]:
    """Wrap a descriptor of libcurl, which closes it itself."""
    made = socket.socket(fileno=descriptor)
    try:
        yield made
    finally:
        made.detach()
