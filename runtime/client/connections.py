"""Attempts at requests, over libcurl's connections to one server.

libcurl makes, keeps and ends the connections (names, proxies, TLS) and speaks HTTP/1.1 over them, without the
interpreter's lock; the loop says which of them can go on. By itself it repeats a request whose kept connection was
closed. Not here: it asks before each sending, and is let once.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pycurl

from kcm.runtime.client.failures import Breakdown
from kcm.runtime.client.handle_tls import set_tls
from kcm.runtime.client.readiness import new_readiness
from kcm.runtime.client.tls import TlsMaterial
from kcm.runtime.client.warning_headers import warnings_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import Permit

# Seconds after which an idle connection is not used again. Less than what servers and balancers allow (kube-apiserver
# 90 s, many balancers 60 s), so that we close first and a write seldom meets a connection that is about to be closed.
KEEP_ALIVE = 30
KEEP_NAMES = 10  # seconds for which a name's addresses are remembered
MOST_FREE = 64  # handles
MOST_KEPT = 256  # connections, those in use included
LARGE = 1 << 16  # bytes: a body of more is not kept until the next one replaces it
DISCARD = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent when the socket is closed never is
KEEP_ON_CLOSE = struct.pack("ii", 0, 0)  # and here it is
REMOVE: int = pycurl.POLL_REMOVE
SENT: int = pycurl.PREREQFUNC_OK
NOT_SENT: int = pycurl.PREREQFUNC_ABORT
SOCKET_IS_READY: int = pycurl.SOCKOPT_OK
SWITCHING_PROTOCOLS = 101  # the only status below 200 that is a final response


class Attempt:
    """One request that goes out once, and its response.

    method, url, headers, body: as they go on the wire. headers: equal ones are best one object. permit: nothing goes
    out once it is over, and the response has to be there by then. may_repeat: it may go out twice, if the first was
    over a kept connection that was closed. fresh: over a new connection.
    on_end: called with this when it is over. on_chunk: takes what came of the body, if the status is 200, in place of
    `body_received`; what it raises ends the attempt. on_refusal: where on_chunk is given, and the status is another.
    All of them are called on the loop's thread.
    """

    __slots__ = (
        "body",
        "breakdown",
        "content_type",
        "error",
        "fresh",
        "handle",
        "headers",
        "is_asked",
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
        on_end: Callable[[Attempt], None],
        may_repeat: bool = False,
        fresh: bool = False,
        on_chunk: Callable[[bytes], None] | None = None,
        on_refusal: Callable[[], None] | None = None,
    ) -> None:
        self.method, self.url, self.headers, self.body = method, url, headers, body
        self.tls, self.permit, self.fresh, self.may_repeat = tls, permit, fresh, may_repeat
        self.on_end, self.on_chunk, self.on_refusal = on_end, on_chunk, on_refusal
        self.is_asked = False  # whether libcurl has come to the sending
        self.sent = False  # whether the server may have received it
        self.repeated = False  # whether it went out twice
        self.status = 0  # 0: no head of a response came
        self.received = b""  # the body
        self.content_type = ""
        self.retry_after = 0.0  # seconds
        self.warnings: tuple[str, ...] = ()  # of the response's head
        self.breakdown: Breakdown | None = None  # why there is no whole response
        self.error: Exception | None = None  # what on_chunk raised
        self.handle: Handle | None = None  # while it is under way


class Connections:
    """Connections to one server; a new one is opened when none is free. Built and used on the loop's thread."""

    def __init__(self, server: str, *, proxy: str, tls_server_name: str, connect_timeout: float, clock: Clock) -> None:
        """server, proxy: URLs; "" for no proxy. tls_server_name: "" for the server's host. connect_timeout: seconds."""
        self._clock, self._connect_timeout = clock, connect_timeout
        self._proxy = _with_port(proxy) if proxy else ""
        self._detour = _detour(server, tls_server_name) if tls_server_name else ""
        self._loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._readiness = new_readiness(self._loop, self._multi.socket_action, self._go_on)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_MAXCONNECTS, MOST_KEPT)
        self._handles: dict[pycurl.Curl, Handle] = {}  # those under way
        self._free: list[Handle] = []
        self._streaming: list[Handle] = []  # those with something to hand on
        self._began = False  # there is an attempt that libcurl has not looked at
        self._is_due = False  # _go_on() is going to be called
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    def begin(self, attempt: Attempt, now: float) -> None:
        """now: by the clock. Raises ValueError for what no request can be."""
        handle = self._handle_for(attempt)
        try:
            handle.load(attempt, remaining=attempt.permit.until - now, connect_timeout=self._connect_timeout)
        except BaseException:
            handle.curl.close()
            raise
        attempt.handle = handle
        self._handles[handle.curl] = handle
        self._multi.add_handle(handle.curl)
        self._began = True
        self._go_on_soon()

    def cut(self, attempt: Attempt) -> None:
        """End it, if it is under way, and its connection; on_end is not called."""
        handle = attempt.handle
        if handle is not None:
            if handle.status:  # of a watch, and all of the request went out
                handle.part_politely()
            self._release(handle)

    def close(self) -> None:
        """End all attempts and connections. on_end is not called."""
        if self._closed:
            return
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        for handle in list(self._handles.values()):
            self._release(handle)
        self._multi.close()
        self._readiness.close()
        for handle in self._free:
            handle.curl.close()
        self._free.clear()

    def _handle_for(self, attempt: Attempt) -> Handle:
        streams = attempt.on_chunk is not None
        for number in () if streams else range(len(self._free) - 1, -1, -1):
            if self._free[number].tls is attempt.tls:  # there are those of the manager, and those of accounts
                return self._free.pop(number)
        return Handle(
            attempt.tls,
            proxy=self._proxy,
            detour=self._detour,
            clock=self._clock,
            streaming=self._streaming if streams else None,
        )

    def _release(self, handle: Handle) -> None:
        attempt = handle.attempt
        del self._handles[handle.curl]
        self._multi.remove_handle(handle.curl)
        handle.unload()
        if attempt is not None:
            attempt.handle = None
        if handle.streams:
            handle.curl.close()
        else:
            self._free.append(handle)
            if len(self._free) > MOST_FREE:
                self._free.pop(0).curl.close()  # of certificates that are no longer ours, it may be

    def _watch_socket(self, what: int, descriptor: int, _multi: object, _data: object) -> None:
        """libcurl's: which descriptors it waits for, and for what."""
        self._readiness.watch(descriptor, 0 if what == REMOVE else what)

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _ring(self) -> None:
        self._alarm = None
        self._began = True
        self._go_on()

    def _go_on(self) -> None:
        self._is_due = True  # what begins meanwhile is seen to here
        try:
            while not self._closed:
                if self._began:
                    self._began = False
                    self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                self._hand_on()
                _, done, failed = self._multi.info_read()
                for curl in done:
                    self._end(curl, None)
                for curl, code, text in failed:
                    self._end(curl, (code, text))
                if not self._began and not done and not failed:
                    break
        finally:
            self._is_due = False
        if not self._closed:
            self._set_alarm()

    def _hand_on(self) -> None:
        while self._streaming:
            handle = self._streaming.pop()
            attempt = handle.attempt
            if attempt is None or attempt.on_chunk is None:
                continue
            if handle.status != 200:
                if attempt.on_refusal is not None:
                    attempt.on_refusal()
                continue
            received = handle.take()
            try:
                attempt.on_chunk(received)
            except Exception as err:
                attempt.error = err
                if attempt.handle is not None:
                    self._release(handle)
                    attempt.on_end(attempt)

    def _end(self, curl: pycurl.Curl, failure: tuple[int, str] | None) -> None:
        handle = self._handles.get(curl)
        if handle is None or handle.attempt is None:  # cut off by another's end
            return
        attempt = handle.attempt
        handle.report(failure)
        self._release(handle)
        attempt.on_end(attempt)

    def _set_alarm(self) -> None:
        """For when libcurl next has something to do by itself. One that rings too early does no harm."""
        wait = self._multi.timeout()
        if wait < 0:
            return
        if wait == 0:
            self._began = True
            self._go_on_soon()
            return
        when = self._loop.time() + wait / 1000
        if self._alarm is not None:
            if self._alarm.when() <= when:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._ring)


class Handle:
    """A handle of libcurl's, which carries one attempt after the other. Only what differs is set anew."""

    __slots__ = (
        "_body",
        "_clock",
        "_fresh",
        "_head",
        "_headers",
        "_method",
        "_parts",
        "_streaming",
        "_timeout",
        "attempt",
        "curl",
        "status",
        "streams",
        "tls",
    )

    def __init__(
        self,
        tls: TlsMaterial | None,
        *,
        proxy: str,
        detour: str,
        clock: Clock,
        streaming: list[Handle] | None,
    ) -> None:
        """detour: as CONNECT_TO has it; "" for none. streaming: where this is put when it has something to hand on;
        None for a handle whose responses are whole."""
        self.tls, self._clock, self._streaming, self.streams = tls, clock, streaming, streaming is not None
        self.attempt: Attempt | None = None
        self.status = 0  # of the head that came last; only of one that streams
        self._parts: list[bytes] = []  # of the body
        self._head: list[bytes] = []  # lines
        self._method, self._body, self._timeout, self._fresh = "GET", b"", -1, False
        self._headers: list[bytes] = []
        self.curl = curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.MAXAGE_CONN, KEEP_ALIVE)
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, KEEP_NAMES)
        curl.setopt(pycurl.PROXY, proxy)  # "" is none, whatever the environment says
        curl.setopt(pycurl.NOPROXY, "")
        if detour:
            curl.setopt(pycurl.CONNECT_TO, [detour])
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

    def load(self, attempt: Attempt, *, remaining: float, connect_timeout: float) -> None:
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

    def unload(self) -> None:
        self.attempt = None
        self._parts.clear()
        del self._head[:]
        if len(self._body) > LARGE:
            self._body = b""
            self.curl.setopt(pycurl.POSTFIELDS, b"")

    def part_politely(self) -> None:
        """The server will see an end of the connection, and no reset."""
        descriptor = self.curl.getinfo(pycurl.ACTIVESOCKET)
        if descriptor >= 0:
            with _socket_of(descriptor) as made:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, KEEP_ON_CLOSE)

    def take(self) -> bytes:
        """What came of the body since the last call."""
        parts = self._parts
        taken = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return taken

    def report(self, failure: tuple[int, str] | None) -> None:
        """Note in the attempt how it ended. failure: libcurl's code and text."""
        attempt, curl = self.attempt, self.curl
        assert attempt is not None
        if attempt.sent:  # else it is a proxy's
            status: int = curl.getinfo(pycurl.RESPONSE_CODE)
            attempt.status = status if status >= 200 or status == SWITCHING_PROTOCOLS else 0
        if failure is not None:
            attempt.breakdown = Breakdown(
                code=failure[0],
                text=failure[1],
                errno=curl.getinfo(pycurl.OS_ERRNO),
                proxy_status=curl.getinfo(pycurl.HTTP_CONNECTCODE),
            )
            return
        attempt.received = self.take()
        attempt.content_type = curl.getinfo(pycurl.CONTENT_TYPE) or ""
        attempt.warnings = warnings_of(self._head)
        if attempt.status >= 300:
            attempt.retry_after = float(curl.getinfo(pycurl.RETRY_AFTER))

    def _may_send(self, *_addresses: object) -> int:
        """libcurl's question, with the connection open and before the first byte of the request.

        The thread may have been held up, the machine suspended, a connection long in the making. When it asks again,
        it has sent the request before, over a kept connection that was closed: nobody knows what became of it.
        """
        attempt = self.attempt
        if attempt is None:
            return NOT_SENT
        if attempt.is_asked:
            if not attempt.may_repeat:
                return NOT_SENT
            attempt.may_repeat, attempt.repeated = False, True
        attempt.is_asked = True
        if attempt.permit.is_over(self._clock.monotonic()):
            return NOT_SENT
        attempt.sent = True
        return SENT

    def _stream(self, chunk: bytes) -> None:
        if not self._parts and self.status == 200 and self._streaming is not None:
            self._streaming.append(self)
        self._parts.append(chunk)

    def _see_head(self, line: bytes) -> None:
        self._head.append(line)
        if line.startswith(b"HTTP/") and self._streaming is not None:
            self.status = int(line.split(None, 2)[1])
            if self.status > 200 and self.attempt is not None and self.attempt.sent:
                self._streaming.append(self)


def _milliseconds(seconds: float) -> int:
    """As libcurl has its limits: 0 is none."""
    return 0 if seconds == math.inf else max(1, math.ceil(seconds * 1000))


def _prepare_socket(descriptor: int, _purpose: int) -> int:
    """A close discards what was not sent: else it would go out all the same, as soon as the server reads on or the
    network is back, minutes after its permit was over. And the kernel notices a peer that is gone: after 30 s of
    silence, and four probes 15 s apart."""
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
    """libcurl's, which it closes itself."""
    made = socket.socket(fileno=descriptor)
    try:
        yield made
    finally:
        made.detach()


def _with_port(proxy: str) -> str:
    """libcurl would take 1080 for a proxy that names none."""
    parts = urlsplit(proxy)
    if parts.port is not None:
        return proxy
    return parts._replace(netloc=f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}").geturl()


def _detour(server: str, name: str) -> str:
    """What takes libcurl from the host that the certificate has to name to the one that is asked."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{name}:{port}:{host}:{port}"
