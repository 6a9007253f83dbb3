"""One request over one connection of aiohttp's pool, and its response.

aiohttp's connector makes and keeps the connections (names, proxies, TLS), and its protocol reads what comes. Its
session is left out: it would follow redirects, keep cookies, read the environment, and repeat a PUT or DELETE whose
connection broke. Here a request goes out once, for three quarters of the CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
import struct
from collections.abc import Mapping

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from runtime.client.failures import TooLateError
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import Permit

# Less than what servers and balancers allow (kube-apiserver 90 s, many balancers 60 s), so that we close first and a
# write seldom meets a connection that is about to be closed.
KEEP_ALIVE = 30.0
READ_BUFFER = 1 << 18
DISCARD = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent when the socket is closed never is
SWITCHING_PROTOCOLS = 101  # the only status below 200 that is a final response


class Attempt:
    """How far a request came. sent: the server may have received it."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


class OpenResponse:
    """A response whose head was received. It must be read to its end, or closed."""

    __slots__ = ("_connection", "_deadline", "_payload", "headers", "status")

    def __init__(
        self,
        message: RawResponseMessage,
        payload: aiohttp.StreamReader,
        connection: Connection,
        deadline: float | None,
    ) -> None:
        """deadline: by the loop's clock, for all of the body; None for no limit."""
        self.status = message.code
        self.headers: Mapping[str, str] = message.headers
        self._payload, self._connection, self._deadline = payload, connection, deadline

    async def read(self) -> bytes:
        """All of the body; then the connection is free for the next request. Raises ClientError or OSError."""
        payload = self._payload
        try:
            if payload.is_eof():  # a small body comes with its head
                body = payload.read_nowait()
            else:
                async with asyncio.timeout_at(self._deadline):
                    body = await payload.read()
        except BaseException:
            self.close()
            raise
        self._connection.release()
        return body

    async def chunk(self) -> bytes:
        """The part of the body received since the last call, or the next one; b"" at its end. Raises as read() does."""
        return await self._payload.readany()

    def close(self) -> None:
        self._connection.close()


class Connections:
    """Connections to one server; a new one is opened when none is free. Built and used on the loop's thread."""

    def __init__(self, server: str, *, proxy: str, tls_server_name: str, connect_timeout: float, clock: Clock) -> None:
        """server, proxy: URLs; "" for no proxy. tls_server_name: "" for the server's host. connect_timeout: seconds."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._url, self._proxy = URL(server), URL(proxy) if proxy else None
        self._tls_server_name = tls_server_name or None
        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=_socket)
        self._connect_timeout = connect_timeout
        self._timeout = aiohttp.ClientTimeout(connect=connect_timeout)
        self._destination: aiohttp.ClientRequest | None = None  # in the form that the connector takes
        self._tls: ssl.SSLContext | None = None  # the destination's

    async def ask(
        self, request: bytes, *, tls: ssl.SSLContext | None, permit: Permit, attempt: Attempt
    ) -> OpenResponse:
        """Send the request and receive the response's head.

        request: as it goes on the wire. tls: for new connections; None for plain HTTP. permit: nothing goes out once it
        is over, and the response's body has to be there by then. attempt: notes how far it came.
        Raises TooLateError, ClientError, HttpProcessingError or OSError.
        """
        connection = await self._connect(tls, permit)
        # The loop may have been held up, the machine suspended, a connection long in the making.
        now = self._clock.monotonic()
        if permit.is_over(now):
            connection.release()
            raise TooLateError
        deadline = self._loop.time() + (permit.until - now) if permit.until < math.inf else None
        alarm: asyncio.TimerHandle | None = None
        protocol, transport = connection.protocol, connection.transport
        try:
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("closed as soon as it was open")
            protocol.set_response_params(read_until_eof=True, read_bufsize=READ_BUFFER)
            if deadline is not None:  # as asyncio.timeout_at does, but that costs as much as a parser
                alarm = self._loop.call_at(deadline, protocol.set_exception, TimeoutError())
            attempt.sent = True
            transport.write(request)
            message, payload = await protocol.read()
            while message.code < 200 and message.code != SWITCHING_PROTOCOLS:
                message, payload = await protocol.read()
        except BaseException:
            if attempt.sent and transport is not None:
                _cut_off(transport)
            connection.close()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
        return OpenResponse(message, payload, connection, deadline)

    async def close(self) -> None:
        await self._connector.close()

    async def _connect(self, tls: ssl.SSLContext | None, permit: Permit) -> Connection:
        if self._destination is None or tls is not self._tls:
            self._tls = tls
            self._destination = aiohttp.ClientRequest(
                "GET",
                self._url,
                proxy=self._proxy,
                ssl=tls if tls is not None else True,
                server_hostname=self._tls_server_name,
                loop=self._loop,
            )
        timeout = self._timeout
        now = self._clock.monotonic()
        if permit.is_over(now):
            raise TooLateError
        if permit.until - now < self._connect_timeout:
            timeout = aiohttp.ClientTimeout(connect=max(permit.until - now, 0.001))  # 0 would be no limit at all
        try:
            return await self._connector.connect(self._destination, traces=[], timeout=timeout)
        except TimeoutError as err:
            raise aiohttp.ConnectionTimeoutError from err


def _cut_off(transport: asyncio.Transport) -> None:
    """End a connection, and with it what is left of a request in our buffers or the kernel's.

    A plain close would have it go out all the same, as soon as the server reads on or the network is back: minutes
    after its permit was over.
    """
    with contextlib.suppress(OSError, ValueError):  # it is gone already; uvloop says so by ValueError
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARD)
    transport.abort()


def _socket(address: tuple[int, int, int, str, tuple[str, int]]) -> socket.socket:
    """A socket on which the kernel notices a peer that is gone: after 30 s of silence, and four probes 15 s apart."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
