"""Requests to an API server and their responses, and the interface of what carries them.

The HTTP client (runtime/client) sends requests to a server; the core of the embedded server (runtime/apiserver) takes
the same requests, through HTTP or, in the simulator, directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from kcm.protocols.late_methods import dataclass
from kcm.runtime.scheduling.permits import ALWAYS, Permit

JSON = "application/json"
LONGEST_FIELD_MANAGER = 128  # bytes, as upstream
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to an API server."""

    method: str
    # As in a URL, starting with "/", unescaped.
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
    # Name of the credentials to use, of those that the transport has; "" for the client's.
    user: str = ""

    @property
    def only_name(self) -> str:
        """Return the name of the single object that a list selects by its field selector; "" for other requests."""
        if self.method != "GET" or self.query.get("watch"):
            return ""
        field, _, name = self.query.get("fieldSelector", "").partition("=")
        return name if field == "metadata.name" and "," not in name else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response, or the reason for its absence."""

    # 0 without a response; the request may have been carried out nevertheless, unless sent is False.
    status: int
    body: bytes = b""
    content_type: str = JSON
    # Seconds, from the header; 0 without it.
    retry_after: float = 0.0
    # Why there is no response.
    error: str = ""
    sent: bool = True
    # A watch was open, and its connection broke.
    begun: bool = False
    # The server's warnings for people, from Warning headers.
    warnings: tuple[str, ...] = ()
    # For the audit log of the embedded server.
    annotations: Mapping[str, str] | None = None

    def remarked(self, warnings: tuple[str, ...], annotations: Mapping[str, str] | None) -> Response:
        """Return a copy with warnings and annotations.

        Nearly every write has some, so this does without dataclasses.replace, which is slow.
        """
        return Response(
            status=self.status,
            body=self.body,
            content_type=self.content_type,
            retry_after=self.retry_after,
            warnings=warnings,
            annotations=annotations,
        )


class Stream(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """End the watch. on_end is not called after this returns; lines received before may still be delivered."""


class Transport(Protocol):
    """Carries requests; every method returns at once and may be called from any thread.

    Callbacks run on a thread of the transport (in the simulator on the only one) and must not block.
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
        """Stream a watch. on_lines: one or more whole lines, each a JSON watch event ending in a newline.

        on_end: called once, at the end: with status 200 after a clean close, 0 if the connection broke (with the
            reason in error), otherwise the status with which the server refused the watch. An incomplete last line is
            dropped and mentioned in error.
        """


@runtime_checkable
class ReadsAsItComes(Protocol):
    """A Transport that passes on the body of a response in parts, for bodies that are too large to be kept."""

    def read(
        self,
        request: Request,
        *,
        client: str,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        """Read a body in parts. The request's timeout applies to a refusal only.

        on_bytes: takes the body of a 200, in pieces of 64 KB or more, cut anywhere; only the last may be smaller.
        on_end: as in watch().
        """


@runtime_checkable
class Breakable(Protocol):
    """A Transport that may break permanently: later requests are refused, and the process has to end."""

    @property
    def trouble(self) -> str | None:
        """Return why the transport is broken; None while it works, and after it was closed. For any thread."""
