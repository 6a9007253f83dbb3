"""The HTTP side of the embedded API server: one handler between connections and ApiServer.

Kept thin, since every request of a busy cluster passes here: paths are parsed by hand, bodies stay bytes, what a target
or a header says is read once for all requests that have the same, and there is no router, no middleware and no access
log.

Source for what clients see: apiserver pkg/server (handlers, healthz, version) and pkg/endpoints/filters (v1.36).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import orjson

from protocols.messages.commands import PatchType
from runtime.apiserver.core.account_tokens import PREFIX
from runtime.apiserver.core.cluster import Now
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.status_errors import StatusError
from runtime.apiserver.http.authentication import Authenticator
from runtime.apiserver.http.connection import HttpRequest, HttpServer
from runtime.apiserver.http.discovery import aggregated_discovery, discovery
from runtime.apiserver.http.health import Health
from runtime.apiserver.http.negotiation import JSON, OF_DISCOVERY, OF_OBJECTS, Form, negotiate
from runtime.apiserver.http.representations import INCLUDES, Representation
from runtime.apiserver.http.request_bodies import is_yaml, json_body
from runtime.apiserver.http.streams import WatchStream
from runtime.apiserver.http.tables import printer_of
from runtime.apiserver.registry.printers import NAME_AND_CREATION_TIME
from runtime.apiserver.registry.routing import is_watch
from runtime.apiserver.registry.subresources import subresource_of
from runtime.apiserver.registry.users import NOBODY
from runtime.apiserver.schema.api_types import built_in_types
from runtime.apiserver.schema.descriptions import installed_descriptions
from runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator
from runtime.apiserver.schema.openapi import EMPTY_VERSION_2, VERSION_2_ASKED, VERSION_2_TYPE, OpenApi
from runtime.apiserver.schema.protobuf import ProtobufDecoder
from runtime.apiserver.server import ApiServer
from runtime.apiserver.storage.watches import Watch
from runtime.client.api import Request, Response
from runtime.process.bounded_connections import BoundedConnections
from runtime.process.version import Version

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LARGEST_BODY = 3 * 1024 * 1024  # bytes, as upstream
AT_ONCE = 2048  # bytes of YAML that are read on the event loop; more would hold up everybody else
KEEP_ALIVE = 3630.0  # seconds that an idle connection of a known user stays open
TEXT = "text/plain; charset=utf-8"

STORE_STALLED = 10.0  # seconds after which a write that waits for the disk makes the server unhealthy

_HEALTH = ("/healthz", "/livez", "/readyz")
_WITHOUT_USER = {*_HEALTH, "/version"}
_IMPERSONATE = b"impersonate-"
_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized").response()
_TOO_LARGE = StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}").response()
# Of these patches the body has the fields of the object.
_PATCHES_WITH_FIELDS = {PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY}


class _Target(NamedTuple):
    """What a request is for. path: unescaped. is_resource: it leads below a group's version."""

    path: str
    query: Mapping[str, str]
    is_resource: bool


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
    ) -> None:
        self._api, self._authenticator, self._clock, self._log = api, authenticator, clock, log
        types = built_in_types()
        self._validator, self._protobuf = FieldValidator(types), ProtobufDecoder(types)
        self._openapi, self._version = OpenApi(api.registry, types, installed_descriptions()), version
        self._yaml = ThreadPoolExecutor(max_workers=1, thread_name_prefix="yaml")
        self._streams: set[WatchStream] = set()
        self._waiting: dict[HttpRequest, float] = {}  # for what they did to be durable, since when
        self._health = Health({"ping": lambda: "", "store": self._store_check})
        self._readiness = Health(
            {"ping": lambda: "", "store": self._store_check, "shutdown": lambda: "it ends" if self._ending else ""}
        )
        self._ending = False
        self._failure: StatusError | None = None
        self._connections: BoundedConnections | None = None

    def server(self, connections: BoundedConnections | None = None) -> HttpServer:
        """Makes the protocols of connections. connections: those that it will have, if they are bounded."""
        self._connections = connections
        return HttpServer(self, largest_body=LARGEST_BODY, now=self._clock.now, connections=connections)

    def end_watches(self) -> None:
        """End all watches gracefully, before the server stops."""
        self._ending = True
        for stream in self._streams:
            stream.end()

    def fail(self, failure: StatusError) -> None:
        """Writes can no longer be made durable: fail all requests that wait for it and all later ones, end watches."""
        self._failure = failure
        for stream in self._streams:
            stream.end()
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.respond(failure.response())

    # --- what a connection calls

    def admit(self, request: HttpRequest) -> Response | None:
        connection, authorization = request.connection, request.headers.get(b"authorization")
        if not authorization:
            user = self._authenticator.user("", connection.peer_certificate)
        elif authorization == connection.authorization:
            user = connection.known_as
        else:
            user = self._authenticator.user(authorization.decode(errors="replace"), None)
            if user is None or not user.name.startswith(PREFIX):  # the token of an account is not good for ever
                connection.authorization, connection.known_as = authorization, user
        if user is None:
            path = _target(request.target).path.rstrip("/")
            if authorization or path not in _WITHOUT_USER:
                return _UNAUTHORIZED
        else:
            request.user = user
            if self._connections is not None:
                self._connections.mark_known(connection)
        for name in request.headers:
            if name.startswith(_IMPERSONATE):
                return status_errors.no_impersonation(user.name if user is not None else "system:anonymous").response()
        return None

    def too_large(self) -> Response:
        return _TOO_LARGE

    def handle(self, request: HttpRequest) -> None:
        target = _target(request.target)
        try:
            if target.is_resource:
                self._resource(request, target)
            elif request.method != "GET":
                raise status_errors.method_not_allowed()
            else:
                request.respond(self._about_the_server(request, target.path.rstrip("/"), target.query))
        except Exception as error:
            self._refuse(request, error)

    def _refuse(self, request: HttpRequest, error: Exception) -> None:
        if isinstance(error, StatusError):
            request.respond(error.response())
            return
        path = request.target.decode(errors="replace")
        self._log.error("request failed", method=request.method, path=path, exc_info=error)
        request.respond(status_errors.internal("see the server's log").response())

    # --- resources

    def _resource(self, request: HttpRequest, target: _Target) -> None:
        if self._failure is not None:
            raise self._failure
        form = _form_of_objects(request.headers.get(b"accept", b""))
        if request.method != "GET":
            self._take_body(request, target)
            return
        asked = Request(method="GET", path=target.path, query=target.query)
        if is_watch(target.query):
            self._watch(request, asked, self._representation(asked, form))
            return
        response = self._api.handle(asked, user=request.user or NOBODY)
        if form.kind:
            representation = self._representation(asked, form)
            if representation is not None and response.status == 200:
                response = replace(response, body=representation.body(response.body))
        self._respond_when_durable(request, response)

    def _take_body(self, request: HttpRequest, target: _Target) -> None:
        method, body = request.method, request.body
        media_type = _media_type(request.headers.get(b"content-type", b""))
        if len(body) > AT_ONCE and is_yaml(method, media_type, body):
            loop = asyncio.get_running_loop()
            read = loop.run_in_executor(self._yaml, json_body, method, media_type, body, self._protobuf)
            read.add_done_callback(partial(self._yaml_read, request, target, media_type))
            return
        try:
            body = json_body(method, media_type, body, self._protobuf)
        except StatusError as error:
            raise self._of_body(target, error) from None
        self._write(request, target, media_type, body)

    def _yaml_read(self, request: HttpRequest, target: _Target, media_type: str, read: asyncio.Future[bytes]) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            self._write(request, target, media_type, read.result())
        except StatusError as error:
            self._refuse(request, self._of_body(target, error))
        except Exception as error:
            self._refuse(request, error)

    def _of_body(self, target: _Target, error: StatusError) -> StatusError:
        """A body matters only where something is served."""
        return status_errors.no_such_path() if self._api.route(target.path) is None else error

    def _write(self, request: HttpRequest, target: _Target, media_type: str, body: bytes) -> None:
        method, query = request.method, target.query
        asked = Request(method=method, path=target.path, query=query, body=body, content_type=media_type or JSON)
        # Upstream's default is to warn of stray fields. It is skipped for creations without ?fieldValidation, whose
        # clients hardly show warnings, to save the time; a patch is small.
        warnings = self._stray_fields(asked) if "fieldValidation" in query or method == "PATCH" else ()
        self._respond_when_durable(request, self._api.handle(asked, user=request.user or NOBODY), warnings)

    def _respond_when_durable(self, request: HttpRequest, response: Response, warnings: Sequence[str] = ()) -> None:
        """After the last request that was handled is durable; with a refusal (5xx) if it never will be."""
        if self._failure is not None:
            raise self._failure
        self._waiting[request] = self._clock.now()
        self._api.when_durable(partial(self._respond, request, response, warnings))

    def _respond(self, request: HttpRequest, response: Response, warnings: Sequence[str]) -> None:
        if self._waiting.pop(request, None) is not None:  # else it was told that the store has failed
            request.respond(response, warnings=warnings)

    def _stray_fields(self, asked: Request) -> list[str]:
        """Returns warnings. Raises StatusError where stray fields are an error."""
        directive = asked.query.get("fieldValidation", WARN)
        route = self._api.route(asked.path)
        has_fields = asked.method in ("POST", "PUT") or asked.content_type in _PATCHES_WITH_FIELDS
        if directive not in (STRICT, WARN) or route is None or not has_fields:
            return []
        definition = route.definition
        other = subresource_of(route.subresource).kind if route.subresource else None
        group, version, kind = other or (definition.group, definition.version, definition.kind)
        return self._validator.check(
            asked.body,
            group=group,
            version=version,
            kind=kind,
            directive=directive,
            patch=asked.method == "PATCH" and asked.content_type != PatchType.APPLY,
        )

    def _representation(self, asked: Request, form: Form) -> Representation | None:
        """Returns None for the object as it is. Raises StatusError (400)."""
        if not form.kind:
            return None
        include = asked.query.get("includeObject") or "Metadata"
        if include not in INCLUDES:
            raise status_errors.bad_request(f'unrecognized includeObject value: "{include}"')
        route = self._api.route(asked.path)
        printer = NAME_AND_CREATION_TIME if route is None else printer_of(route.definition, route.subresource)
        return Representation(form, include=include, now=self._clock.now, printer=printer)

    def _watch(self, request: HttpRequest, asked: Request, representation: Representation | None) -> None:
        watch: Watch | Response | None = None

        def over() -> None:
            self._streams.discard(stream)
            if isinstance(watch, Watch):
                watch.cancel()

        shown = None if representation is None else representation.lines
        stream = WatchStream(request, too_slow=partial(self._cut_off, request), over=over, shown=shown)
        watch = self._api.watch(asked, deliver=stream.deliver, end=stream.end, deliver_first=stream.begin)
        if isinstance(watch, Response):
            request.respond(watch)
            return
        self._streams.add(stream)
        request.stream(JSON, stream)

    def _cut_off(self, request: HttpRequest) -> None:
        path = request.target.decode(errors="replace")
        self._log.warning("watch cut off, its client is too slow", path=path, peer=request.connection.peer)
        request.abort()

    # --- everything else

    def _about_the_server(self, request: HttpRequest, path: str, query: Mapping[str, str]) -> Response:
        kind, _, only = path[1:].partition("/")
        if f"/{kind}" in _HEALTH:
            health = self._readiness if kind == "readyz" else self._health
            status, text = health.report(kind, only=only, verbose="verbose" in query)
            return Response(status=status, body=text.encode(), content_type=TEXT)
        if path == "/version":
            return _json(self._version_info())
        if path == "/openapi/v2" and VERSION_2_ASKED in _accepted(request):
            return Response(status=200, body=EMPTY_VERSION_2, content_type=VERSION_2_TYPE)
        if path == "/openapi/v3":
            return _json(self._openapi.index())
        if path.startswith("/openapi/v3/"):
            document = self._openapi.document(path.removeprefix("/openapi/v3/"))
            if document is not None:
                return Response(status=200, body=document, content_type=JSON)
        elif path in ("/api", "/apis") or path.startswith(("/api/", "/apis/")):
            return self._discovery(request, path)
        raise status_errors.no_such_path()

    def _discovery(self, request: HttpRequest, path: str) -> Response:
        form = negotiate(_accepted(request), OF_DISCOVERY)
        if form.kind == "APIGroupDiscoveryList":
            document = aggregated_discovery(self._api.registry, path)
            if document is not None:
                type_ = f"{JSON};g=apidiscovery.k8s.io;v={form.version};as=APIGroupDiscoveryList"
                return Response(status=200, body=orjson.dumps(document), content_type=type_)
        address = request.headers.get(b"host", b"").decode(errors="replace")
        plain = discovery(self._api.registry, path, address=address)
        if plain is None:
            raise status_errors.no_such_path()
        return _json(plain)

    def _store_check(self) -> str:
        if self._failure is not None:
            return self._failure.message
        waited = self._clock.now() - next(iter(self._waiting.values()), math.inf)
        return f"a write has not been durable for {waited:.0f} s" if waited > STORE_STALLED else ""

    def _version_info(self) -> dict[str, str]:
        """All fields that clients require; those of a Go build are as in one that was given no facts."""
        version = self._version
        return {
            "major": version.major,
            "minor": version.minor,
            "gitVersion": version.git_version,
            "gitCommit": "unknown",
            "gitTreeState": "archive",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "cpython",
            "platform": version.platform,
        }


def _is_resource(path: str) -> bool:
    """Whether a path leads below a group's version: /api/v1/pods, /apis/apps/v1/deployments…"""
    if path.startswith("/apis/"):
        return path.count("/", 0, -1) >= 4
    return path.startswith("/api/") and path.count("/", 0, -1) >= 3


@lru_cache(maxsize=1024)
def _target(raw: bytes) -> _Target:
    """raw: as it stands in the request."""
    path, _, query = raw.decode(errors="surrogateescape").partition("?")
    if "%" in path:
        path = unquote(path)
    parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
    return _Target(path, MappingProxyType(parameters), _is_resource(path))


@lru_cache(maxsize=256)
def _form_of_objects(accept: bytes) -> Form:
    """Raises StatusError (406)."""
    return negotiate(accept.decode(errors="replace"), OF_OBJECTS)


@lru_cache(maxsize=256)
def _media_type(content_type: bytes) -> str:
    """Without its parameters."""
    return content_type.decode(errors="replace").partition(";")[0].strip().lower()


def _accepted(request: HttpRequest) -> str:
    return request.headers.get(b"accept", b"").decode(errors="replace")


def _json(document: Mapping[str, Any]) -> Response:
    return Response(status=200, body=orjson.dumps(document), content_type=JSON)
