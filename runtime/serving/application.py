"""Application: a function that returns pages, as the handler of an HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from kcm.runtime.http.server.request import COMPRESSED_FROM, NO_SNIFFING, TEXT, Connection, HttpRequest, StreamedBody
from kcm.runtime.serving.authorization import PageUser

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGEST_BODY = 1024 * 1024  # bytes; pages take a number, or a few settings


class PageStream(StreamedBody, Protocol):
    """Body of a page that does not end by itself."""

    def begin(self, request: PageRequest) -> None:
        """Write the first part, now or later, by `request.write`."""


class PageResponse(Struct, frozen=True, kw_only=True):
    """Response with a page.

    is_compressed: compress any size of page if the client accepts that.
    is_encoded: the body is sent as it is; `lines` contains its encoding.
    lines: further lines of the head.
    cache: value of Cache-Control; by default the page is not cached.
    stream: the body, in place of `body`, for a page that is sent in parts.
    """

    body: bytes
    status: int = 200
    content_type: str = TEXT
    is_compressed: bool = False
    is_encoded: bool = False
    lines: bytes = b""
    cache: bytes = b""
    stream: PageStream | None = None


def text_page(text: str, *, status: int = 200) -> PageResponse:
    return PageResponse(status=status, body=text.encode())


class PageRequest(HttpRequest):
    """Request whose response is produced by a task."""

    __slots__ = ("task", "user")

    def __init__(self, connection: Connection) -> None:
        HttpRequest.__init__(self, connection)
        self.refusal: PageResponse | None = None
        self.task: asyncio.Task[None] | None = None  # task that produces the page
        self.user: PageUser | None = None  # set once the request is authorized

    @property
    def path(self) -> str:
        """Return the path, unescaped."""
        return unquote(self._split()[0])

    @property
    def query(self) -> Mapping[str, list[str]]:
        """Return the values of each parameter, unescaped."""
        return parse_qs(self._split()[1], keep_blank_values=True)

    def header(self, name: str) -> str:
        """Return the first value of a header; "" without one. name: in any case."""
        return self.headers.get(name.lower().encode(), b"").decode(errors="replace")

    def header_values(self, name: str) -> list[str]:
        """Return all values of a header. name: in any case."""
        wanted = name.lower().encode()
        lines = (*self.headers.items(), *self.repeated)
        return [value.decode(errors="replace") for other, value in lines if other == wanted]

    def refuse(self) -> None:
        assert self.refusal is not None
        self.respond(self.refusal)

    def respond(self, page: PageResponse) -> None:
        if page.stream is not None:
            self.begin_stream(page.content_type, page.stream, lines=page.lines)
            page.stream.begin(self)
            return
        # The server itself adds the header to text.
        lines = page.lines or (b"" if page.content_type == TEXT else NO_SNIFFING)
        compressed_from = 0 if page.is_compressed else COMPRESSED_FROM
        if page.is_encoded:
            compressed_from = len(page.body)
        body, status = page.body, page.status
        self.send(status, page.content_type, body, lines=lines, cache=page.cache, compressed_from=compressed_from)

    def on_lost(self, *, is_streaming: bool) -> None:
        del is_streaming
        # Otherwise a profile would continue after its client has disconnected.
        if self.task is not None:
            self.task.cancel()

    def _split(self) -> tuple[str, str]:
        target = self.target.decode(errors="replace")
        if not target.startswith("/"):  # an absolute URL, as sent to a proxy
            parts = urlsplit(target)
            return parts.path, parts.query
        path, _, query = target.partition("?")
        return path, query


PageFunction = Callable[[PageRequest], Awaitable[PageResponse]]
"""Returns the page for a request; must not raise."""


class Application:
    """Handler of an HttpServer that calls a function for each request."""

    def __init__(self, page: PageFunction, *, now: Callable[[], float], log: FilteringBoundLogger) -> None:
        """Create the handler. now: returns Unix seconds."""
        self._page, self.now, self._log = page, now, log

    def admit(self, request: PageRequest) -> PageResponse | None:
        del request  # the page authorizes requests, by their path
        return None

    def handle(self, request: PageRequest) -> None:
        request.task = asyncio.get_running_loop().create_task(self._respond(request))

    def too_large(self) -> PageResponse:
        return text_page("the body is too large\n", status=413)

    def needs_body(self, request: PageRequest) -> bool:
        return request.method in ("PUT", "POST")

    def too_late(self) -> PageResponse:
        return text_page("the body did not arrive in time\n", status=408)

    def cut_off(self, connection: Connection, why: str) -> None:
        path = connection.target.decode(errors="replace")
        self._log.warning(f"connection cut off, {why}", path=path, peer=connection.peer)

    async def _respond(self, request: PageRequest) -> None:
        request.respond(await self._page(request))
