"""Requests to an API server and their responses, and the interface of transports.

The HTTP client (runtime/client) sends requests to a server. The embedded server (runtime/apiserver) handles the same
requests, received by HTTP or, in the simulator, directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import orjson
from msgspec import Struct, field

from kcm.runtime.scheduling.permits import ALWAYS, Permit

JSON = "application/json"
LONGEST_FIELD_MANAGER = 128  # bytes, as upstream
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


class Request(Struct, frozen=True, kw_only=True):
    """One request to an API server."""

    method: str
    # Path of the URL, starting with "/", unescaped.
    path: str
    # Unescaped. None of our requests repeats a parameter.
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    # Seconds for the whole exchange, from send() on; None for the client's default.
    timeout: float | None = None
    # Checked just before the bytes of each attempt are sent. If it has expired, they are not, and the response has
    # sent=False. A running exchange ends with its permit.
    permit: Permit = ALWAYS
    # User agent up to its first slash, for the embedded server without HTTP; HTTP clients send their own.
    agent: str = ""
    # Name of the transport's credentials to use; "" for the client's.
    user: str = ""
    # W3C header that makes the server's spans part of a trace; "" without one.
    traceparent: str = ""
    # Seconds by which events of a watch may be late if they follow another one. HTTP clients then read many together.
    may_lag: float = 0.0

    @property
    def only_name(self) -> str:
        """Return the name of the single object that a list selects by its field selector; "" for other requests."""
        if self.method != "GET" or self.query.get("watch"):
            return ""
        field, _, name = self.query.get("fieldSelector", "").partition("=")
        return name if field == "metadata.name" and "," not in name else ""


class Response(Struct, frozen=True, kw_only=True):
    """Response, or the reason why the server did not respond."""

    # 0 without a response; the request may have been carried out nevertheless, unless sent is False.
    status: int
    body: bytes = b""
    content_type: str = JSON
    # Seconds, from the header; 0 without it.
    retry_after: float = 0.0
    # Why there is no response.
    error: str = ""
    sent: bool = True
    # The connection broke after the response had begun, such as that of an open watch.
    begun: bool = False
    # The server's warnings for people, from Warning headers.
    warnings: tuple[str, ...] = ()
    # For the audit log of the embedded server.
    annotations: Mapping[str, str] | None = None

    @property
    def problem(self) -> str:
        """Return why the request failed: `error`, or the message of the server's Status, or the status code."""
        if self.error:
            return self.error
        try:
            return str(orjson.loads(self.body)["message"]) or f"the server returned {self.status}"
        except (ValueError, KeyError, TypeError):  # not a Status, such as a page of a proxy
            return f"the server returned {self.status}"

    def remarked(self, warnings: tuple[str, ...], annotations: Mapping[str, str] | None) -> Response:
        """Return a copy with these warnings and annotations added."""
        return Response(
            status=self.status,
            body=self.body,
            content_type=self.content_type,
            retry_after=self.retry_after,
            warnings=warnings,
            annotations=annotations,
        )


class Stream(Protocol):
    """Handle of a running watch."""

    def cancel(self) -> None:
        """End the watch. on_end is not called after this returns; lines received before may still be delivered."""


class Transport(Protocol):
    """Interface for sending requests. Every method returns at once and may be called from any thread.

    Callbacks run on a thread of the transport (in the simulator on the only thread) and must not block.
    client: name of the sender: the user agent's suffix and, with --use-service-account-credentials, the identity.
    """

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None: ...

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        """Stream a watch.

        on_lines: receives one or more complete lines, each a JSON watch event ending in a newline.
        on_end: called once, at the end: with status 200 after a clean close, 0 if the connection broke (with the
            reason in error), otherwise the status with which the server refused the watch. An incomplete last line is
            dropped and mentioned in error.
        """


@runtime_checkable
class HasServer(Protocol):
    """Transport with one API server.

    host: host and port in the server's URL, as metrics have it.
    """

    @property
    def host(self) -> str: ...


@runtime_checkable
class ReadsAsItComes(Protocol):
    """Transport that delivers the body of a response in parts, for bodies that are too large for memory."""

    def read(
        self,
        request: Request,
        *,
        client: str,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        """Read a body in parts. The request's timeout applies only to the body of an error response.

        on_bytes: receives the body of a 200, in pieces of 64 KB or more, cut anywhere; only the last may be smaller.
        on_end: as in watch().
        """


@runtime_checkable
class Breakable(Protocol):
    """Transport that may break permanently: later requests are refused, and the process must end."""

    @property
    def trouble(self) -> str | None:
        """Return why the transport is broken; None while it works, and after it was closed. Thread-safe."""
