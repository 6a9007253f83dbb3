"""HTTPS server of webhooks. Their functions run on a bounded number of threads; a slow one delays no other.

A new certificate is used from the next handshake on. Open connections continue, so no request is refused meanwhile.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kcm.protocols.codec import pack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.runtime.calls.pool import PoolLimits
from kcm.runtime.calls.prepared_calls import PreparedCall
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.http.server.bounded_connections import ConnectionLimits
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.application import Application, PageRequest, PageResponse
from kcm.runtime.serving.certificates import load_pair_in_memory
from kcm.runtime.serving.server import PageListener, ServerThread
from kcm.runtime.serving.tls_names import MIN_VERSIONS
from kcm.runtime.serving.webhook_pages import WebhookMeter, WebhookPage, WebhookResponse, failure
from kcm.runtime.x509.certificates import new_key
from kcm.runtime.x509.key_rings import KeyRing

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Bytes of a body. An AdmissionReview contains an object twice, each at most 3 MiB; a ConversionReview a page of a list.
LARGEST_REVIEW = 32 * 1024 * 1024
MOST_IN_FLIGHT = 256  # requests at once; further ones receive a 429
WORKERS = 16  # functions at once; further requests wait
MOST_WORKERS = 64  # with those that hang
MOST_CONNECTIONS = 256
# Longer than the 90 s after which Go's clients close idle connections, so that no request meets a closing connection.
IDLE = 120.0
JSON = "application/json"


class HttpsWebhookHost:
    """Implementation of WebhookHost on a port of this host."""

    def __init__(
        self,
        pages: Iterable[WebhookPage],
        *,
        address: str,
        port: int,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
    ) -> None:
        """Prepare the server. address: IP address to listen on. port: 0 for any free one."""
        self._address, self._port, self._clock, self._log = address, port, clock, log
        self._pages = {page.path: page for page in pages}
        self._meter = WebhookMeter(metrics, self._pages, clock=clock)
        self._calls = ThreadedCalls(
            clock=clock, limits=PoolLimits(workers=WORKERS, most=MOST_WORKERS, wait=max(self._seconds(), default=30.0))
        )
        self._in_flight = 0
        self._server: ServerThread | None = None
        self._context: ssl.SSLContext | None = None  # of the current certificate
        self._closed = False
        self.ring: KeyRing | None = None

    def _seconds(self) -> Iterable[float]:
        return (page.seconds for page in self._pages.values())

    @property
    def url(self) -> str:
        """Return the URL of the listener; "" before the first certificate."""
        return self._server.urls[0] if self._server is not None and self._server.urls else ""

    def new_key(self) -> Any:
        return new_key()

    def serve(self, ring: KeyRing) -> None:
        if self._closed or ring == self.ring:
            return
        context = _new_context()
        load_pair_in_memory(context, ring.certificate, ring.key)
        self._context = context  # read by the handshakes, on the server's thread
        self.ring = ring
        if self._server is None:
            listener = PageListener(
                application=_ReviewApplication(self._page, now=self._clock.now, log=self._log),
                host=self._address,
                port=self._port,
                tls=self._listening_context(ring),
                flag="--webhook-port",
            )
            limits = ConnectionLimits(most=MOST_CONNECTIONS, idle=IDLE, idle_known=IDLE)
            server = ServerThread(
                [listener], log=self._log, bounds=limits, largest_body=LARGEST_REVIEW, name="webhooks"
            )
            try:
                server.start()
            except Exception:
                self.ring = None
                raise
            self._server = server

    def close(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.stop()
        self._calls.close()

    def _listening_context(self, ring: KeyRing) -> ssl.SSLContext:
        context = _new_context()
        load_pair_in_memory(context, ring.certificate, ring.key)

        def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            assert self._context is not None
            connection.context = self._context

        context.sni_callback = choose
        return context

    async def _page(self, request: PageRequest) -> PageResponse:
        response = await self._response(request)
        return PageResponse(status=response.status, body=response.body, content_type=JSON)

    async def _response(self, request: PageRequest) -> WebhookResponse:
        path = request.path
        page = self._pages.get(path)
        if page is None:
            return failure(404, f"there is no webhook {path!r:.200}")
        if request.method != "POST":
            return failure(405, "a review is posted")
        if self._in_flight >= MOST_IN_FLIGHT:
            refused = failure(429, f"{MOST_IN_FLIGHT} requests to webhooks are in flight")
            self._meter.count(path, refused)
            return refused
        self._in_flight += 1
        began = self._meter.begin(path)
        response = failure(500, "the request was cancelled")
        try:
            response = await self._called(page, bytes(request.body))
        finally:
            self._in_flight -= 1
            self._meter.end(path, began, response)
        return response

    async def _called(self, page: WebhookPage, body: bytes) -> WebhookResponse:
        """Call the function on a thread, and return its response, or an error if it takes too long."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[WebhookResponse] = loop.create_future()
        responses: list[WebhookResponse] = []

        def run() -> Outcome:
            responses.append(page.respond(body))
            return Done(b"")

        def settle(response: WebhookResponse) -> None:
            if not done.done():
                done.set_result(response)

        def ended(outcome: Outcome) -> None:
            if isinstance(outcome, Done) and responses:
                response = responses[0]
            else:
                why = getattr(outcome, "message", "") or type(outcome).__name__
                self._log.error("webhook did not respond", webhook=page.path, error=why)
                response = failure(504, f"webhook {page.path}: {why}")
            _post(loop, lambda: settle(response))

        call = Call(page.path, pack(None), page.seconds)
        self._calls.send(
            PreparedCall(command=call, what=page.path, scope=(page.path, ""), run=run, timeout=page.seconds), ended
        )
        return await done


class _ReviewApplication(Application):
    """Application that reads the bodies of reviews."""

    def needs_body(self, request: PageRequest) -> bool:
        return request.method == "POST"

    def too_large(self) -> PageResponse:
        response = failure(413, f"a review has at most {LARGEST_REVIEW} bytes")
        return PageResponse(status=response.status, body=response.body, content_type=JSON)


def _post(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:  # the server was closed meanwhile
        return


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MIN_VERSIONS[""]
    context.set_alpn_protocols(["http/1.1"])
    return context
