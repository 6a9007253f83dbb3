"""Network between the simulated processes and the embedded API server's core, on virtual time and with faults."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import orjson

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import make_key
from kcm.runtime.apiserver.core.questions import Answer, CallWebhook, Question, call_no_webhook
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.discovery import aggregated_discovery, discovery
from kcm.runtime.apiserver.presentation.stray_fields import StrayFields
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ADMIN, NODES, User, known
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.trace import Trace


class Witness(Protocol):
    """Observer of the requests between processes and the server."""

    def sent(self, process: str, client: str, request: Request) -> None:
        """Observe a request that a process sends; it may still be lost."""

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        """Observe a request that the server has handled; the response may still be lost."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a request, for matching faults. method: WATCH for a watch. has_name: False for a whole collection."""

    process: str
    resource: str = ""
    key: str = ""
    subresource: str = ""
    client: str = ""
    method: str = ""
    has_name: bool = False


class OpenStream(Protocol):
    """Open watch of a process."""

    scope: Scope

    def break_off(self, error: str) -> None: ...

    def cancel(self) -> None: ...


class SimulatedNetwork:
    """The API server, and the network between it and all processes.

    Each direction takes between `latency` and twice as many virtual seconds.

    server: the current server; a restart replaces it.
    requests: (virtual time, client, request) of all processes.
    call_webhook: handler of webhook calls, in place of the webhooks' servers.
    aggregated: handlers of aggregated API servers by API group; they are not in discovery.
    """

    def __init__(
        self, server: ApiServer, *, clock: VirtualClock, random: random.Random, latency: float = 0.001
    ) -> None:
        self.server, self.clock = server, clock
        self.call_webhook: CallWebhook = call_no_webhook
        self.aggregated: dict[str, Callable[[Request], Response]] = {}
        self.injector: Injector | None = None
        self.trace: Trace | None = None
        self.witnesses: list[Witness] = []
        self.requests: list[tuple[float, str, Request]] = []
        self._random, self._latency = random, latency
        self._streams: dict[OpenStream, None] = {}  # open watches
        self._revisions: deque[tuple[float, int]] = deque()  # (virtual time, revision of the server)
        self.server_is_down = False

    @property
    def server(self) -> ApiServer:
        return self._server

    @server.setter
    def server(self, server: ApiServer) -> None:
        self._server, self._stray_fields = server, StrayFields(server.route, every_patch=False)
        server.outside_calls.make_later(partial(self._answer_later, server))

    def _answer_later(
        self, server: ApiServer, questions: Sequence[Question], then: Callable[[list[Answer]], None]
    ) -> None:
        # The events of watches wait for webhooks as requests do.
        def answer() -> None:
            if server is self._server and not self.server_is_down:
                then([self.call_webhook(question) for question in questions])

        self.clock.call_after(2 * self.delay(), answer)

    def delay(self) -> float:
        return self._latency * (1 + self._random.random())

    def break_streams(self, process: str | None = None, error: str = "connection reset by peer") -> None:
        """Cut the watches of a process, or of all processes. The clients receive the error."""
        for stream in list(self._streams):
            if process is None or stream.scope.process == process:
                stream.break_off(error)

    def hang_up(self, process: str) -> None:
        """Cancel the watches of a process that has ended."""
        for stream in list(self._streams):
            if stream.scope.process == process:
                stream.cancel()

    def remember(self) -> None:
        """Record the current revision of the server; called periodically."""
        if self.injector is not None and self.injector.plans(FaultKind.LIST_STALE):
            self._revisions.append((self.clock.monotonic(), self.server.revision))

    def revision_before(self, seconds: float) -> int | None:
        """Return the server's revision some seconds ago; None if it was not recorded."""
        wanted = self.clock.monotonic() - seconds
        known = [revision for at, revision in self._revisions if at <= wanted]
        return known[-1] if known else None

    def strike(self, kind: FaultKind, scope: Scope) -> Fault | None:
        if self.injector is None:
            return None
        return self.injector.strike(kind, process=scope.process, resource=scope.resource, key=scope.key, at=scope)

    def partition(self, scope: Scope) -> Fault | None:
        return self.strike(FaultKind.PARTITION, scope)

    def opened(self, stream: OpenStream) -> None:
        self._streams[stream] = None

    def closed(self, stream: OpenStream) -> None:
        self._streams.pop(stream, None)

    def scope(self, process: str, client: str, method: str, request: Request) -> Scope:
        if self.injector is None:
            return Scope(process)
        found = self.server.route(_info_of(request))
        if found is None:
            return Scope(process)
        name = found.name or _name_in(request) or request.only_name
        key, has_name = make_key(found.namespace, name), bool(found.name)
        return Scope(process, found.definition.plural, key, found.subresource, client, method, has_name)

    def serve(self, request: Request) -> Response | Suspended:
        """Handle a request by the server or by the discovery documents of its HTTP side."""
        path = request.path
        if self.aggregated and (answer := self.aggregated.get(_group_of(path))) is not None:
            return answer(request)
        if not _is_discovery(path):
            return self.server.begin(request, user=_user_of(request))
        registry = self.server.registry
        document = aggregated_discovery(registry, path) if "APIGroupDiscoveryList" in request.accept else None
        document = document or discovery(registry, path, address="simulated:443")
        return self.server.handle(request) if document is None else Response(status=200, body=orjson.dumps(document))

    def serve_checked(self, request: Request) -> tuple[Response | Suspended, Sequence[str]]:
        """Serve a request, with the warnings of the server's HTTP side about fields that the kind does not have."""
        if request.method == "GET":
            return self.serve(request), ()
        try:
            return self._stray_fields.watched(
                request, _info_of(request), JsonBody(request.body), partial(self.serve, request)
            )
        except StatusError as err:
            return err.response(), ()

    def note(self, process: str, text: str) -> None:
        if self.trace is not None:
            self.trace.passed(self.clock.monotonic(), process, text)


def _info_of(request: Request) -> RequestInfo:
    return RequestInfo.of(request.method, request.path, request.query)


def _user_of(request: Request) -> User:
    """Return the user in whose name the request is sent: a node, or the administrator."""
    return known(User(request.user, groups=(NODES,))) if request.user else ADMIN


def _is_discovery(path: str) -> bool:
    """Report whether the path is that of a discovery document: /apis, /apis/apps, /apis/apps/v1, /api/v1."""
    return path.count("/") <= (3 if path.startswith("/apis/") else 2 if path.startswith("/api/") else 1)


def _group_of(path: str) -> str:
    return path.split("/", 3)[2] if path.startswith("/apis/") else ""


def _name_in(request: Request) -> str:
    if request.method != "POST" or not request.body:
        return ""
    try:
        return str(orjson.loads(request.body).get("metadata", {}).get("name") or "")
    except (orjson.JSONDecodeError, AttributeError):
        return ""
