"""Exchanges with the API server: credentials, what is tried again, and what went wrong, as Responses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http import HttpProcessingError

from runtime.client.api import JSON, Request, Response
from runtime.client.config import ClientConfig, ConfigError, Credential
from runtime.client.connections import Attempt, Connections, OpenResponse
from runtime.client.credential_cache import CredentialCache
from runtime.client.failures import TOO_LATE, Failure, TooLateError, describe, is_broken
from runtime.client.request_bytes import RequestBytes
from runtime.client.request_metrics import RequestMetrics
from runtime.client.retries import is_read, retry_after_seconds
from runtime.client.tls import TlsContexts
from runtime.client.watch_stream import LineSplitter
from runtime.scheduling.clock import Clock
from runtime.scheduling.permits import Permit

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

TLS_CLOSE = 0.1  # seconds


class HttpSession:
    """Belongs to the loop's thread, where it must be made too.

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
        self._credentials = CredentialCache(config.credentials, clock=clock, log=log)
        self._tls: TlsContexts | None = None
        if config.server.startswith("https://"):
            self._tls = TlsContexts(config, clock=clock, log=log)
            self._tls.context(Credential())
        self._bytes = RequestBytes(config, user_agent_base=user_agent_base)
        self._connections = Connections(
            config.server,
            proxy=config.proxy,
            tls_server_name=config.tls_server_name,
            connect_timeout=connect_timeout,
            clock=clock,
        )

    async def exchange(self, request: Request, *, client: str, permit: Permit) -> Response:
        """permit: for all of it. Never raises but CancelledError: no response is a Response with status 0."""
        try:
            response = await self.open(request, client=client, permit=permit)
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
            response = await self.open(request, client=client, permit=request.permit)
        except Failure as failure:
            return failure.response()
        try:
            if response.status != 200:
                return await self._refusal(response, patience)
            splitter, error = LineSplitter(), ""
            while True:
                try:
                    chunk = await response.chunk()
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

    async def _refusal(self, response: OpenResponse, patience: float) -> Response:
        try:
            return await asyncio.wait_for(self.read(response), patience)
        except TimeoutError:
            return Response(status=response.status, error="the response did not come to its end")

    async def read(self, response: OpenResponse) -> Response:
        """The rest of a response."""
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

    async def open(self, request: Request, *, client: str, permit: Permit) -> OpenResponse:
        """Send the request and receive the response's head. permit: looked at before each attempt.

        A refused credential is replaced once, where there is another. A read whose connection broke is repeated once:
        the server closes kept connections when it likes. Raises Failure.
        """
        may_repeat, may_renew = is_read(request.method), True
        credential = await self._current_credential(permit)
        while True:
            attempt = Attempt()
            try:
                response = await self._connections.ask(
                    self._bytes.of(request, client=client, credential=credential),
                    tls=self._tls.context(credential) if self._tls is not None else None,
                    permit=permit,
                    attempt=attempt,
                )
            except TooLateError as err:
                raise Failure(TOO_LATE, sent=False) from err
            except (aiohttp.ClientError, HttpProcessingError, OSError) as err:
                self._metrics.attempted(request.method, 0)
                if may_repeat and attempt.sent and is_broken(err):
                    may_repeat = False
                    self._metrics.retried(request.method, 0)
                    continue
                raise Failure(describe(err, server=self._config.server), sent=attempt.sent) from err
            self._metrics.attempted(request.method, response.status)
            if response.status == 401 and may_renew:
                may_renew = False
                await self.read(response)
                if await self._credentials.refused(credential):
                    credential = await self._current_credential(permit)
                    continue
            return response

    async def close(self) -> None:
        await self._connections.close()
        # aiohttp waits for open connections only; one that was just cut still exchanges its TLS close.
        await asyncio.sleep(TLS_CLOSE)

    async def _current_credential(self, permit: Permit) -> Credential:
        try:
            held = self._credentials.held()
            if held is not None:
                return held
            remaining = permit.until - self._clock.monotonic() if permit.until < math.inf else None
            return await asyncio.wait_for(self._credentials.renewed(), remaining)
        except ConfigError as err:
            raise Failure(f"no credentials: {err}", sent=False) from err
        except TimeoutError as err:
            raise Failure("no credentials in time", sent=False) from err


def with_cut(error: str, unfinished: int) -> str:
    """The error of a watch that ended, with what was lost. unfinished: bytes of its last line."""
    if not unfinished:
        return error
    cut = f"the last line was cut off after {unfinished} bytes"
    return f"{error}; {cut}" if error else cut


def host_of(server: str) -> str:
    """Host and port as metrics name them."""
    return urlsplit(server).netloc
