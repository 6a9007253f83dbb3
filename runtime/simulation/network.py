"""Simulated network between processes and the embedded API server, on virtual time and with faults.

Requests are passed to ApiServer as objects, without HTTP.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import orjson
from msgspec import Struct

from kcm.protocols.objects import make_key
from kcm.runtime.apiserver.core.questions import Answer, CallWebhook, Question, call_no_webhook
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.discovery import aggregated_json, discovery
from kcm.runtime.apiserver.presentation.field_warnings import FieldWarnings
from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ADMIN, NODES, User, known
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.schema.api_types import built_in_types
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.trace import Trace

OPENAPI = "/openapi/v3/"


class Witness(Protocol):
    """Observer of the requests between processes and the server."""

    def sent(self, process: str, client: str, request: Request) -> None:
        """Observe a request that a process has sent. It may still be lost."""

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        """Observe a request that the server has executed. Its response may still be lost."""


class Scope(Struct, frozen=True):
    """Properties of a request that the faults of a plan are matched against."""

    process: str
    resource: str = ""  # plural
    key: str = ""  # namespace/name of the object
    subresource: str = ""
    client: str = ""
    method: str = ""  # HTTP method; WATCH for a watch
    has_name: bool = False  # whether the path names an object; False for a collection
    cluster: str = ""  # in a world with several clusters


class OpenStream(Protocol):
    """Open watch of a process."""

    scope: Scope

    def break_off(self, error: str) -> None:
        """Break the connection with an error, which the client receives. Lines in flight are lost."""

    def cancel(self) -> None:
        """End the watch without notifying the client."""


class SimulatedNetwork:
    """Network between the API server and all processes.

    A request and a response each take between `latency` and 2 * `latency` virtual seconds.

    server: the current server; replaced when it restarts
    requests: (virtual time, client, request) of all requests that processes have sent
    call_webhook: function that simulates the servers of all webhooks
    webhook_delay: returns the additional seconds until the response of a webhook
    aggregated: functions that simulate aggregated API servers, by API group; discovery does not contain them
    injector: injects faults; None for none
    trace: digest of the run; None to record none
    cluster: name of the server's cluster, in a world with several
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        clock: VirtualClock,
        random: random.Random,
        latency: float = 0.001,
        cluster: str = "",
    ) -> None:
        self.server, self.clock, self.cluster = server, clock, cluster
        self.call_webhook: CallWebhook = call_no_webhook
        self.webhook_delay: Callable[[Question], float] = lambda _question: 0.0
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
        self._server, self._field_warnings = server, FieldWarnings(server.route, every_patch=False)
        self._openapi = OpenApi(server.registry, built_in_types(), Descriptions(None))
        server.webhook_calls.set_async_caller(partial(self._answer_later, server))

    def _answer_later(
        self, server: ApiServer, questions: Sequence[Question], then: Callable[[list[Answer]], None]
    ) -> None:
        # Conversion webhooks delay the events of watches as they delay requests.
        def answer() -> None:
            if server is self._server and not self.server_is_down:
                then([self.call_webhook(question) for question in questions])

        late = max(map(self.webhook_delay, questions), default=0.0)
        self.clock.call_after(2 * self.delay() + late, answer)

    def delay(self) -> float:
        return self._latency * (1 + self._random.random())

    def break_streams(self, process: str | None = None, error: str = "connection reset by peer") -> None:
        """Break the connections of all watches of a process, or of all processes. The clients receive the error."""
        for stream in list(self._streams):
            if process is None or stream.scope.process == process:
                stream.break_off(error)

    def cancel_streams(self, process: str) -> None:
        """Cancel all watches of a process that has ended."""
        for stream in list(self._streams):
            if stream.scope.process == process:
                stream.cancel()

    def record_revision(self) -> None:
        """Record the current revision of the server, for the fault LIST_STALE. Called periodically."""
        if self.injector is not None and self.injector.plans(FaultKind.LIST_STALE):
            self._revisions.append((self.clock.monotonic(), self.server.revision))

    def revision_before(self, seconds: float) -> int | None:
        """Return the server's revision at a number of virtual seconds ago; None if it was not recorded."""
        wanted = self.clock.monotonic() - seconds
        known = [revision for at, revision in self._revisions if at <= wanted]
        return known[-1] if known else None

    def strike(self, kind: FaultKind, scope: Scope) -> Fault | None:
        injector = self.injector
        if injector is None or not injector.plans(kind):
            return None
        return injector.strike(
            kind, process=scope.process, resource=scope.resource, key=scope.key, cluster=scope.cluster, at=scope
        )

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
            return Scope(process, cluster=self.cluster)
        name = found.name or _name_in(request) or request.only_name
        key, has_name = make_key(found.namespace, name), bool(found.name)
        return Scope(process, found.definition.plural, key, found.subresource, client, method, has_name, self.cluster)

    def serve(self, request: Request) -> Response | Suspended:
        """Execute a request: by an aggregated API server, as a request for a document, or by the server."""
        path = request.path
        if self.aggregated and (answer := self.aggregated.get(_group_of(path))) is not None:
            return answer(request)
        if path.startswith(OPENAPI):
            document = self._openapi.document(path.removeprefix(OPENAPI))
            return Response(status=404) if document is None else Response(status=200, body=document[1])
        if not _is_discovery(path):
            return self.server.begin(request, user=_user_of(request))
        registry = self.server.registry
        if "APIGroupDiscoveryList" in request.accept and (aggregated := aggregated_json(registry, path)) is not None:
            return Response(status=200, body=aggregated)
        found = discovery(registry, path, address="simulated:443")
        return self.server.handle(request) if found is None else Response(status=200, body=orjson.dumps(found))

    def serve_checked(self, request: Request) -> tuple[Response | Suspended, Sequence[str]]:
        """Execute a request, and validate the fields of its body as the HTTP side of the server does.

        Returns the response, or a Suspended, and the warnings about unknown fields.
        """
        if request.method == "GET":
            return self.serve(request), ()
        try:
            return self._field_warnings.carry_out(
                request, _info_of(request), JsonBody(request.body), partial(self.serve, request)
            )
        except StatusError as err:
            return err.response(), ()

    def note(self, process: str, text: str) -> None:
        if self.trace is not None:
            self.trace.passed(self.clock.monotonic(), process, f"{self.cluster}: {text}" if self.cluster else text)


def _info_of(request: Request) -> RequestInfo:
    return RequestInfo.of(request.method, request.path, request.query)


def _user_of(request: Request) -> User:
    """Return the user of a request: the node that it names, or else the administrator."""
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
