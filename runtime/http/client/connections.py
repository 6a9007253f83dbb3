"""Concurrent requests over libcurl connections, each to the server of its request.

libcurl opens, keeps and closes the connections (names, proxies, TLS) and implements HTTP/1.1, without the GIL; the
event loop reports which sockets are ready.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from urllib.parse import urlsplit

import pycurl

from kcm.runtime.http.client.attempts import Handle, HttpAttempt
from kcm.runtime.http.client.readiness import new_readiness

MOST_FREE = 64  # handles
MOST_KEPT = 256  # connections, those in use included
# Seconds for which nothing is read of a body that arrives in parts, after a part that was delivered less than BUSY
# seconds after the part before. A watch event on its own costs a third more than one of several, because each delivery
# wakes two threads.
GATHER, BUSY = 0.01, 0.025
# Bytes of a body that may wait in the socket during a longer pause. It is less than the buffers of a new connection
# contain, so that the server is never blocked: kube-apiserver ends a watch that does not take its events.
MOST_UNREAD = 1 << 16
REMOVE: int = pycurl.POLL_REMOVE


class Connections:
    """Connections of one client; a new one is opened when none is free. Created and used on the loop's thread."""

    def __init__(
        self, *, now: Callable[[], float], proxy: str = "", connect_timeout: float = math.inf, most_open: int = 0
    ) -> None:
        """Create the client without connections.

        now: a monotonic clock in seconds, that of permits.
        proxy: URL; "" for none, whatever the environment contains.
        connect_timeout: seconds.
        most_open: connections at once, above which attempts wait; 0 for no limit.
        """
        self._now, self._connect_timeout = now, connect_timeout
        self._proxy = _with_port(proxy) if proxy else ""
        self._loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._readiness = new_readiness(self._loop, self._multi.socket_action, self._process)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_MAXCONNECTS, MOST_KEPT)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, most_open)
        self._handles: dict[pycurl.Curl, Handle] = {}  # handles with an attempt
        self._free: list[Handle] = []
        self._streaming: list[Handle] = []  # with parts of bodies to pass on
        self._began = False  # an attempt has begun that libcurl has not processed
        self._is_due = False  # a call of _process() is scheduled
        self._alarm: asyncio.TimerHandle | None = None
        self._resting: list[int] = []  # descriptors that rest for GATHER seconds
        self._closed = False

    def begin(self, attempt: HttpAttempt, now: float) -> None:
        """Start an attempt. now: monotonic seconds. Raises ValueError for a malformed request."""
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
        self._process_soon()

    def cut(self, attempt: HttpAttempt) -> None:
        """End an attempt and its connection, if it is still running. on_end is not called."""
        handle = attempt.handle
        if handle is not None:
            if handle.status:  # the attempt is a watch, whose request was sent completely
                handle.end_without_reset()
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

    def _handle_for(self, attempt: HttpAttempt) -> Handle:
        streams = attempt.on_chunk is not None
        for number in () if streams else range(len(self._free) - 1, -1, -1):
            if self._free[number].tls is attempt.tls:  # the manager's differs from that of service accounts
                return self._free.pop(number)
        return Handle(
            attempt.tls,
            proxy=self._proxy,
            now=self._now,
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
                self._free.pop(0).curl.close()  # the oldest, whose certificates may be outdated

    def _watch_socket(self, what: int, descriptor: int, _multi: object, _data: object) -> None:
        """Start, change or end the watch of a descriptor, as libcurl requests (SOCKETFUNCTION)."""
        self._readiness.watch(descriptor, 0 if what == REMOVE else what)

    def _process_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._process)

    def _ring(self) -> None:
        self._alarm = None
        self._began = True
        self._process()

    def _process(self) -> None:
        self._is_due = True  # attempts that begin meanwhile are processed here
        try:
            while not self._closed:
                if self._began:
                    self._began = False
                    self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                self._pass_on()
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

    def _pass_on(self) -> None:
        """Deliver the parts of bodies that have arrived."""
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
            self._gather(handle, attempt.may_lag, len(received))
            try:
                attempt.on_chunk(received)
            except Exception as err:
                attempt.error = err
                if attempt.handle is not None:
                    self._release(handle)
                    attempt.on_end(attempt)

    def _gather(self, handle: Handle, may_lag: float, received: int) -> None:
        """Read no more of a body for a moment, so that what arrives meanwhile is delivered together.

        received: number of bytes that arrived since the part before.
        """
        now, before = self._loop.time(), handle.delivered
        handle.delivered = now
        if may_lag:
            pause = pause_after(received, elapsed=now - before, may_lag=may_lag)
            if pause > GATHER:
                descriptor = handle.curl.getinfo(pycurl.ACTIVESOCKET)
                self._readiness.rest(descriptor)
                self._loop.call_later(pause, self._resume, [descriptor])
                return
        if now - before < BUSY:
            descriptor = handle.curl.getinfo(pycurl.ACTIVESOCKET)
            self._readiness.rest(descriptor)
            self._resting.append(descriptor)
            if len(self._resting) == 1:
                self._loop.call_later(GATHER, self._resume, self._resting)

    def _resume(self, descriptors: list[int]) -> None:
        """Read bodies again. A descriptor that was closed meanwhile does not rest, whatever it belongs to now."""
        if not self._closed:
            self._readiness.resume(descriptors)
        descriptors.clear()

    def _end(self, curl: pycurl.Curl, failure: tuple[int, str] | None) -> None:
        handle = self._handles.get(curl)
        if handle is None or handle.attempt is None:  # ended by the callback of another
            return
        attempt = handle.attempt
        handle.report(failure)
        self._release(handle)
        attempt.on_end(attempt)

    def _set_alarm(self) -> None:
        """Set an alarm for libcurl's next timeout. An early alarm does no harm."""
        wait = self._multi.timeout()
        if wait < 0:
            return
        if wait == 0:
            self._began = True
            self._process_soon()
            return
        when = self._loop.time() + wait / 1000
        if self._alarm is not None:
            if self._alarm.when() <= when:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._ring)


def pause_after(received: int, *, elapsed: float, may_lag: float) -> float:
    """Return for how many seconds not to read a body, so that MOST_UNREAD bytes arrive at most.

    received: number of bytes that arrived in the last `elapsed` seconds.
    may_lag: the longest pause, in seconds.
    """
    return min(may_lag, elapsed * MOST_UNREAD / max(1, received))


def _with_port(proxy: str) -> str:
    """Add the scheme's port: libcurl's own default is 1080."""
    parts = urlsplit(proxy)
    if parts.port is not None:
        return proxy
    return parts._replace(netloc=f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}").geturl()


def connect_to(server: str, name: str) -> str:
    """Return the option CONNECT_TO that redirects a host of this name to the server's host, with the same port.

    libcurl takes the expected name of the certificate from the URL, so the URL contains that name.
    """
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{name}:{port}:{host}:{port}"
