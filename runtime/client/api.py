"""The one shape in which anything asks an API server: a Request in, a Response out, whatever carries it.

The HTTP client (runtime/client) carries requests to a real server; the embedded server's core (runtime/apiserver)
serves them itself, with HTTP in front of it or, in the simulator, without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from kcm.protocols.late_methods import dataclass
from kcm.runtime.scheduling.permits import ALWAYS, Permit

JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to an API server.

    path: as in a URL, starting with "/", unescaped. query: parameter → value, unescaped; a parameter that stands
    more than once is joined by nothing we send, so the last one counts. timeout: seconds for the whole exchange, from
    send() on; None for the client's default. permit: looked at just before each attempt's bytes go out, on whatever
    thread and however late; without it they do not, and the response says that it was not sent. The exchange ends with
    it. agent: for the embedded server, by whom it came: the user agent up to its first slash; a client's transport says
    its own. user: with whose credentials it goes, of those that the transport has; "" for the client's.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    timeout: float | None = None
    permit: Permit = ALWAYS
    agent: str = ""
    user: str = ""

    @property
    def only_name(self) -> str:
        """Of the one object that a list asks for by its field selector; "" for any other request."""
        if self.method != "GET" or self.query.get("watch"):
            return ""
        field, _, name = self.query.get("fieldSelector", "").partition("=")
        return name if field == "metadata.name" and "," not in name else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response. status 0: there was none, and error says why; then the request may have been carried out all the
    same, unless sent is False. begun: a watch was open, and its connection broke.
    retry_after: seconds, from the header; 0 where there was none.
    warnings: remarks of the server about the request, for people: over HTTP from Warning headers. annotations: for the
    audit log of the embedded server.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    retry_after: float = 0.0
    error: str = ""
    sent: bool = True
    begun: bool = False
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] | None = None

    def remarked(self, warnings: tuple[str, ...], annotations: Mapping[str, str] | None) -> Response:
        """The same with these. As nearly every write has some, it is made without dataclasses.replace."""
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
        """End it. on_end is not called after this returns; lines already on their way may still be delivered."""


class Transport(Protocol):
    """Carries requests; every method returns at once and may be called from any thread.

    Callbacks run on a thread of the transport's own (in the simulator: on the only one) and must not block.
    client: whose request it is: the user agent's suffix and, with --use-service-account-credentials, the identity.
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

        on_end: once, at the end: status 200 after a clean close, 0 when the connection broke (error says how),
        else the status with which the server refused to begin. A line cut by the end is dropped, and error says so.
        """


@runtime_checkable
class ReadsAsItComes(Protocol):
    """A Transport that hands on the body of a response as it comes, for one that is too large to be held."""

    def read(
        self,
        request: Request,
        *,
        client: str,
        on_bytes: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        """on_bytes: the body of a 200, in pieces of 64 KB or more, cut anywhere; only the last one may be smaller.

        on_end: as of watch(). The request's timeout is for a refusal only.
        """


@runtime_checkable
class Breakable(Protocol):
    """A Transport that may break for good: what is sent from then on is refused, and the process has to end."""

    @property
    def trouble(self) -> str | None:
        """Why it carries nothing any more; None while it does, and after it was closed. From any thread."""
