"""One exchange with the API server over aiohttp: URL, headers, credentials, TLS, and what went wrong.

aiohttp alone would follow redirects, keep cookies, read the environment, and repeat a PUT or DELETE whose connection
broke. None of this happens here: a write goes out once.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.typedefs import LooseHeaders
from multidict import CIMultiDict
from yarl import URL

from runtime.api import JSON, Request, Response
from runtime.client.config import ClientConfig, ConfigError, Credential
from runtime.client.credential_cache import CredentialCache
from runtime.client.failures import Failure, describe, is_broken
from runtime.client.request_metrics import RequestMetrics
from runtime.client.retries import is_read, retry_after_seconds
from runtime.client.tls import TlsContexts
from runtime.client.user_agent import user_agent
from runtime.client.watch_stream import LineSplitter
from runtime.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Less than what servers and balancers allow (kube-apiserver 90 s, many balancers 60 s), so that we close first and a
# write seldom meets a connection that is about to be closed.
KEEP_ALIVE = 30.0
PATH_SAFE = "/:@!$&'()*+,;=~"
READ_BUFFER = 1 << 18
FAREWELL = 0.1  # seconds
# aiohttp warns about larger bytes, which it would send in one piece; a file it sends in chunks.
ONE_PIECE = 1 << 20


class HttpSession:
    """Belongs to the loop's thread, where it must be made too. Opens a connection whenever none is free.

    user_agent_base: the user agent, but for the client's name.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        user_agent_base: str,
        connect_timeout: float,
        metrics: RequestMetrics,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        """Raises ConfigError when the TLS files are no good."""
        self._config, self._metrics, self._clock = config, metrics, clock
        self._user_agent_base, self._connect_timeout = user_agent_base, connect_timeout
        self._credentials = CredentialCache(config.credentials, clock=clock, log=log)
        self._tls: TlsContexts | None = None
        if config.server.startswith("https://"):
            self._tls = TlsContexts(config, clock=clock, log=log)
            self._tls.context(Credential())
        self._credential = Credential()  # the one that the headers below were made for
        self._headers: dict[tuple[str, str, str], LooseHeaders] = {}
        self._proxy = URL(config.proxy) if config.proxy else None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
        )

    async def exchange(self, request: Request, *, client: str, timeout: float) -> Response:
        """timeout: seconds for all of it. Never raises but CancelledError: no answer is a Response with status 0."""
        try:
            response = await self.open(request, client=client, timeout=timeout)
        except Failure as failure:
            return failure.response()
        return await self.read(response)

    async def follow(
        self, request: Request, *, client: str, on_lines: Callable[[bytes], None], patience: float
    ) -> Response:
        """Hand on a watch's lines until it ends; how it ended, as Stream's on_end has it.

        patience: seconds for the body of a refusal. Raises what on_lines raises.
        """
        try:
            response = await self.open(request, client=client, timeout=None)
        except Failure as failure:
            return failure.response()
        try:
            if response.status != 200:
                return await self._refusal(response, patience)
            splitter, error = LineSplitter(), ""
            while True:
                try:
                    chunk = await response.content.readany()
                except (aiohttp.ClientError, OSError) as err:
                    error = describe(err, server=self._config.server)
                    break
                if not chunk:
                    break
                lines = splitter.feed(chunk)
                if lines:
                    on_lines(lines)
        finally:
            response.close()
        return Response(status=0 if error else 200, error=with_cut(error, splitter.unfinished))

    async def _refusal(self, response: ClientResponse, patience: float) -> Response:
        try:
            return await asyncio.wait_for(self.read(response), patience)
        except TimeoutError:
            return Response(status=response.status, error="the answer did not come to its end")

    async def read(self, response: ClientResponse) -> Response:
        """The rest of an answer."""
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError) as err:
            return Response(status=0, error=describe(err, server=self._config.server))
        headers = response.headers
        return Response(
            status=response.status,
            body=body,
            content_type=headers.get("Content-Type", JSON),
            retry_after=retry_after_seconds(headers.get("Retry-After")),
        )

    async def open(self, request: Request, *, client: str, timeout: float | None) -> ClientResponse:
        """Send the request and receive the answer's head. timeout: seconds until the body's end; None for no limit.

        A refused credential is replaced once, where there is another. A read whose connection broke is repeated once:
        the server closes kept connections when it likes. Raises Failure.
        """
        deadline = self._clock.monotonic() + timeout if timeout is not None else None
        may_repeat, may_renew = is_read(request.method), True
        credential = await self._current_credential(timeout)
        while True:
            attempt = _Attempt()
            try:
                response = await self._send(request, client, credential, deadline, attempt)
            except (aiohttp.ClientError, OSError) as raised:
                err = attempt.broke or raised
                self._metrics.attempted(request.method, 0)
                if may_repeat and attempt.sent and is_broken(err):
                    may_repeat = False
                    self._metrics.retried(request.method, 0)
                    continue
                raise Failure(describe(err, server=self._config.server), sent=attempt.sent) from raised
            self._metrics.attempted(request.method, response.status)
            if response.status == 401 and may_renew:
                may_renew = False
                await self.read(response)
                if await self._credentials.refused(credential):
                    credential = await self._current_credential(timeout)
                    continue
            return response

    async def close(self) -> None:
        await self._session.close()
        # aiohttp waits for what is open; a watch that was cut a moment ago still takes its leave over TLS.
        await asyncio.sleep(FAREWELL)

    async def _current_credential(self, timeout: float | None) -> Credential:
        try:
            held = self._credentials.held()
            return held if held is not None else await asyncio.wait_for(self._credentials.renewed(), timeout)
        except ConfigError as err:
            raise Failure(f"no credentials: {err}", sent=False) from err
        except TimeoutError as err:
            raise Failure("no credentials in time", sent=False) from err

    async def _send(
        self, request: Request, client: str, credential: Credential, deadline: float | None, attempt: _Attempt
    ) -> ClientResponse:
        # aiohttp takes a total of 0 for no limit at all.
        total = max(deadline - self._clock.monotonic(), 0.001) if deadline is not None else None
        body = request.body
        return await self._session.request(
            request.method,
            request_url(self._config.server, request.path, request.query),
            data=(body if len(body) <= ONE_PIECE else io.BytesIO(body)) if body else None,
            headers=self._headers_of(request, client, credential),
            allow_redirects=False,
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(total=total, sock_connect=self._connect_timeout),
            ssl=self._tls.context(credential) if self._tls is not None else True,
            server_hostname=self._config.tls_server_name or None,
            middlewares=(attempt,),
        )

    def _headers_of(self, request: Request, client: str, credential: Credential) -> LooseHeaders:
        """Kept: a client has a handful of them."""
        if credential is not self._credential:
            self._credential = credential
            self._headers.clear()
        content_type = request.content_type if request.body else ""
        headers = self._headers.get((client, request.accept, content_type))
        if headers is None:
            made = CIMultiDict(self._config.impersonation)
            made["User-Agent"] = user_agent(self._user_agent_base, client)
            made["Accept"] = request.accept
            made["Accept-Encoding"] = "identity"  # as the real one: a cluster's network is faster than gzip
            if content_type:
                made["Content-Type"] = content_type
            if credential.authorization:
                made["Authorization"] = credential.authorization
            headers = self._headers[client, request.accept, content_type] = made
        return headers


def request_url(server: str, path: str, query: Mapping[str, str]) -> URL:
    """path, query: unescaped."""
    url = server + quote(path, safe=PATH_SAFE)
    if query:
        url += "?" + urlencode(query, quote_via=quote, safe="")
    return URL(url, encoded=True)


def with_cut(error: str, unfinished: int) -> str:
    """The error of a watch that ended, with what was lost. unfinished: bytes of its last line."""
    if not unfinished:
        return error
    cut = f"the last line was cut off after {unfinished} bytes"
    return f"{error}; {cut}" if error else cut


def host_of(server: str) -> str:
    """Host and port as metrics name them."""
    return urlsplit(server).netloc


class _Attempt:
    """A middleware for one request, inside of which aiohttp connects and sends once.

    It knows whether something was sent, and hides a broken connection from aiohttp, which would repeat a PUT or DELETE.
    broke: that error.
    """

    __slots__ = ("_request", "broke")

    def __init__(self) -> None:
        self._request: ClientRequest | None = None
        self.broke: Exception | None = None

    @property
    def sent(self) -> bool:
        """Whether the server may have seen the request."""
        return self._request is not None and self._request.response is not None

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        self._request = request
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as err:
            self.broke = err
            raise aiohttp.ClientError from err


def _socket(address: tuple[int, int, int, str, tuple[str, int]]) -> socket.socket:
    """A socket on which the kernel notices a peer that is gone: after 30 s of silence, and four probes 15 s apart."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # not every system has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
