"""HTTP handler of the embedded API server: authentication, impersonation, authorization and dispatch.

All requests pass this code, so it is kept small: paths are parsed by hand, bodies are not decoded, parsed targets and
headers are cached, and there is no router, no middleware and no access log.

Source: apiserver pkg/server (handlers, healthz, version) and pkg/endpoints/filters (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kcm.runtime.apiserver.access.authentication import NO_CERTIFICATE, Authenticator, ClientIdentity, by_certificate
from kcm.runtime.apiserver.access.impersonation import PREFIX as IMPERSONATE
from kcm.runtime.apiserver.access.impersonation import Impersonation, wanted_user
from kcm.runtime.apiserver.access.refusals import not_authorized
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.http.metrics import RequestMetrics
from kcm.runtime.apiserver.http.non_resource_endpoints import NonResourceEndpoints, json_response
from kcm.runtime.apiserver.http.openapi_v2 import OPENAPI_V2, OpenApiV2
from kcm.runtime.apiserver.http.paths import HEALTH, SNAPSHOT, normalized
from kcm.runtime.apiserver.http.priority import PriorityQueues, level_of
from kcm.runtime.apiserver.http.resources import ResourceRequests
from kcm.runtime.apiserver.http.responder import Responder, accept_of, refusal_lines
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ACCOUNTS, ALLOWED, ANONYMOUS, MASTERS, User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Response
from kcm.runtime.http.server.bounded_connections import BoundedConnections
from kcm.runtime.http.server.buffered_bytes import BufferedBytes
from kcm.runtime.http.server.request import Connection
from kcm.runtime.http.server.server import HttpServer
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import WallClock
from kcm.runtime.scheduling.go_durations import duration_problem

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGEST_BODY = 3 * 1024 * 1024  # bytes, as upstream
KEEP_ALIVE = 3630.0  # seconds that an idle connection of a known user stays open

_WITHOUT_USER = {*HEALTH, "/version"}
_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized").response()
_TOO_LATE = StatusError(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}).response()
_TOO_LARGE = StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}").response()
# Writes a snapshot into the server's directory, and calls the callback with its file name, or with the error.
TakeSnapshot = Callable[[Callable[[str | Exception], None]], None]


class ApiHttp:
    """Handler that serves an ApiServer over HTTP. All methods run on the event loop's thread."""

    def __init__(
        self,
        api: ApiServer,
        *,
        authenticator: Authenticator,
        version: Version,
        clock: WallClock,
        log: FilteringBoundLogger,
        snapshot: TakeSnapshot | None = None,
        audit: AuditLog | None = None,
        anonymous: bool = False,
    ) -> None:
        """Create a handler.

        snapshot: writes a snapshot of the store; None if objects are not stored on disk
        audit: the audit log; None disables it
        anonymous: whether requests without credentials are authorized as system:anonymous; otherwise they can only read
          the health endpoints and /version
        """
        self._anonymous = anonymous
        self._snapshot, self._audit = snapshot, audit
        self._api, self._authenticator, self._clock, self._log = api, authenticator, clock, log
        self._presentation = api.presentation(build=version.git_version)
        self._responses = self._presentation.responses
        self._impersonation = Impersonation(api.decide)
        self._metrics = RequestMetrics()
        self._metrics.count_objects(api.object_counts)
        self._responder = Responder(api, self._responses, self._metrics, clock=clock, log=log)
        self._resources = ResourceRequests(
            api, self._presentation, self._responder, self._metrics, clock=clock, log=log
        )
        release = f"{version.major}.{version.minor}"
        self._openapi_v2 = OpenApiV2(self._presentation.openapi, release, failed=self._responder.refuse)
        self._pages = NonResourceEndpoints(
            api,
            version=version,
            presentation=self._presentation,
            metrics=self._metrics,
            checks={"ping": lambda: "", "store": self._resources.store_problem},
            checks_of_readiness={"shutdown": lambda: "process is shutting down" if self._ending else ""},
        )
        self._queues: PriorityQueues[ApiRequest] | None = None  # created by the first request, on the event loop
        self._ending = False
        self._connections: BoundedConnections | None = None

    def server(self, connections: BoundedConnections | None = None) -> HttpServer:
        """Return a new HTTP server that passes its requests to this handler.

        connections: limits the number of open connections; None for no limit
        """
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
        """End all watches gracefully, and report the server as not ready. Called before the server stops."""
        self._ending = True
        self._resources.end_watches()

    async def close(self) -> None:
        """Cancel suspended requests, which wait for webhooks, timers or long computations.

        Call after the server has stopped.
        """
        await self._resources.close()

    def fail(self, failure: StatusError) -> None:
        """Respond to all pending and later requests with an error, and end all watches.

        Called when the store has failed, so that changes can no longer be made durable.
        """
        self._resources.fail(failure)

    def discard_pending(self, because: StatusError) -> None:
        """Undo all changes that are not durable yet, because the store is full.

        Pending writes fail with the error. Pending reads are executed again, because they may have read these changes.
        """
        self._resources.discard_pending(because, handle_again=self._handle)

    # --- methods that HttpServer calls for each connection and request

    def admit(self, request: ApiRequest) -> Response | None:
        try:
            request.info = RequestInfo.parse(request.method, request.target)
        except StatusError as error:
            return error.response()
        user = self._user_of(request)
        if user is None or (user is ANONYMOUS and not self._is_open_to_anonymous(request)):
            if self._audit is not None:
                self._audit.refuse_unauthenticated(request, request.info)
            return self._responses.error(accept_of(request), _UNAUTHORIZED)
        if user is ANONYMOUS:
            return self._refusal_of_anonymous(request)
        request.user = user
        if self._connections is not None:
            self._connections.mark_known(request.connection)
        return None

    def _user_of(self, request: ApiRequest) -> User | None:
        """Return the user of a request: ANONYMOUS if it has no credentials, None if all of its credentials are invalid.

        The client certificate is checked first, as upstream; if it is invalid or missing, the bearer token is checked.
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
        if user is None:  # not cached, because the token may become valid
            return None
        if user is ANONYMOUS:
            return certified
        if not user.name.startswith(ACCOUNTS):  # tokens of service accounts are not cached, because they may expire
            identity.authorization, identity.user = authorization, user
        return user

    def _is_open_to_anonymous(self, request: ApiRequest) -> bool:
        return self._anonymous or request.info.path.rstrip("/") in _WITHOUT_USER

    def _refusal_of_anonymous(self, request: ApiRequest) -> Response | None:
        """Authorize an anonymous request before its body is read; return the error response, or None if it is allowed.

        The body of a refused request is therefore never buffered.
        """
        request.began = self._clock.now()
        try:
            self._authorize(request)
        except Exception as error:
            request.refusal_lines = refusal_lines(error)
            return self._responses.error(accept_of(request), self._responder.refusal(request, error))
        return None

    def too_large(self) -> Response:
        return _TOO_LARGE

    def too_late(self) -> Response:
        return _TOO_LATE

    def needs_body(self, request: ApiRequest) -> bool:
        """Report whether the body of a request must be read: only writes of resources have one."""
        return request.method != "GET" and request.info.is_resource_request

    def cut_off(self, connection: Connection, why: str) -> None:
        path = connection.target.decode(errors="replace")
        self._log.warning(f"connection cut off, {why}", path=path, peer=connection.peer)

    def handle(self, request: ApiRequest) -> None:
        if self._queues is None:
            loop = asyncio.get_running_loop()
            self._queues = PriorityQueues(self._handle, now=loop.time, soon=loop.call_soon)
        request.began = self._clock.now()
        info = request.info
        self._queues.take(request, level_of(request.user, info, is_probe=info.path in HEALTH))

    def _handle(self, request: ApiRequest) -> None:
        if not request.is_awaited:
            return
        info = request.info
        try:
            self._authorize(request)
            _check_timeout(info)
            if info.is_resource_request and not info.path.startswith("//"):
                self._resources.handle(request, info)
            elif info.path == SNAPSHOT:
                self._take_snapshot(request)
            elif request.method != "GET":
                raise status_errors.method_not_allowed()
            elif info.path == OPENAPI_V2:
                self._openapi_v2.respond(request)
            else:
                found = self._pages.page(request, normalized(info.path))
                self._responder.count(request, found.response.status)
                request.respond(found.response, lines=found.lines, cache=found.cache, as_it_is=not found.is_object)
        except Exception as error:
            self._responder.refuse(request, error)

    def _authorize(self, request: ApiRequest) -> None:
        """Apply the impersonation headers of a request, and authorize the resulting user. Raises StatusError (403)."""
        info = request.info
        if self._audit is not None and request.observer is None:  # it is set if the request is executed again
            self._audit.begin(request, request.user or ANONYMOUS, info)
        if IMPERSONATE in b"\n".join(request.headers):  # fast check: most requests have no such header
            self._impersonate(request)
        user = request.user or ANONYMOUS
        is_probe = info.verb == "get" and info.path in HEALTH
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
        # Remove the headers, so that a request that is executed again is not impersonated twice.
        request.headers = {name: value for name, value in request.headers.items() if not name.startswith(IMPERSONATE)}
        if request.observer is not None:
            request.observer.impersonated(found.user, found.constraint)

    # --- snapshots

    def _take_snapshot(self, request: ApiRequest) -> None:
        """Write a snapshot of the store. Only members of system:masters may, because it contains all Secrets.

        Raises StatusError.
        """
        user = request.user or ANONYMOUS
        if request.method != "POST":
            raise status_errors.method_not_allowed()
        if MASTERS not in user.groups:
            raise status_errors.forbidden_path(user.name, "post", SNAPSHOT)
        if self._snapshot is None:
            raise status_errors.no_such_path("this server stores objects in memory only")
        self._snapshot(partial(self._respond_with_snapshot, request))

    def _respond_with_snapshot(self, request: ApiRequest, made: str | Exception) -> None:
        if isinstance(made, Exception):
            self._log.error("snapshot failed", error=str(made))
            request.respond(status_errors.internal(str(made)).response())
        else:
            request.respond(json_response({"snapshot": made}))


def _check_timeout(info: RequestInfo) -> None:
    """Validate the query parameter timeout of a request other than a watch. Raises StatusError (400).

    The timeout itself is not applied.
    """
    timeout = info.query.get("timeout")
    if timeout and info.verb != "watch" and (problem := duration_problem(timeout)):
        raise status_errors.bad_request(f"invalid timeout specified in the request URL - {problem}")
