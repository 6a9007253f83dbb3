"""HTTP side of the embedded API server: one handler between connections and ApiServer.

Kept thin, since every request of a busy cluster passes here: paths are parsed by hand, bodies stay bytes, targets and
headers are parsed once for all requests that have the same, and there is no router, no middleware and no access log.

Source of the visible behaviour: apiserver pkg/server (handlers, healthz, version) and pkg/endpoints/filters (v1.36).
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.access.authentication import NO_CERTIFICATE, Authenticator, ClientIdentity, by_certificate
from kcm.runtime.apiserver.access.impersonation import PREFIX as IMPERSONATE
from kcm.runtime.apiserver.access.impersonation import Impersonation, wanted_user
from kcm.runtime.apiserver.access.refusals import NotAuthorizedError, not_authorized
from kcm.runtime.apiserver.core.cluster import Now
from kcm.runtime.apiserver.core.field_managers import agent_prefix
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.http.encodings import Encodings
from kcm.runtime.apiserver.http.forms import Forms
from kcm.runtime.apiserver.http.json_bodies import escaped
from kcm.runtime.apiserver.http.metrics import RequestMetrics
from kcm.runtime.apiserver.http.negotiation import AS_IT_IS, JSON, Form
from kcm.runtime.apiserver.http.openapi_v2 import OPENAPI_V2, OpenApiV2
from kcm.runtime.apiserver.http.pages import Pages, json_response
from kcm.runtime.apiserver.http.priority import Turns, level_of
from kcm.runtime.apiserver.http.request_bodies import InvalidYamlError, is_yaml, json_body
from kcm.runtime.apiserver.http.slices import Gradually
from kcm.runtime.apiserver.http.stray_fields import StrayFields
from kcm.runtime.apiserver.http.streams import WatchStream
from kcm.runtime.apiserver.http.suspended_calls import OutsideCalls
from kcm.runtime.apiserver.http.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.apiserver.registry.users import ACCOUNTS, ALLOWED, ANONYMOUS, MASTERS, User
from kcm.runtime.apiserver.schema.api_types import built_in_types
from kcm.runtime.apiserver.schema.descriptions import installed_descriptions
from kcm.runtime.apiserver.schema.openapi import OpenApi
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.snapshots import SNAPSHOT_PATH
from kcm.runtime.apiserver.storage.watches import Watch
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Request, Response
from kcm.runtime.http.server.bounded_connections import BoundedConnections
from kcm.runtime.http.server.buffered_bytes import BufferedBytes
from kcm.runtime.http.server.request import NO_SNIFFING, Connection
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.go_durations import duration_problem

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGEST_BODY = 3 * 1024 * 1024  # bytes, as upstream
AT_ONCE = 2048  # bytes of YAML that are read on the event loop; more would hold up everybody else
KEEP_ALIVE = 3630.0  # seconds that an idle connection of a known user stays open

STORE_STALLED = 10.0  # seconds after which a write that waits for the disk makes the server unhealthy

# Components whose health shows in ComponentStatuses: users that watch for them. The hollow nodes' process schedules.
_COMPONENTS = {
    "scheduler": ("system:kube-scheduler", "system:hollow-nodes"),
    "controller-manager": ("system:kube-controller-manager",),
}
_WATCHERS = {user for users in _COMPONENTS.values() for user in users}
_HEALTH = ("/healthz", "/livez", "/readyz")
# Built-in versions of core with an APILifecycle upstream, of those that are served by default.
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_SLASHES_IGNORED = ("/api/", "/apis/", "/version/", "/openid/v1/jwks/", "/.well-known/openid-configuration/")
_WITHOUT_USER = {*_HEALTH, "/version"}
_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized").response()
_TOO_LATE = StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}).response()
_TOO_LARGE = StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}").response()
# Of these patches the body has the fields of the object.


# Writes a snapshot into the server's directory, and calls back with its name there, or what went wrong.
TakeSnapshot = Callable[[Callable[[str | Exception], None]], None]


class ApiHttp:
    """Serves an ApiServer over HTTP. Everything happens on the event loop's thread."""

    def __init__(
        self,
        api: ApiServer,
        *,
        authenticator: Authenticator,
        version: Version,
        clock: Now,
        log: FilteringBoundLogger,
        snapshot: TakeSnapshot | None = None,
        audit: AuditLog | None = None,
        anonymous: bool = False,
    ) -> None:
        """Create a handler.

        snapshot: writes a snapshot of the store; None if nothing is stored.
        audit: None to disable the audit log.
        anonymous: authorize requests without credentials as system:anonymous; otherwise only health checks and the
            version are open to them.
        """
        self._anonymous = anonymous
        self._snapshot, self._audit = snapshot, audit
        self._api, self._authenticator, self._clock, self._log = api, authenticator, clock, log
        types = built_in_types()
        self._stray_fields, self._protobuf = StrayFields(api), ProtobufDecoder(types)
        encodings = Encodings(ProtobufEncoder(types))
        self._forms = Forms(api, encodings, clock)
        self._impersonation = Impersonation(api.decide)
        openapi = OpenApi(api.registry, types, installed_descriptions(), build=version.git_version)
        release = f"{version.major}.{version.minor}"
        self._openapi_v2 = OpenApiV2(openapi, release, failed=self._refuse)
        self._metrics = RequestMetrics()
        self._metrics.count_objects(api.object_counts)
        self._pages = Pages(
            api,
            version=version,
            openapi=openapi,
            encoder=encodings.encoder,
            metrics=self._metrics,
            checks={"ping": lambda: "", "store": self._store_check},
            checks_of_readiness={"shutdown": lambda: "it ends" if self._ending else ""},
        )
        self._yaml = ThreadPoolExecutor(max_workers=1, thread_name_prefix="yaml")
        self._outside = OutsideCalls(api.outside_calls.acting_for)
        api.suspends_long_work()
        api.outside_calls.make_later(self._outside.answer)
        api.serve_components(self._components)
        self._watching: Counter[str] = Counter()  # open watches, by user
        self._streams: set[WatchStream] = set()
        self._turns: Turns[ApiRequest] | None = None  # once there is an event loop
        self._in_slices: Gradually  # long computations; set with _turns
        self._waiting: dict[ApiRequest, float] = {}  # for what they did to be durable, since when
        self._ending = False
        self._failure: StatusError | None = None
        self._connections: BoundedConnections | None = None

    def server(self, connections: BoundedConnections | None = None) -> HttpServer:
        """Makes the protocols of connections. connections: those that it will have, if they are bounded."""
        self._connections = connections
        buffered = BufferedBytes(
            now=lambda: asyncio.get_running_loop().time(),
            later=lambda seconds, do: asyncio.get_running_loop().call_later(seconds, do),
            log=self._log,
        )
        return HttpServer(
            self,
            new_request=ApiRequest,
            largest_body=LARGEST_BODY,
            now=self._clock.now,
            connections=connections,
            buffered=buffered,
            product="kcm",
        )

    def end_watches(self) -> None:
        """End all watches gracefully, before the server stops."""
        self._ending = True
        for stream in self._streams:
            stream.end()

    async def close(self) -> None:
        """Abandon requests that wait for others than the server, after it has stopped."""
        await self._outside.close()

    def fail(self, failure: StatusError) -> None:
        """Writes can no longer be made durable: fail all requests that wait for it and all later ones, end watches."""
        self._failure = failure
        for stream in self._streams:
            stream.end()
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.respond(failure.response())

    def take_back(self, because: StatusError) -> None:
        """The store had no room for what is not durable yet: undo it, refuse the writers, and read again for others."""
        self._api.take_back(because)
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            if request.method == "GET":
                self._handle(request)
            else:
                request.respond(because.response())

    # --- what a connection calls

    def admit(self, request: ApiRequest) -> Response | None:
        try:
            request.info = RequestInfo.parse(request.method, request.target)
        except StatusError as error:
            return error.response()
        user = self._user_of(request)
        if user is None or (user is ANONYMOUS and not self._is_open_to_anonymous(request)):
            if self._audit is not None:
                self._audit.not_let_in(request, request.info)
            return self._forms.error(_accept(request), _UNAUTHORIZED)
        if user is ANONYMOUS:
            return self._refusal_of_anonymous(request)
        request.user = user
        if self._connections is not None:
            self._connections.mark_known(request.connection)
        return None

    def _user_of(self, request: ApiRequest) -> User | None:
        """Return ANONYMOUS for a request without credentials, None if all of its credentials are refused.

        The certificate comes first, as upstream: a valid one makes the token irrelevant, an invalid one does not.
        """
        connection = request.connection
        identity: ClientIdentity | None = connection.identity
        if identity is None:
            identity = connection.identity = ClientIdentity(by_certificate(connection.tls))
        certificate = identity.certificate
        certified: User | None = ANONYMOUS
        if certificate is not NO_CERTIFICATE:
            certified = certificate.at(self._clock.now())
            if certified is not None:
                return certified
        authorization = request.headers.get(b"authorization")
        if not authorization:
            return certified
        if authorization == identity.authorization:
            return identity.user
        user = self._authenticator.by_token(authorization)
        if user is None:  # not remembered: the token may become valid
            return None
        if user is ANONYMOUS:
            return certified
        if not user.name.startswith(ACCOUNTS):  # the token of an account may expire
            identity.authorization, identity.user = authorization, user
        return user

    def _is_open_to_anonymous(self, request: ApiRequest) -> bool:
        return self._anonymous or request.info.path.rstrip("/") in _WITHOUT_USER

    def _refusal_of_anonymous(self, request: ApiRequest) -> Response | None:
        """Authorize an anonymous request by its head, so that no body is kept of one that is refused."""
        request.began = self._clock.now()
        try:
            self._let_in(request)
        except Exception as error:
            request.refusal_lines = _lines_of(error)
            return self._forms.error(_accept(request), self._refusal(request, error))
        return None

    def too_large(self) -> Response:
        return _TOO_LARGE

    def too_late(self) -> Response:
        return _TOO_LATE

    def needs_body(self, request: ApiRequest) -> bool:
        """Report whether the request is for a resource and may have a body."""
        return request.method != "GET" and request.info.is_resource_request

    def cut_off(self, connection: Connection, why: str) -> None:
        path = connection.target.decode(errors="replace")
        self._log.warning(f"connection cut off, {why}", path=path, peer=connection.peer)

    def handle(self, request: ApiRequest) -> None:
        if self._turns is None:
            loop = asyncio.get_running_loop()
            self._turns = Turns(self._handle, now=loop.time, soon=loop.call_soon)
            self._in_slices = Gradually(now=loop.time, soon=loop.call_soon)
        request.began = self._clock.now()
        info = request.info
        self._turns.take(request, level_of(request.user, info, is_probe=info.path in _HEALTH))

    def _handle(self, request: ApiRequest) -> None:
        if not request.is_awaited:
            return
        info = request.info
        try:
            self._let_in(request)
            _check_timeout(info)
            if info.is_resource_request and not info.path.startswith("//"):
                self._resource(request, info)
            elif info.path == SNAPSHOT_PATH:
                self._take_snapshot(request)
            elif request.method != "GET":
                raise status_errors.method_not_allowed()
            elif info.path == OPENAPI_V2:
                self._openapi_v2.respond(request)
            else:
                found = self._pages.page(request, _page_path(info.path))
                self._count(request, found.response.status)
                request.respond(found.response, lines=found.lines, cache=found.cache, as_it_is=not found.is_object)
        except Exception as error:
            self._refuse(request, error)

    def _let_in(self, request: ApiRequest) -> None:
        """Settles who acts. Raises StatusError: 403 where that user may not do this."""
        info = request.info
        if self._audit is not None and request.observer is None:  # else it is carried out again
            self._audit.begin(request, request.user or ANONYMOUS, info)
        if IMPERSONATE in b"\n".join(request.headers):  # loop over them only if there may be any
            self._impersonate(request)
        user = request.user or ANONYMOUS
        is_probe = info.verb == "get" and info.path in _HEALTH
        if request.observer is None and (MASTERS in user.groups or is_probe):
            return
        decision = ALLOWED if is_probe else self._api.decide(user, info)
        if request.observer is not None:
            request.observer.decided(allowed=decision.allowed, reason=decision.reason)
        if not decision.allowed:
            raise not_authorized(user.name, info, decision.reason)

    def _impersonate(self, request: ApiRequest) -> None:
        wanted = wanted_user((*request.headers.items(), *request.repeated))
        if wanted is None:
            return
        found = self._impersonation.impersonate(request.user or ANONYMOUS, wanted, request.info)
        request.user = found.user
        # Once: it may be carried out again.
        request.headers = {name: value for name, value in request.headers.items() if not name.startswith(IMPERSONATE)}
        if request.observer is not None:
            request.observer.impersonated(found.user, found.constraint)

    def _count(self, request: ApiRequest, status: int) -> None:
        info = request.info
        # There are any number of paths that are not served, and a route that was looked up is kept.
        if status >= 400 and (request.user is None or self._api.route(info) is None):
            info = RequestInfo(info.verb, is_resource_request=False)
        self._metrics.responded(
            info,
            dry_run="dryRun" in request.info.query,
            code=status,
            seconds=max(self._clock.now() - request.began, 0.0),
        )

    def _refuse(self, request: ApiRequest, error: Exception) -> None:
        refusal = self._refusal(request, error)
        request.respond(self._forms.error(_accept(request), refusal), whole=refusal, lines=_lines_of(error))

    def _refusal(self, request: ApiRequest, error: Exception) -> Response:
        """Count and return the response to a request that failed."""
        if not isinstance(error, StatusError):
            path = request.target.decode(errors="replace")
            self._log.error("request failed", method=request.method, path=path, exc_info=error)
            error = status_errors.internal("see the server's log")
        refusal = error.response()
        self._count(request, refusal.status)
        return refusal

    # --- resources

    def _resource(self, request: ApiRequest, info: RequestInfo) -> None:
        if self._failure is not None:
            raise self._failure
        form = self._forms.wanted(_accept(request), info)
        if request.method != "GET":
            self._take_body(request, info)
            return
        asked = Request(method="GET", path=info.path, query=info.query)
        if info.verb == "watch":
            self._watch(request, asked, form)
            return
        outcome = self._api.begin(asked, info=info, user=request.user or ANONYMOUS)
        if isinstance(outcome, Suspended):
            self._outside.go_on(outcome, partial(self._respond_when_durable, request), partial(self._refuse, request))
        else:
            self._respond_when_durable(request, outcome)

    def _take_body(self, request: ApiRequest, info: RequestInfo) -> None:
        method, body = request.method, request.body
        media_type = _media_type(request.headers.get(b"content-type", b""))
        if len(body) > AT_ONCE and is_yaml(method, media_type, body):
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(self._yaml, json_body, method, media_type, body, self._protobuf)
            reading.add_done_callback(partial(self._yaml_read, request, info, media_type))
            return
        try:
            read = json_body(method, media_type, body, self._protobuf)
        except StatusError as error:
            raise self._of_body(method, info, error) from None
        self._write(request, info, media_type, read)

    def _yaml_read(
        self, request: ApiRequest, info: RequestInfo, media_type: str, read: asyncio.Future[JsonBody]
    ) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            self._write(request, info, media_type, read.result())
        except StatusError as error:
            self._refuse(request, self._of_body(request.method, info, error))
        except Exception as error:
            self._refuse(request, error)

    def _of_body(self, method: str, info: RequestInfo, error: StatusError) -> StatusError:
        """A body matters only where something is served."""
        route = self._api.route(info)
        if route is None:
            return status_errors.no_such_path()
        if isinstance(error, InvalidYamlError) and method != "PATCH":
            other = subresource_of(route.subresource).kind if route.subresource else None
            return error.of_kind(route.definition.kind if other is None else other.kind)
        return error

    def _write(self, request: ApiRequest, info: RequestInfo, media_type: str, read: JsonBody) -> None:
        method, body = request.method, read.json
        if request.observer is not None:
            request.observer.requested(body)
        agent = agent_prefix(request.headers.get(b"user-agent", b"").decode(errors="replace"))
        type_ = media_type or JSON
        asked = Request(method=method, path=info.path, query=info.query, body=body, content_type=type_, agent=agent)
        begin = partial(self._api.begin, asked, info=info, user=request.user or ANONYMOUS)
        outcome, warnings = self._stray_fields.watched(asked, info, read, begin)
        if isinstance(outcome, Suspended):
            then = partial(self._respond_when_durable, request, warnings=warnings)
            self._outside.go_on(outcome, then, partial(self._refuse, request))
        else:
            self._respond_when_durable(request, outcome, warnings)

    def _respond_when_durable(self, request: ApiRequest, response: Response, warnings: Sequence[str] = ()) -> None:
        """After the last request that was handled is durable; with a refusal (5xx) if it never will be."""
        if self._failure is not None:
            raise self._failure
        self._waiting[request] = self._clock.now()
        self._api.when_durable(partial(self._respond, request, response, warnings))

    def _respond(self, request: ApiRequest, response: Response, warnings: Sequence[str]) -> None:
        if self._waiting.pop(request, None) is not None:  # otherwise an error was sent when the store failed
            accept, info = _accept(request), request.info
            deprecation = _deprecation_of(info)
            first = (deprecation,) if deprecation else ()
            all_of_them = (*first, *warnings, *response.warnings)
            if isinstance(response, ListResponse):
                self._in_slices.do(self._show_in_steps(request, response, all_of_them))
                return
            try:
                shown = self._forms.response(accept, info, response)
            except Exception as error:
                self._refuse(request, error)
            else:
                self._count(request, shown.status)
                request.respond(shown, warnings=all_of_them, whole=response)

    def _show_in_steps(self, request: ApiRequest, response: ListResponse, warnings: Sequence[str]) -> Iterator[None]:
        """Ends early when the client is gone."""
        steps = self._forms.in_steps(_accept(request), request.info, response)
        while request.is_awaited:
            try:
                next(steps)
            except StopIteration as end:
                self._count(request, end.value.status)
                request.respond(end.value, warnings=warnings, whole=response)
                return
            except Exception as error:
                self._refuse(request, error)
                return
            yield

    def _watch(self, request: ApiRequest, asked: Request, form: Form) -> None:
        watch: Watch | Response | None = None

        info, user = request.info, (request.user or ANONYMOUS).name
        user = user if user in _WATCHERS else ""

        def over() -> None:
            self._streams.discard(stream)
            if isinstance(watch, Watch):
                watch.cancel()
                self._metrics.watching(info, -1)
                self._watching[user] -= 1

        shown = escaped if form == AS_IT_IS else self._forms.representation(info, form).lines
        stream = WatchStream(request, too_slow=partial(self._cut_off, request), over=over, shown=shown)
        watch = self._api.watch(asked, info=info, deliver=stream.deliver, end=stream.end, deliver_first=stream.begin)
        if isinstance(watch, Response):
            self._count(request, watch.status)
            request.respond(self._forms.error(_accept(request), watch), whole=watch)
            return
        self._streams.add(stream)
        self._metrics.watching(info, 1)
        self._watching[user] += 1
        type_ = form.media_type if form.media_type == JSON else f"{form.media_type};stream=watch"
        deprecations = (_deprecation_of(info), watch.definition.deprecation)
        request.stream(type_, stream, warnings=[deprecation for deprecation in deprecations if deprecation])

    def _cut_off(self, request: ApiRequest) -> None:
        path = request.target.decode(errors="replace")
        self._log.warning("watch cut off, its client is too slow", path=path, peer=request.connection.peer)
        request.abort()

    # --- everything else

    def _take_snapshot(self, request: ApiRequest) -> None:
        """All secrets are in it: for administrators alone."""
        user = request.user or ANONYMOUS
        if request.method != "POST":
            raise status_errors.method_not_allowed()
        if MASTERS not in user.groups:
            raise status_errors.forbidden_path(user.name, "post", SNAPSHOT_PATH)
        if self._snapshot is None:
            raise status_errors.no_such_path("this server keeps all in memory")
        self._snapshot(partial(self._respond_with_snapshot, request))

    def _respond_with_snapshot(self, request: ApiRequest, made: str | Exception) -> None:
        if isinstance(made, Exception):
            self._log.error("no snapshot", error=str(made))
            request.respond(status_errors.internal(str(made)).response())
        else:
            request.respond(json_response({"snapshot": made}))

    def _components(self) -> Iterator[tuple[str, str]]:
        """A component is healthy while it watches as its own user, or holds its lease."""
        for component, users in _COMPONENTS.items():
            is_watching = any(self._watching[user] for user in users)
            yield component, "" if is_watching else self._api.lease_problem(f"kube-{component}")
        yield "etcd-0", self._store_check()

    def _store_check(self) -> str:
        if self._failure is not None:
            return self._failure.message
        waited = self._clock.now() - next(iter(self._waiting.values()), math.inf)
        return f"a write has not been durable for {waited:.0f} s" if waited > STORE_STALLED else ""


def _check_timeout(info: RequestInfo) -> None:
    """Validate ?timeout of a request other than a watch, without applying it. Raises StatusError (400)."""
    timeout = info.query.get("timeout")
    if timeout and info.verb != "watch" and (problem := duration_problem(timeout)):
        raise status_errors.bad_request(f"invalid timeout specified in the request URL - {problem}")


def _deprecation_of(info: RequestInfo) -> str:
    """Return the warning about the resource's version, "" without one."""
    return _DEPRECATED.get(info.resource, "") if not info.group else ""


def _page_path(path: str) -> str:
    """Strip slashes from the end of a path where upstream ignores them.

    Elsewhere "/metrics/" is not "/metrics": a rule that allows one does not allow the other.
    """
    return path.rstrip("/") if path.startswith(_SLASHES_IGNORED) else path


def _lines_of(error: Exception) -> bytes:
    """Further lines of the head of a refusal."""
    return NO_SNIFFING if isinstance(error, NotAuthorizedError) else b""


def _accept(request: ApiRequest) -> bytes:
    return request.headers.get(b"accept", b"")


@bounded_cache(256)
def _media_type(content_type: bytes) -> str:
    """Return the media type without its parameters."""
    return content_type.decode(errors="replace").partition(";")[0].strip().lower()
