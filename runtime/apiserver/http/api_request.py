"""Request to the API server over HTTP, with its user, its parsed path and its audit observer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.warnings import Warnings
from kcm.runtime.apiserver.presentation.json_bodies import encoded
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.client.api import JSON, Response
from kcm.runtime.http.server.request import Connection, HttpRequest, StreamedBody


class Observer(Protocol):
    """Observer that is notified of the stages of one request, for the audit log."""

    id: bytes  # the Audit-Id of the request

    def impersonated(self, user: User, constraint: str) -> None:
        """Record that the request is executed as another user. constraint: see access.impersonation.Impersonated."""

    def decided(self, *, allowed: bool, reason: str) -> None:
        """Record the decision of the authorizer."""

    def requested(self, body: bytes) -> None:
        """Record the body of the request, which is JSON."""

    def responded(self, response: Response) -> None:
        """Record a complete response."""

    def started(self) -> None:
        """Record that a streamed response has started, with status 200."""

    def finished(self) -> None:
        """Record that a streamed response has ended."""


class ApiRequest(HttpRequest):
    """Request to the API server, and its response. The handler sets all attributes."""

    __slots__ = ("began", "info", "observer", "refusal_lines")

    info: RequestInfo  # verb and resource, parsed from the method and the path

    def __init__(self, connection: Connection) -> None:
        HttpRequest.__init__(self, connection)
        self.began = 0.0  # time when the request was passed to the handler, in Unix seconds
        self.observer: Observer | None = None  # None: the audit policy does not select the request
        self.user: User | None = None  # None until the request is authenticated
        self.refusal: Response | None = None  # response to a request that is refused before its body is read
        self.refusal_lines = b""  # additional header lines of the refusal

    def refuse(self) -> None:
        assert self.refusal is not None
        self.respond(self.refusal, lines=self.refusal_lines)

    def respond(
        self,
        response: Response,
        *,
        warnings: Sequence[str] = (),
        lines: bytes = b"",
        cache: bytes = b"",
        whole: Response | None = None,
        as_it_is: bool = False,
    ) -> None:
        """Send the only response of the request. Does nothing if the connection is closed.

        warnings: texts of Warning headers, which kubectl displays
        lines: additional header lines, each with CRLF
        cache: value of Cache-Control; by default the response is not cached
        whole: the response as JSON for the observer, if `response` is protobuf, a table or metadata only
        as_it_is: send the body unchanged; otherwise a JSON body is formatted as by upstream's serializer
        """
        if self.observer is not None:
            self.observer.responded(whole or response)
        body = response.body
        lines = b"Audit-Id: %b\r\n%b" % (self._audit_id(), lines)
        if response.retry_after:
            lines += b"Retry-After: %d\r\n" % math.ceil(response.retry_after)
        if warnings:
            lines += _warning_lines(warnings)
        if not as_it_is and response.content_type.startswith(JSON):
            body = encoded(body, self.target, self.headers.get(b"user-agent", b""))
        self.send(response.status, response.content_type, body, lines=lines, cache=cache)

    def stream(self, content_type: str, body: StreamedBody, *, warnings: Sequence[str] = ()) -> None:
        """Begin a streamed response, whose body follows with `write` and ends with `finish`.

        Does nothing if the connection is closed.
        """
        if self.observer is not None:
            self.observer.started()
        lines = b"Audit-Id: %b\r\n%b" % (self._audit_id(), _warning_lines(warnings))
        self.begin_stream(content_type, body, lines=lines)

    def finish(self) -> None:
        if self.observer is not None:
            self.observer.finished()
        HttpRequest.finish(self)

    def on_lost(self, *, is_streaming: bool) -> None:
        if is_streaming and self.observer is not None:
            self.observer.finished()

    def _audit_id(self) -> bytes:
        if self.observer is not None:
            return self.observer.id
        return self.headers.get(b"audit-id") or self._connection.next_id()


def _warning_lines(warnings: Sequence[str]) -> bytes:
    if not warnings:
        return b""
    shown = Warnings(warnings).shown()
    return b"".join(b"Warning: 299 - %b\r\n" % quoted(text).encode() for text in shown)
