"""Requests over HTTP to the API server: credentials, retries, and errors as Responses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.client.account_tokens import NAMESPACE
from kcm.runtime.client.api import JSON, Request, Response
from kcm.runtime.client.config import ClientConfig, ConfigError, Credential, CredentialSource
from kcm.runtime.client.credentials import CredentialCache
from kcm.runtime.client.request_form import RequestForm, UserAgents
from kcm.runtime.client.request_metrics import ClientMetrics
from kcm.runtime.client.retries import is_read
from kcm.runtime.client.tls import TlsFiles
from kcm.runtime.client.watch_stream import LineSplitter, PieceGatherer
from kcm.runtime.http.client.attempts import HttpAttempt
from kcm.runtime.http.client.connections import Connections, connect_to
from kcm.runtime.http.client.failures import TOO_LATE, describe, is_broken
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.permits import Permit

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OWN_CLIENT = "kcm"
# Request that opens a connection: the cheapest that every authenticated client may send.
VERSION = Request(method="GET", path="/version")
OPENED_AT_ONCE = 4  # connections
AHEAD_TIMEOUT = 10.0  # seconds


class Identity(Struct, frozen=True, kw_only=True):
    """Identity with which requests are sent. named: for the user agent; "" for the client's name."""

    credentials: CredentialCache
    tls: TlsFiles | None
    form: RequestForm
    named: str


def username(account: str) -> str:
    """Return the user name of a service account of the control plane."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def _tls_files(config: ClientConfig, log: FilteringBoundLogger) -> TlsFiles | None:
    return TlsFiles(config, log=log) if config.server.startswith("https://") else None


class HttpSession:
    """Requests to one server, over its connections. Created and used on the loop's thread."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        agents: UserAgents,
        connect_timeout: float,
        metrics: ClientMetrics,
        clock: Clock,
        log: FilteringBoundLogger,
        accounts: Mapping[str, CredentialSource] | None = None,
        others: Mapping[str, CredentialSource] | None = None,
    ) -> None:
        """Open a session. Raises ConfigError if the TLS files are unusable.

        accounts: by client, sources of credentials of service accounts.
        others: by client, or by a user that requests name, sources of other credentials.
        """
        self.server, self.proxy, self.metrics, self.clock, self.log = config.server, config.proxy, metrics, clock, log
        self._own = self._identity(config, config.credentials, agents, tls=_tls_files(config, log))
        if self._own.tls is not None:
            self._own.tls.material(Credential(), clock.monotonic())
        self._accounts: dict[str, Identity] = {}
        if accounts or others:
            # Without the certificate, which would take precedence over the token, and without impersonation.
            bare = replace(config, certificate=None, key=None, impersonation=())
            tls = _tls_files(bare, log)
            self._accounts = {
                client: self._identity(bare, source, agents, tls=tls, named=username(client))
                for client, source in (accounts or {}).items()
            }
            self._accounts |= {
                client: self._identity(bare, source, agents, tls=tls) for client, source in (others or {}).items()
            }
        self.connections = Connections(proxy=config.proxy, connect_timeout=connect_timeout, now=clock.monotonic)
        has_other_name = self._own.tls is not None and config.tls_server_name
        self.connect_to = connect_to(config.server, config.tls_server_name) if has_other_name else ""
        self._tasks: set[asyncio.Task[None]] = set()

    def _identity(
        self,
        config: ClientConfig,
        source: CredentialSource,
        agents: UserAgents,
        *,
        tls: TlsFiles | None,
        named: str = "",
    ) -> Identity:
        log = self.log.bind(account=named) if named else self.log
        return Identity(
            credentials=CredentialCache(source, clock=self.clock, log=log),
            tls=tls,
            form=RequestForm(config, agents=agents),
            named=named,
        )

    def identity_of(self, client: str, user: str = "") -> Identity:
        return self._accounts.get(user or client, self._own)

    def exchange(
        self, request: Request, *, client: str, permit: Permit, on_end: Callable[[Response], None]
    ) -> Exchange:
        """Send a request. Raises ValueError or UnicodeEncodeError for a malformed request.

        permit: for the whole exchange, including retries.
        on_end: called later, on the loop's thread; the Response has status 0 if the server did not respond.
        """
        exchange = Exchange(self, request, client=client, permit=permit, on_end=on_end)
        exchange.begin()
        return exchange

    def follow(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
        patience: float,
        by_line: bool = True,
    ) -> Exchange:
        """Pass on the lines of a watch until it ends. Raises the errors of exchange().

        on_end: as in Transport.watch.
        patience: seconds for the body of an error response.
        by_line: False to pass on pieces of any body.
        """
        exchange = Exchange(
            self,
            request,
            client=client,
            permit=request.permit,
            on_end=on_end,
            on_lines=on_lines,
            splitter=LineSplitter() if by_line else PieceGatherer(),
            patience=patience,
        )
        exchange.begin()
        return exchange

    def open_ahead(self, count: int) -> None:
        """Open connections for the next requests, by sending reads, OPENED_AT_ONCE at a time. Stops when a read fails.

        Otherwise a burst of writes begins with as many handshakes, each of which costs as much as ten requests.
        """
        client = next(iter(self._accounts), OWN_CLIENT)
        left = count

        def open_one(before: Response | None = None) -> None:
            nonlocal left
            if before is not None and not before.status:
                left = 0
            if left > 0:
                left -= 1
                permit = Permit(self.clock.monotonic() + AHEAD_TIMEOUT)
                Exchange(self, VERSION, client=client, permit=permit, on_end=open_one).begin(fresh=True)

        for _ in range(OPENED_AT_ONCE):
            open_one()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all exchanges; no on_end is called."""
        for task in self._tasks:
            task.cancel()
        self.connections.close()


class Exchange:
    """Request and its response, in one or two attempts.

    A rejected credential is replaced once, if there is another. A read whose connection broke is repeated once, because
    the server may close kept connections at any time. Each attempt checks the permit.
    """

    __slots__ = (
        "_attempt",
        "_client",
        "_identity",
        "_may_renew",
        "_may_repeat",
        "_on_end",
        "_on_lines",
        "_over",
        "_patience",
        "_permit",
        "_request",
        "_session",
        "_splitter",
    )

    def __init__(
        self,
        session: HttpSession,
        request: Request,
        *,
        client: str,
        permit: Permit,
        on_end: Callable[[Response], None],
        on_lines: Callable[[bytes], None] | None = None,
        splitter: LineSplitter | PieceGatherer | None = None,
        patience: float = math.inf,
    ) -> None:
        self._session, self._request, self._client, self._permit = session, request, client, permit
        self._on_end, self._on_lines, self._patience = on_end, on_lines, patience
        self._splitter = splitter  # if on_lines is given
        self._may_repeat, self._may_renew = is_read(request.method), True
        self._identity = session.identity_of(client, request.user)
        self._attempt: HttpAttempt | None = None
        self._over = False

    def begin(self, *, fresh: bool = False) -> None:
        """Start the first attempt. fresh: over a new connection."""
        now = self._session.clock.monotonic()
        try:
            credential = self._identity.credentials.held()
        except ConfigError as err:
            self._end_soon(_unsent(f"no credentials: {err}"))
            return
        if credential is None:
            self._session.spawn(self._attempt_renewed())
        else:
            self._try(credential, now, fresh=fresh)

    def cut(self) -> None:
        """End the exchange. on_end is not called, unless it was called before."""
        attempt, self._attempt, self._over = self._attempt, None, True
        if attempt is not None:
            self._session.connections.cut(attempt)

    def _try(self, credential: Credential, now: float, *, fresh: bool = False) -> None:
        session, request, identity = self._session, self._request, self._identity
        if self._permit.is_over(now):
            self._end_soon(_unsent(TOO_LATE))
            return
        self._attempt = HttpAttempt(
            request.method,
            identity.form.url(request),
            headers=identity.form.headers(request, client=identity.named or self._client, credential=credential),
            body=request.body,
            tls=identity.tls.material(credential, now) if identity.tls is not None else None,
            permit=self._permit,
            on_end=partial(self._tried, credential),
            may_repeat=self._may_repeat,
            fresh=fresh,
            connect_to=session.connect_to,
            on_chunk=self._take_chunk if self._on_lines is not None else None,
            on_refusal=self._limit_refusal if self._on_lines is not None else None,
            may_lag=request.may_lag,
        )
        session.connections.begin(self._attempt, now)

    def _tried(self, credential: Credential, attempt: HttpAttempt) -> None:
        session, request = self._session, self._request
        self._attempt = None  # otherwise a reference cycle keeps both bodies until the next collection
        if self._over:
            return
        if attempt.error is not None:  # the receiver of the lines raised an exception
            self._fail(attempt.error)
            return
        breakdown = attempt.breakdown
        if breakdown is not None and not attempt.sent and attempt.is_asked:
            self._end(_unsent(TOO_LATE))
            return
        if attempt.repeated:
            self._note_repetition()
        if self._may_repeat and breakdown is not None and attempt.sent and not attempt.status and is_broken(breakdown):
            self._note_repetition()
            self._try_again(credential, fresh=True)
            return
        session.metrics.attempted(request.method, attempt.status)
        if attempt.status == 401 and self._may_renew and breakdown is None:
            self._may_renew = False
            session.spawn(self._replace(credential, attempt))
            return
        if breakdown is None and attempt.status == 200 and isinstance(self._splitter, PieceGatherer):
            try:
                self._pass_on(self._splitter.rest())
            except Exception as err:
                self._fail(err)
                return
        self._end(self._response(attempt))

    def _note_repetition(self) -> None:
        """Count an attempt without a response that is followed by another attempt."""
        self._may_repeat = False
        self._session.metrics.attempted(self._request.method, 0)
        self._session.metrics.retried(self._request.method, 0)

    def _try_again(self, credential: Credential, *, fresh: bool = False) -> None:
        try:
            self._try(credential, self._session.clock.monotonic(), fresh=fresh)
        except Exception as err:  # the first attempt did not raise this
            self._fail(err)

    async def _attempt_renewed(self) -> None:
        try:
            credential = await self._renewed()
        except ConfigError as err:
            self._end(_unsent(f"no credentials: {err}"))
        except TimeoutError:
            self._end(_unsent("no credentials in time"))
        else:
            if not self._over:
                self._try_again(credential)

    async def _renewed(self) -> Credential:
        now = self._session.clock.monotonic()
        remaining = self._permit.until - now if self._permit.until < math.inf else None
        return await asyncio.wait_for(self._identity.credentials.renewed(), remaining)

    async def _replace(self, credential: Credential, attempt: HttpAttempt) -> None:
        if not await self._identity.credentials.refused(credential):
            self._end(self._response(attempt))
        elif not self._over:
            try:
                self.begin()
            except Exception as err:
                self._fail(err)

    def _take_chunk(self, chunk: bytes) -> None:
        assert self._splitter is not None
        self._pass_on(self._splitter.feed(chunk))

    def _pass_on(self, lines: bytes) -> None:
        assert self._on_lines is not None
        if lines:
            self._on_lines(lines)

    def _limit_refusal(self) -> None:
        """Limit the time for the body of an error response to a watch; a watch itself has no limit."""
        if self._patience < math.inf and self._attempt is not None:
            asyncio.get_running_loop().call_later(self._patience, self._give_up, self._attempt)

    def _give_up(self, attempt: HttpAttempt) -> None:
        handle = attempt.handle
        if handle is not None and not self._over:
            status = handle.status
            self.cut()
            self._on_end(Response(status=status, error="the response did not come to its end"))

    def _response(self, attempt: HttpAttempt) -> Response:
        error = ""
        if attempt.breakdown is not None:
            session = self._session
            error = describe(
                attempt.breakdown,
                server=session.server,
                proxy=session.proxy,
                sent=attempt.sent,
                status=attempt.status,
            )
        if self._splitter is not None and attempt.status == 200:
            if not error:
                error = with_cut("", self._splitter.unfinished)
                return Response(status=200, error=error, warnings=attempt.warnings)
            return Response(status=0, error=with_cut(error, self._splitter.unfinished), begun=True)
        if error:
            return Response(status=0, error=error, sent=attempt.sent)
        return Response(
            status=attempt.status,
            body=attempt.received,
            content_type=attempt.content_type or JSON,
            retry_after=attempt.retry_after,
            warnings=attempt.warnings,
        )

    def _end(self, response: Response) -> None:
        if not self._over:
            self._over = True
            self._on_end(response)

    def _end_soon(self, response: Response) -> None:
        asyncio.get_running_loop().call_soon(self._end, response)

    def _fail(self, err: Exception) -> None:
        what = "watch failed" if self._on_lines is not None else "request failed"
        self._session.log.error(what, client=self._client, path=self._request.path, exc_info=err)
        self._end(internal_error(err))


def internal_error(err: Exception) -> Response:
    return Response(status=0, error=f"internal error: {err!r}")


def _unsent(why: str) -> Response:
    return Response(status=0, error=why, sent=False)


def with_cut(error: str, unfinished: int) -> str:
    """Return the error of a watch that ended, and mention its incomplete last line. unfinished: bytes of this line."""
    if not unfinished:
        return error
    cut = f"the last line was cut off after {unfinished} bytes"
    return f"{error}; {cut}" if error else cut


def host_of(server: str) -> str:
    """Return host and port for metrics."""
    return urlsplit(server).netloc
