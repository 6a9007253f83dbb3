"""A request to the API server: who sent it, what it is about, who observes it, and a response as upstream writes it."""

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
    """Observer of the stages of one request, for the audit log. id: the request's Audit-Id."""

    id: bytes

    def impersonated(self, user: User, constraint: str) -> None: ...

    def decided(self, *, allowed: bool, reason: str) -> None: ...

    def requested(self, body: bytes) -> None: ...

    def responded(self, response: Response) -> None: ...

    def started(self) -> None: ...

    def finished(self) -> None: ...


class ApiRequest(HttpRequest):
    """One request to the API server and its response.

    began: Unix seconds at which it was passed to the handler.
    observer: is informed of what happens to the request.
    info: set by the handler before anything else.
    user: set by the handler; None for an unknown user.
    refusal, refusal_lines: the response that refuses the request, and further lines of its head.
    """

    __slots__ = ("began", "info", "observer", "refusal_lines")

    info: RequestInfo

    def __init__(self, connection: Connection) -> None:
        HttpRequest.__init__(self, connection)
        self.began = 0.0
        self.observer: Observer | None = None
        self.user: User | None = None
        self.refusal: Response | None = None
        self.refusal_lines = b""

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
        """Send the response, once for each request. Does nothing if the connection has ended.

        warnings: shown to people by kubectl.
        lines: further lines of the head.
        cache: value of Cache-Control; by default the response is not cached.
        whole: the response in JSON, for the observer, where this one has another form.
        as_it_is: send the body unchanged; otherwise JSON is written as upstream's serializer writes objects.
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
        """Begin a response whose body follows by `write`, until `finish`. Does nothing if the connection has ended."""
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
