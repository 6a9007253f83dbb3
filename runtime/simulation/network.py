"""The simulator's way to the embedded API server's core: a Transport without HTTP, on virtual time, with faults."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import orjson

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import make_key
from kcm.protocols.versions import parse_version
from kcm.runtime.apiserver.core.questions import Answer, Ask, Pause, Question, nobody_there
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.discovery import aggregated_discovery, discovery
from kcm.runtime.apiserver.http.stray_fields import StrayFields
from kcm.runtime.apiserver.http.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ADMIN, NODES, User, known
from kcm.runtime.apiserver.server import ApiServer
from kcm.runtime.apiserver.storage.store import ADDED
from kcm.runtime.apiserver.storage.watches import INITIAL_EVENTS_END, Watch, event_line
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.retries import retry_delay
from kcm.runtime.faults.answers import no_answer, refusal
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.permits import Permit
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.side_threads import SideThread
from kcm.runtime.simulation.trace import Trace

TIMEOUT = 30.0  # seconds, of a request that does not say
SELECTORS = ("labelSelector", "fieldSelector")
KEPT = ("watch", "allowWatchBookmarks", "timeoutSeconds", *SELECTORS)  # of a watch, where a stale server answers it


class Witness(Protocol):
    """Sees what passes between processes and the server."""

    def sent(self, process: str, client: str, request: Request) -> None:
        """A process sends a request; it may still be lost."""

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        """The server has handled it; the response may still be lost."""


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


class SimulatedNetwork:
    """The API server, and the network between it and all processes.

    Each direction takes between `latency` and twice as many virtual seconds.

    server: the current server; a restart replaces it
    requests: (virtual time, client, request) of all processes
    ask: answers calls of webhooks
    aggregated: by API group, the handler of an aggregated API server that an APIService names; not in discovery
    """

    def __init__(
        self, server: ApiServer, *, clock: VirtualClock, random: random.Random, latency: float = 0.001
    ) -> None:
        self.server, self.clock = server, clock
        self.ask: Ask = nobody_there
        self.aggregated: dict[str, Callable[[Request], Response]] = {}
        self.injector: Injector | None = None
        self.trace: Trace | None = None
        self.witnesses: list[Witness] = []
        self.requests: list[tuple[float, str, Request]] = []
        self._random, self._latency = random, latency
        self._streams: dict[SimulatedStream, None] = {}  # that are open
        self._revisions: deque[tuple[float, int]] = deque()  # the server's, as time went by
        self.server_is_down = False

    @property
    def server(self) -> ApiServer:
        return self._server

    @server.setter
    def server(self, server: ApiServer) -> None:
        self._server, self._stray_fields = server, StrayFields(server, every_patch=False)
        server.asks_for_watches(partial(self._answer_later, server))

    def _answer_later(
        self, server: ApiServer, questions: Sequence[Question], then: Callable[[list[Answer]], None]
    ) -> None:
        """The events of watches wait for webhooks as requests do."""

        def answer() -> None:
            if server is self._server and not self.server_is_down:
                then([self.ask(question) for question in questions])

        self.clock.call_after(2 * self.delay(), answer)

    def transport(self, process: str, http: SideThread | None = None) -> SimulatedTransport:
        """A process's own way. http: the thread that carries its requests; None for one that is never held up."""
        return SimulatedTransport(self, process, http if http is not None else SideThread(self.clock))

    def delay(self) -> float:
        return self._latency * (1 + self._random.random())

    def break_streams(self, process: str | None = None, error: str = "connection reset by peer") -> None:
        """Every watch of a process (of all of them) is cut, and its client notices."""
        for stream in list(self._streams):
            if process is None or stream.scope.process == process:
                stream.break_off(error)

    def hang_up(self, process: str) -> None:
        """The process is gone, and its watches with it."""
        for stream in list(self._streams):
            if stream.scope.process == process:
                stream.cancel()

    def remember(self) -> None:
        """Note the server's revision now; called from time to time."""
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

    def opened(self, stream: SimulatedStream) -> None:
        self._streams[stream] = None

    def closed(self, stream: SimulatedStream) -> None:
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
    """The one whose name it is sent in: a node's, as no others are."""
    return known(User(request.user, groups=(NODES,))) if request.user else ADMIN


def _is_discovery(path: str) -> bool:
    """Report whether it is the path of a discovery document: /apis, /apis/apps, /apis/apps/v1, /api/v1."""
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


class SimulatedTransport:
    """Implements kcm.runtime.client.api.Transport for one process. The lines of one watch arrive in order.

    As over HTTP, a refusal that says when to come back is tried again, within the request's time (client/retries.py).
    """

    def __init__(self, network: SimulatedNetwork, process: str, http: SideThread) -> None:
        self._network, self._process, self._http = network, process, http

    @property
    def requests(self) -> list[tuple[float, str, Request]]:
        """Return the requests of all processes."""
        return self._network.requests

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        network = self._network
        permit = request.permit.within(self._http.clock.monotonic() + (request.timeout or TIMEOUT))
        exchange = _Exchange(network, self._process, self._http, client, request, permit, on_response)
        held = network.strike(FaultKind.REQUEST_HELD, exchange.scope)
        if held is None:
            self._http.do(exchange.depart)
        else:
            network.clock.call_after(held.seconds, lambda: self._http.do(exchange.depart))

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> SimulatedStream:
        network = self._network
        network.requests.append((network.clock.monotonic(), client, request))
        stream = SimulatedStream(
            network, network.scope(self._process, client, "WATCH", request), self._http, on_lines, on_end
        )
        network.clock.call_after(network.delay(), lambda: stream.open(request))
        return stream


class _Exchange:
    """One request on its way there and back, perhaps several times."""

    def __init__(
        self,
        network: SimulatedNetwork,
        process: str,
        http: SideThread,
        client: str,
        request: Request,
        permit: Permit,
        on_response: Callable[[Response], None],
    ) -> None:
        self.scope = network.scope(process, client, request.method, request)
        self._network, self._clock = network, network.clock
        self._process, self._http, self._client = process, http, client
        self._request, self._permit, self._on_response = request, permit, on_response
        self._retries = 0
        self._acknowledged = self._answered = False
        self._warnings: Sequence[str] = ()  # of stray fields

    def depart(self) -> None:
        """On the thread of HTTP: the bytes go out, if they may."""
        network, clock, scope, request = self._network, self._clock, self.scope, self._request
        if self._permit.is_over(self._http.clock.monotonic()):
            self._respond(no_answer("not sent: it may not begin any more", sent=False))
            return
        network.requests.append((clock.monotonic(), self._client, request))
        for witness in network.witnesses:
            witness.sent(self._process, self._client, request)
        if network.server_is_down:
            self._respond(no_answer("connection refused", sent=False))
        elif network.partition(scope) is not None or network.strike(FaultKind.COMMAND_LOST, scope) is not None:
            self._give_up()
        elif network.strike(FaultKind.COMMAND_REFUSED, scope) is not None:
            self._respond(no_answer("connection refused", sent=False))
        elif (fault := network.strike(FaultKind.COMMAND_ANSWERED, scope)) is not None:
            self._respond(refusal(fault))
        elif (late := network.strike(FaultKind.COMMAND_DELAYED, scope)) is not None:
            if late.seconds >= self._left:
                self._give_up()  # and it arrives all the same: something on the way had kept it
            clock.call_after(late.seconds, self._arrive)
        else:
            clock.call_after(network.delay(), self._arrive)

    def _arrive(self) -> None:
        network, scope, request = self._network, self.scope, self._request
        if network.server_is_down:
            self._respond(no_answer("connection reset by peer"))
            return
        network.note(self._process, f"{request.method} {request.path} arrives")
        times = 2 if network.strike(FaultKind.COMMAND_REPEATED, scope) is not None else 1
        for _ in range(times):
            outcome, self._warnings = network.serve_checked(request)
            if isinstance(outcome, Suspended):
                self._have_answered(outcome, network.server)
            else:
                self._carried_out(outcome)
        if isinstance(outcome, Response):
            network.server.when_durable(lambda: self._acknowledge(outcome))
        if not self._acknowledged:
            self._give_up()  # unless that comes in time

    def _carried_out(self, response: Response) -> None:
        for witness in self._network.witnesses:
            witness.carried_out(self._process, self._client, self._request, response)

    def _have_answered(self, suspended: Suspended, server: ApiServer) -> None:
        """Resume a request once its webhooks have responded: after the delay of the slowest of them."""
        network, questions = self._network, suspended.questions
        after = max(question.seconds if isinstance(question, Pause) else 2 * network.delay() for question in questions)
        self._clock.call_after(after, lambda: self._resume(suspended, server))

    def _resume(self, suspended: Suspended, server: ApiServer) -> None:
        network = self._network
        if network.server_is_down or network.server is not server:
            return  # it knows nothing of the request any more
        outcome = suspended.resume([network.ask(question) for question in suspended.questions])
        if isinstance(outcome, Suspended):
            self._have_answered(outcome, server)
            return
        self._carried_out(outcome)
        server.when_durable(lambda: self._acknowledge(outcome))

    def _acknowledge(self, response: Response) -> None:
        """Deliver a response once the write is durable. A crash before that undoes the write."""
        self._acknowledged = True
        if self._warnings:
            response = response.remarked((*self._warnings, *response.warnings), response.annotations)
        network, scope = self._network, self.scope
        if network.partition(scope) is not None or network.strike(FaultKind.OUTCOME_LOST, scope) is not None:
            self._give_up()
            return
        self._respond(response)
        if response.retry_after == 0 and network.strike(FaultKind.OUTCOME_REPEATED, scope) is not None:
            self._respond(response, again=True)

    def _respond(self, response: Response, *, again: bool = False) -> None:
        after = self._network.delay()
        if after > self._left and response.sent:
            self._give_up()
        else:
            self._clock.call_after(after, lambda: self._http.do(lambda: self._deliver(response, again=again)))

    def _give_up(self) -> None:
        """The client notices that there is no response when the time of the exchange is over."""
        late = no_answer("timed out")
        self._clock.call_after(max(0.0, self._left), lambda: self._http.do(lambda: self._deliver(late)))

    @property
    def _left(self) -> float:
        """Seconds until the exchange is over, by the process's clock."""
        return self._permit.until - self._http.clock.monotonic()

    def _deliver(self, response: Response, *, again: bool = False) -> None:
        if not again:
            if self._answered or self._comes_back(response):
                return
            self._answered = True
        self._network.note(self._process, f"{self._request.method} {self._request.path} returned {response.status}")
        self._on_response(response)

    def _comes_back(self, response: Response) -> bool:
        """Report whether the request is sent again instead of accepting this response."""
        method, path = self._request.method, self._request.path
        delay = retry_delay(
            method=method,
            status=response.status,
            retry_after=response.retry_after,
            retries=self._retries,
            remaining=self._left,
        )
        if delay is None:
            return False
        self._retries += 1
        self._network.note(self._process, f"{method} {path} returned {response.status}, and goes out again")
        self._clock.call_after(delay, lambda: self._http.do(self.depart))
        return True


class SimulatedStream:
    """A running watch. Its lines stay in order, however late they are."""

    def __init__(
        self,
        network: SimulatedNetwork,
        scope: Scope,
        http: SideThread,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> None:
        self.scope, self._http = scope, http
        self._network, self._on_lines, self._on_end = network, on_lines, on_end
        self._delay = network.delay()  # drawn once
        self._last_due = 0.0  # when the newest line that is on its way arrives
        self._lag = 0.0
        self._stalled = False
        self._watch: Watch | None = None
        self._over = False
        network.opened(self)

    def open(self, request: Request) -> None:
        network = self._network
        if self._over:
            return
        if network.server_is_down or network.partition(self.scope) is not None:
            self.break_off("connection refused")
            return
        fault = network.strike(FaultKind.COMMAND_ANSWERED, self.scope)
        if fault is not None:
            self.end(refusal(fault))
            return
        request = self._from_the_past(request)
        begun = network.server.watch(request, deliver=self.deliver, end=self.end)
        if isinstance(begun, Response):
            self.end(begun)
        else:
            self._watch = begun

    def deliver(self, lines: bytes) -> None:
        network = self._network
        if self._over or self._stalled:
            return
        due = network.clock.monotonic() + self._delay + self._lag
        if network.injector is not None:
            if network.strike(FaultKind.WATCH_DROPPED, self.scope) is not None:
                self.break_off("unexpected EOF")
                return
            if network.strike(FaultKind.WATCH_STALLED, self.scope) is not None:
                self._stalled = True
                return
            lagging = network.strike(FaultKind.WATCH_LAGGING, self.scope)
            cut_off = network.partition(self.scope)
            due += lagging.seconds if lagging is not None else 0.0
            if cut_off is not None and cut_off.until is not None:
                due = max(due, cut_off.until)
            if network.injector.plans(FaultKind.BOOKMARKS_WITHHELD):
                lines = self._without_bookmarks(lines)
        self._last_due = due = max(due, self._last_due)
        if lines:
            network.clock.call_once(due, lambda: self._http.do(lambda: self._arrive(lines)))

    def end(self, response: Response) -> None:
        """The server ends it, after the lines that it has sent."""
        due = max(self._network.clock.monotonic() + self._delay, self._last_due)
        self._network.clock.call_once(due, lambda: self._http.do(lambda: self._finish(response)))

    def break_off(self, error: str) -> None:
        """The connection breaks: what is on its way is lost."""
        if not self._over:
            broken = Response(status=0, error=error, begun=self._watch is not None)
            self._forget()
            self._network.clock.call_after(self._network.delay(), lambda: self._http.do(lambda: self._on_end(broken)))

    def cancel(self) -> None:
        if not self._over:
            self._forget()
        self._on_end = lambda _response: None

    def _arrive(self, lines: bytes) -> None:
        if not self._over:
            self._on_lines(lines)

    def _finish(self, response: Response) -> None:
        if not self._over:
            self._forget()
            self._on_end(response)

    def _forget(self) -> None:
        self._over = True
        self._network.closed(self)
        if self._watch is not None:
            self._watch.cancel()

    def _without_bookmarks(self, lines: bytes) -> bytes:
        kept = []
        for line in lines.splitlines(keepends=True):
            is_bookmark = line.startswith(b'{"type":"BOOKMARK"') and INITIAL_EVENTS_END.encode() not in line
            if not is_bookmark or self._network.strike(FaultKind.BOOKMARKS_WITHHELD, self.scope) is None:
                kept.append(line)
        return b"".join(kept)

    def _from_the_past(self, request: Request) -> Request:
        """The request as a stale server would serve it, or one that repeats changes."""
        network, query = self._network, request.query
        if query.get("sendInitialEvents") == "true":
            stale = network.strike(FaultKind.LIST_STALE, self.scope)
            revision = network.revision_before(stale.seconds) if stale is not None else None
            if stale is None or revision is None or revision < (parse_version(query.get("resourceVersion")) or 0):
                return request  # a server that is behind waits until it is no older than what is asked for
            if not self._list(request, revision):
                return request
            self._lag = stale.seconds
            kept = {name: query[name] for name in KEPT if name in query}
            return replace(request, query={**kept, "resourceVersion": str(revision)})
        version = parse_version(query.get("resourceVersion"))
        if version:
            rewound = network.strike(FaultKind.WATCH_REWOUND, self.scope)
            if rewound is not None:
                back = max(1, version - rewound.amount)
                return replace(request, query={**query, "resourceVersion": str(back)})
        return request

    def _list(self, request: Request, revision: int) -> bool:
        """Deliver what there was at that revision; returns False if the server has compacted it."""
        selectors = {name: request.query[name] for name in SELECTORS if name in request.query}
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact", **selectors}
        response = self._network.server.handle(Request(method="GET", path=request.path, query=query))
        if response.status != 200:
            return False
        listed = orjson.loads(response.body)
        lines = [event_line(ADDED, orjson.dumps(item)) for item in listed["items"]]
        meta = {"resourceVersion": str(revision), "annotations": {INITIAL_EVENTS_END: "true"}}
        lines.append(orjson.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}) + b"\n")
        self.deliver(b"".join(lines))
        return True
