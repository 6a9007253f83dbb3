"""The HTTP side of the embedded API server: one aiohttp handler between connections and ApiServer.

Kept thin, since every request of a busy cluster passes here: paths are parsed by hand, bodies stay bytes, and there is
no router, no middleware and no access log.

Source for what clients see: apiserver pkg/server (handlers, healthz, version) and pkg/endpoints/filters (v1.36).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web, web_response
from multidict import CIMultiDict

from protocols.messages.commands import PatchType
from runtime.apiserver.core.cluster import Now
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import quoted
from runtime.apiserver.errors.status_errors import StatusError
from runtime.apiserver.http.authentication import Authenticator
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
from runtime.apiserver.schema.api_types import built_in_types
from runtime.apiserver.schema.descriptions import installed_descriptions
from runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator
from runtime.apiserver.schema.openapi import EMPTY_VERSION_2, VERSION_2_ASKED, VERSION_2_TYPE, OpenApi
from runtime.apiserver.schema.protobuf import ProtobufDecoder
from runtime.apiserver.server import ApiServer
from runtime.client.api import Request, Response
from runtime.process.bounded_connections import BoundedConnections
from runtime.process.version import Version

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SERVER = "kcm"  # in the Server header
LARGEST_BODY = 3 * 1024 * 1024  # bytes, as upstream
AT_ONCE = 2048  # bytes of YAML that are read on the event loop; more would hold up everybody else
KEEP_ALIVE = 3630.0  # seconds that an idle connection stays open

STORE_STALLED = 10.0  # seconds after which a write that waits for the disk makes the server unhealthy

_HEALTH = ("/healthz", "/livez", "/readyz")
_WITHOUT_USER = {*_HEALTH, "/version"}
_IMPERSONATE = b"impersonate-"
_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized")
# Of these patches the body has the fields of the object.
_PATCHES_WITH_FIELDS = {PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY}


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
        self._waiting: dict[asyncio.Future[None], float] = {}  # for what they did to be durable, since when
        self._health = Health({"ping": lambda: "", "store": self._store_check})
        self._readiness = Health(
            {"ping": lambda: "", "store": self._store_check, "shutdown": lambda: "it ends" if self._ending else ""}
        )
        self._ending = False
        self._failure: StatusError | None = None
        self._connections: BoundedConnections | None = None

    def server(self, connections: BoundedConnections | None = None) -> web.Server:
        """For a web.ServerRunner; to be called on the event loop. connections: those that it will have, if bounded."""
        self._connections = connections
        loop = asyncio.get_running_loop()
        web_response.SERVER_SOFTWARE = SERVER  # type: ignore[attr-defined]  # else it names the versions of both

        def request_factory(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LARGEST_BODY)

        return web.Server(
            self.handle if connections is None else connections.counting(self.handle),
            request_factory=request_factory,
            handler_cancellation=True,  # else a watch without events would outlive its client
            access_log=None,
            keepalive_timeout=KEEP_ALIVE,
        )

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
        for future in self._waiting:
            if not future.done():
                future.set_exception(failure)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except StatusError as err:
            return _http_response(err.response())
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {LARGEST_BODY}"
            return _http_response(StatusError(413, "RequestEntityTooLarge", message).response())
        except ConnectionError:
            raise
        except Exception:
            self._log.exception("request failed", method=request.method, path=request.raw_path)
            return _http_response(status_errors.internal("see the server's log").response())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        if "%" in path:
            path = unquote(path)
        authorization = request.headers.get("Authorization", "")
        certificate = None if authorization else request.get_extra_info("peercert")
        user = self._authenticator.user(authorization, certificate)
        if user is None and (authorization or path.rstrip("/") not in _WITHOUT_USER):
            raise _UNAUTHORIZED
        if user is not None and self._connections is not None:
            self._connections.mark_known(request.protocol)
        if any(name[: len(_IMPERSONATE)].lower() == _IMPERSONATE for name, _ in request.raw_headers):
            raise status_errors.no_impersonation(user or "system:anonymous")
        parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        if _is_resource(path):
            return await self._resource(request, path, parameters, user or "")
        if request.method != "GET":
            raise status_errors.method_not_allowed()
        return self._about_the_server(request, path.rstrip("/"), parameters)

    # --- resources

    async def _resource(
        self, request: web.BaseRequest, path: str, query: Mapping[str, str], user: str
    ) -> web.StreamResponse:
        if self._failure is not None:
            raise self._failure
        headers, method = request.headers, request.method
        form = negotiate(headers.get("Accept", ""), OF_OBJECTS)
        if method == "GET":
            asked = Request(method=method, path=path, query=query)
            if is_watch(query):
                return await self._watch(request, asked, self._representation(asked, form))
            response = self._api.handle(asked, user=user)
            await self._durable()
            representation = self._representation(asked, form)
            if representation is None or response.status != 200:
                return _http_response(response)
            return _http_response(response, body=representation.body(response.body))
        content_type = headers.get("Content-Type", "")
        media_type = content_type.partition(";")[0].strip().lower()
        try:
            body = await request.read()
            if len(body) > AT_ONCE and is_yaml(method, media_type, body):
                loop = asyncio.get_running_loop()
                body = await loop.run_in_executor(self._yaml, json_body, method, media_type, body, self._protobuf)
            else:
                body = json_body(method, media_type, body, self._protobuf)
        except StatusError:
            if self._api.route(path) is None:
                raise status_errors.no_such_path() from None
            raise
        asked = Request(method=method, path=path, query=query, body=body, content_type=media_type or JSON)
        # Upstream's default is to warn of stray fields. It is skipped for creations without ?fieldValidation, whose
        # clients hardly show warnings, to save the time; a patch is small.
        warnings = self._stray_fields(asked) if "fieldValidation" in query or method == "PATCH" else []
        response = self._api.handle(asked, user=user)
        await self._durable()
        return _http_response(response, warnings=warnings)

    async def _durable(self) -> None:
        """Wait until the last request that was handled is durable. Raises StatusError (5xx) if it never will be."""
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle() -> None:
            if not future.done():  # done: the client is gone, and the handler cancelled
                future.set_result(None)

        self._api.when_durable(settle)
        self._waiting[future] = self._clock.now()
        try:
            await future
        finally:
            del self._waiting[future]

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

    async def _watch(
        self, request: web.BaseRequest, asked: Request, representation: Representation | None
    ) -> web.StreamResponse:
        stream = WatchStream(too_slow=lambda: self._cut_off(request))
        watch = self._api.watch(asked, deliver=stream.deliver, end=stream.end, deliver_first=stream.begin)
        if isinstance(watch, Response):
            return _http_response(watch)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        self._streams.add(stream)
        try:
            await response.prepare(request)
            await stream.pump(response.write, representation.lines if representation else _unchanged)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client is gone, perhaps in the middle of a line
        finally:
            self._streams.discard(stream)
            watch.cancel()
        return response

    def _cut_off(self, request: web.BaseRequest) -> None:
        self._log.warning("watch cut off, its client is too slow", path=request.raw_path, peer=request.remote)
        if request.transport is not None:
            request.transport.abort()

    # --- everything else

    def _about_the_server(self, request: web.BaseRequest, path: str, query: Mapping[str, str]) -> web.StreamResponse:
        kind, _, only = path[1:].partition("/")
        if f"/{kind}" in _HEALTH:
            health = self._readiness if kind == "readyz" else self._health
            status, text = health.report(kind, only=only, verbose="verbose" in query)
            return web.Response(status=status, text=text)
        if path == "/version":
            return _json(self._version_info())
        if path == "/openapi/v2" and VERSION_2_ASKED in request.headers.get("Accept", ""):
            return web.Response(body=EMPTY_VERSION_2, headers={"Content-Type": VERSION_2_TYPE})
        if path == "/openapi/v3":
            return _json(self._openapi.index())
        if path.startswith("/openapi/v3/"):
            document = self._openapi.document(path.removeprefix("/openapi/v3/"))
            if document is not None:
                return web.Response(body=document, content_type=JSON)
        elif path in ("/api", "/apis") or path.startswith(("/api/", "/apis/")):
            return self._discovery(request, path)
        raise status_errors.no_such_path()

    def _discovery(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        form = negotiate(request.headers.get("Accept", ""), OF_DISCOVERY)
        if form.kind == "APIGroupDiscoveryList":
            document = aggregated_discovery(self._api.registry, path)
            if document is not None:
                type_ = f"{JSON};g=apidiscovery.k8s.io;v={form.version};as=APIGroupDiscoveryList"
                return web.Response(body=orjson.dumps(document), headers={"Content-Type": type_})
        plain = discovery(self._api.registry, path, address=request.host)
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


def _unchanged(lines: bytes) -> bytes:
    return lines


def _json(document: Mapping[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(document), headers={"Content-Type": JSON})


def _http_response(response: Response, *, body: bytes | None = None, warnings: Sequence[str] = ()) -> web.Response:
    """body: instead of the response's own. warnings: kubectl prints them."""
    headers = CIMultiDict({"Content-Type": response.content_type})
    if response.retry_after:
        headers["Retry-After"] = str(math.ceil(response.retry_after))
    for warning in warnings:
        headers.add("Warning", f"299 - {quoted(warning)}")
    return web.Response(status=response.status, body=response.body if body is None else body, headers=headers)
