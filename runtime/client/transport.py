"""Transport over HTTP by libcurl, on an event loop in a daemon thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kcm.runtime.client.account_tokens import AccountToken
from kcm.runtime.client.api import Request, Response, Transport
from kcm.runtime.client.config import ClientConfig, CredentialSource
from kcm.runtime.client.http_session import Exchange, HttpSession, host_of, internal_error
from kcm.runtime.client.queues import FairQueue, Handover
from kcm.runtime.client.request_form import UserAgents
from kcm.runtime.client.request_metrics import ClientMetrics
from kcm.runtime.client.retries import retry_delay
from kcm.runtime.client.watch_stream import ClientStream
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.loop_thread import LoopThread
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLOSED = "the client is closed"
MANY = 16  # running requests above which responses may be delayed, to be delivered together
# The client that requests tokens of service accounts, as upstream names it; and its timeout in seconds.
TOKENS, TOKEN_TIMEOUT = "kube-controller-manager", 10.0
GRACE = 5.0  # seconds by which a response may be later than its timeout before it is given up


def request_and_wait(transport: Transport, request: Request, *, client: str, timeout: float) -> Response:
    """Send a request and wait for its response. Must not be called by actors or from a callback of the transport."""
    response: Future[Response] = Future()
    transport.send(replace(request, timeout=timeout), client=client, on_response=response.set_result)
    try:
        return response.result(timeout + GRACE)
    except TimeoutError:
        return Response(status=0, error="no response from the API server in time")


class HttpTransport:
    """Transport over HTTP. Implements Transport and the interface for reading bodies in parts (client/api.py).

    Every request gets exactly one response, within its timeout. Nothing is sent after its timeout or permit has
    expired, even if the loop is delayed or the machine suspended.

    At most `connections` requests run at once, plus one for each client (FairQueue), plus watches. A 429 or 503 with
    Retry-After is retried within the request's timeout (retries.py), and uses no connection meanwhile. Callbacks run on
    the loop's thread; after close() requests are refused on the caller's thread. While many requests run, a response
    may wait two milliseconds for others (queues.py).

    If the loop ends by itself, all requests and watches end, and running requests may have been carried out; `trouble`
    then contains the reason.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        agents: UserAgents,
        metrics: Metrics,
        clock: Clock,
        log: FilteringBoundLogger,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        connections: int = 64,
        accounts: Iterable[str] = (),
        others: Mapping[str, CredentialSource] | None = None,
    ) -> None:
        """Prepare the transport; start() connects.

        timeout: seconds, for requests without a timeout.
        connect_timeout: seconds.
        connections: with more connections, etcd commits more writes at once, which saves the server CPU. But each
            begins with a handshake: 128 cost a burst of a thousand writes more than they save.
        accounts: clients that act as the service account of their name, with tokens that are requested by the
            credentials of `config`.
        others: by client, credentials that replace those of `config`.
        """
        self._config, self._agents = config, agents
        self._clock, self._log = clock, log
        self._timeout, self._connect_timeout = timeout, connect_timeout
        self._host = host_of(config.server)
        self._metrics = ClientMetrics(metrics, host=self._host)
        self._thread = LoopThread(name="http", log=log, broken=self._break)
        self._trouble: str | None = None
        self._ending = Event()  # ends all pauses
        self._others = dict(others or {})
        self._accounts = {
            name: AccountToken(name, request=self._ask_for_accounts, pause=self._ending.wait, now=clock.now)
            for name in accounts
        }
        # The attributes below are used on the loop's thread only.
        self._session: HttpSession | None = None
        self._queue: FairQueue[_Call] = FairQueue(connections)
        self._handover = Handover()
        self._running: dict[_Call, Exchange | None] = {}
        self._idle: asyncio.Event | None = None  # while closing: set when no request runs any more
        self._delayed: dict[str, tuple[_Call, Response]] = {}  # by alarm: calls that are retried later
        self._delays = 0
        self._watches: dict[ClientStream, Exchange] = {}

    @property
    def host(self) -> str:
        return self._host

    def start(self) -> None:
        """Connect, and send the requests that were queued before. Raises ConfigError if the TLS files are unusable."""
        self._thread.start(self._open)

    def close(self, timeout: float) -> None:
        """End every watch, give running requests `timeout` seconds, fail all others; then end the thread.

        Must not be called from a callback. A second call has no effect.
        """
        self._ending.set()
        self._thread.stop(partial(self._close, timeout), timeout=timeout + 1.0)

    @property
    def trouble(self) -> str | None:
        """Return why the transport is broken; see Breakable."""
        return self._trouble

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        # The timeout starts here: the loop may begin the request much later.
        timeout = self._timeout if request.timeout is None else request.timeout
        call = _Call(request, client, on_response, began=self._clock.monotonic(), timeout=timeout)
        self._thread.post(partial(self._admit, call))

    def request(self, request: Request, *, client: str, timeout: float) -> Response:
        """Send a request and wait for its response. Must not be called by actors or from a callback."""
        if self._thread.is_current or not (self._thread.is_running or self._trouble):
            raise RuntimeError("request() would wait without end: the client is not running, or this is its own thread")
        return request_and_wait(self, request, client=client, timeout=timeout)

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> ClientStream:
        """Start a watch, which lasts until the server, the connection or cancel() ends it, or a callback raises.

        The request's timeout applies only to the body of a refusal.
        """
        stream = ClientStream(request, client=client, on_lines=on_lines, on_end=on_end, stop=self._stop_watch)
        self._thread.post(partial(self._begin_watch, stream))
        return stream

    def read(
        self,
        request: Request,
        *,
        client: str,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> ClientStream:
        """Read a body in parts; see ReadsAsItComes. A callback that raises an exception ends the response."""
        stream = ClientStream(
            request, client=client, on_lines=on_bytes, on_end=on_end, stop=self._stop_watch, by_line=False
        )
        self._thread.post(partial(self._begin_watch, stream))
        return stream

    def open_ahead(self, count: int) -> None:
        """Open connections for a burst that is likely to follow. Thread-safe; returns at once."""
        self._thread.post(partial(self._open_ahead, count))

    def _open_ahead(self, count: int) -> None:
        if self._session is not None:
            self._session.open_ahead(count)

    async def _open(self) -> None:
        self._session = HttpSession(
            self._config,
            agents=self._agents,
            connect_timeout=self._connect_timeout,
            metrics=self._metrics,
            clock=self._clock,
            log=self._log,
            accounts=self._accounts,
            others=self._others,
        )

    def _ask_for_accounts(self, request: Request) -> Response:
        """Send a request for an account's token. Called on a separate thread, because it waits for the loop."""
        try:
            return self.request(request, client=TOKENS, timeout=TOKEN_TIMEOUT)
        except RuntimeError:
            return _refusal(self._closed_because)

    async def _close(self, timeout: float) -> None:
        session, self._session = self._session, None  # new requests are refused from now on
        self._refuse_waiting()
        if self._running:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout)
        self._fail_running()
        if session is not None:
            await session.close()

    def _break(self, why: str) -> Coroutine[Any, Any, None] | None:
        self._trouble = f"the client of the API server is broken: {why}"
        self._ending.set()
        session, self._session = self._session, None
        self._refuse_waiting()
        self._fail_running()
        return None if session is None else session.close()

    @property
    def _closed_because(self) -> str:
        return self._trouble or CLOSED

    def _refuse_waiting(self) -> None:
        """End the watches, and refuse the requests that have not started."""
        for stream, exchange in list(self._watches.items()):
            exchange.cut()
            self._end_watch(stream, Response(status=0, error=self._closed_because))
        for alarm, (call, response) in list(self._delayed.items()):
            self._clock.cancel(alarm)
            self._answer(call, response)
        self._delayed.clear()
        for call in self._queue.clear():
            self._answer(call, _refusal(self._closed_because))

    def _fail_running(self) -> None:
        """Fail the running requests, which may have been carried out."""
        for call, exchange in list(self._running.items()):
            if exchange is not None:
                exchange.cut()
            self._answer(call, Response(status=0, error=self._closed_because))
        self._running.clear()
        self._handover.flush()

    def _admit(self, call: _Call) -> None:
        if self._session is None:
            self._answer(call, _refusal(self._closed_because))
        elif self._queue.admit(call.client, call):
            if not self._carry(call, self._session):
                self._go_on(call.client)
        else:
            remaining = call.permit.until - self._clock.monotonic()
            call.expiry = asyncio.get_running_loop().call_later(remaining, self._answer, call, _refusal(NO_TURN))

    def _carry(self, call: _Call, session: HttpSession) -> bool:
        """Start a call. Return False if it already has a response, so that another call can start."""
        if call.answered or call.permit.is_over(self._clock.monotonic()):
            self._answer(call, _refusal(NO_TURN))
            return False
        self._running[call] = None
        try:
            self._running[call] = session.exchange(
                call.request, client=call.client, permit=call.permit, on_end=partial(self._settle, call)
            )
        except Exception as err:
            del self._running[call]
            self._log.exception("request failed", client=call.client, path=call.request.path)
            self._answer(call, internal_error(err))
            return False
        return True

    def _go_on(self, client: str) -> None:
        """Start waiting calls after a call of this client has finished."""
        call = self._queue.finished(client)
        while call is not None:
            if self._session is None:
                self._answer(call, _refusal(self._closed_because))
            elif self._carry(call, self._session):
                return
            call = self._queue.finished(call.client)

    def _settle(self, call: _Call, response: Response) -> None:
        """Finish a call after its exchange, or schedule a retry."""
        del self._running[call]
        if call.retries:
            self._metrics.retried(call.request.method, response.status)
        delay = None
        if response.retry_after > 0:
            now = self._clock.monotonic()
            delay = retry_delay(
                method=call.request.method,
                status=response.status,
                retry_after=response.retry_after,
                retries=call.retries,
                remaining=call.permit.until - now,
            )
        if delay is None or self._session is None:
            self._answer(call, response)
        else:
            self._delays += 1
            alarm = f"http {id(self):x} retry {self._delays}"
            self._delayed[alarm] = (call, response)
            self._clock.call_at(alarm, now + delay, partial(self._thread.post, partial(self._retry, alarm)))
        self._go_on(call.client)
        if self._idle is not None and not self._running:
            self._idle.set()

    def _retry(self, alarm: str) -> None:
        delayed = self._delayed.pop(alarm, None)
        if delayed is not None:
            call = delayed[0]
            call.retries += 1
            self._admit(call)

    def _answer(self, call: _Call, response: Response) -> None:
        """Deliver a response to a call, unless it already has one."""
        if call.answered:
            return
        call.answered = True
        if call.expiry is not None:
            call.expiry.cancel()
        if response.sent:
            self._metrics.finished(
                call.request.method,
                seconds=self._clock.monotonic() - call.began,
                sent=len(call.request.body),
                received=len(response.body),
            )
        more = self._session is not None and len(self._running) >= MANY
        self._handover.add(partial(self._call_back, call, response), more=more)

    def _call_back(self, call: _Call, response: Response) -> None:
        try:
            call.on_response(response)
        except Exception:
            self._log.exception("callback failed", client=call.client, path=call.request.path)

    def _begin_watch(self, stream: ClientStream) -> None:
        if self._session is None:
            self._end_watch(stream, _refusal(self._closed_because))
            return
        try:
            self._watches[stream] = self._session.follow(
                stream.request,
                client=stream.client,
                on_lines=stream.deliver,
                on_end=partial(self._end_watch, stream),
                patience=self._timeout,
                by_line=stream.by_line,
            )
        except Exception as err:
            self._log.exception("watch failed", client=stream.client, path=stream.request.path)
            self._end_watch(stream, internal_error(err))

    def _end_watch(self, stream: ClientStream, response: Response) -> None:
        self._watches.pop(stream, None)
        try:
            stream.end(response)
        except Exception:
            self._log.exception("callback failed", client=stream.client, path=stream.request.path)

    def _stop_watch(self, stream: ClientStream) -> None:
        """Cancel a watch. Thread-safe."""
        self._thread.post(partial(self._cancel_watch, stream))

    def _cancel_watch(self, stream: ClientStream) -> None:
        exchange = self._watches.pop(stream, None)
        if exchange is not None:
            exchange.cut()


class _Call:
    """Request without a response yet."""

    __slots__ = ("answered", "began", "client", "expiry", "on_response", "permit", "request", "retries")

    def __init__(
        self, request: Request, client: str, on_response: Callable[[Response], None], *, began: float, timeout: float
    ) -> None:
        """Record a request. began: by the clock's monotonic()."""
        self.request, self.client, self.on_response = request, client, on_response
        self.began = began
        self.permit = request.permit.within(began + timeout)
        self.retries = 0
        self.answered = False
        self.expiry: asyncio.TimerHandle | None = None  # while it waits for its turn


NO_TURN = "timed out before its turn came"


def _refusal(why: str) -> Response:
    return Response(status=0, error=why, sent=False)
