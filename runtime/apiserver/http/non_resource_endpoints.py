"""Endpoints other than resources: discovery, versions, health, OpenAPI v3, OpenID keys, metrics.

Source: apiserver pkg/server/routes, pkg/server/handler.go, pkg/endpoints/discovery/aggregated/etag.go;
pkg/routes/openidmetadata.go (v1.36).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.health import Health
from kcm.runtime.apiserver.http.metrics import CONTENT_TYPE as METRICS_TYPE
from kcm.runtime.apiserver.http.metrics import RequestMetrics
from kcm.runtime.apiserver.presentation.presentation import Presentation
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import JSON, Response
from kcm.runtime.http.server.request import TEXT
from kcm.runtime.process.version import Version

FOR_AN_HOUR, FOR_EVER = b"public, max-age=3600", b"public, immutable"
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
NOT_FOUND = Response(status=404, body=b"404 page not found\n", content_type=TEXT)

_HEALTH = ("healthz", "livez", "readyz")


class EndpointResponse(NamedTuple):
    """Response of a non-resource endpoint: status and body, header lines, and how to encode the body."""

    response: Response
    lines: bytes = b""  # additional header lines
    cache: bytes = b""  # value of Cache-Control; b"" for the default
    is_object: bool = False  # whether the body is an API object, to be formatted as by upstream's serializer


class NonResourceEndpoints:
    def __init__(
        self,
        api: ApiServer,
        *,
        version: Version,
        presentation: Presentation,
        metrics: RequestMetrics,
        checks: Mapping[str, Callable[[], str]],
        checks_of_readiness: Mapping[str, Callable[[], str]],
    ) -> None:
        """Create the endpoints.

        checks: health checks of all health endpoints, see Health
        checks_of_readiness: additional health checks of /readyz
        """
        self._api, self._version = api, version
        self._presentation, self._metrics = presentation, metrics
        self._health = Health(checks)
        self._readiness = Health({**checks, **checks_of_readiness})

    def page(self, request: ApiRequest, path: str) -> EndpointResponse:
        """Return the response to a GET request. Raises StatusError.

        path: unescaped path, without the trailing slashes that upstream ignores
        """
        name, slash, rest = path[1:].partition("/")
        if name in _HEALTH and (rest or not slash):
            return EndpointResponse(self._health_page(request, name, rest))
        match path:
            case "/" | "/index.html":
                return EndpointResponse(indented_response({"paths": sorted({*self._paths()})}))
            case "/version":
                return EndpointResponse(indented_response(self._version_info()))
            case "/metrics":
                return EndpointResponse(Response(status=200, body=self._metrics.text(), content_type=METRICS_TYPE))
            case "/openapi/v3":
                return EndpointResponse(json_response(self._presentation.openapi.index()))
            case "/api" | "/apis":
                return self._discovery(request, path)
        if path.startswith("/openapi/v3/"):
            return self._openapi_v3(request, path.removeprefix("/openapi/v3/"))
        if path.startswith(("/api/", "/apis/")):
            return self._discovery(request, path)
        if path in (CONFIGURATION, KEYS):
            return self._about_tokens(request, path)
        return EndpointResponse(NOT_FOUND)

    def _health_page(self, request: ApiRequest, name: str, check: str) -> Response:
        query = _query(request)
        exclude = [value for key, value in query if key == "exclude"]
        verbose = any(key == "verbose" for key, _ in query)
        health = self._readiness if name == "readyz" else self._health
        status, text = health.report(name, only=check, verbose=verbose, exclude=exclude)
        return Response(status=status, body=text.encode(), content_type=TEXT)

    def _paths(self) -> Iterator[str]:
        yield from ("/api", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")
        yield from self._presentation.discovery.paths()
        for name in _HEALTH:
            checks = self._readiness if name == "readyz" else self._health
            yield from (f"/{name}", *(f"/{name}/{check}" for check in checks.names))
        if self._api.public_keys():
            yield from (CONFIGURATION, KEYS)

    def _openapi_v3(self, request: ApiRequest, place: str) -> EndpointResponse:
        """Return the OpenAPI v3 document of a group and version.

        If the URL contains the current hash of the document, the response may be cached without limit; if it contains
        an older hash, the client is redirected to the current URL.

        place: the path below /openapi/v3/, such as "apis/apps/v1"

        Source: kube-openapi pkg/handler3/handler.go (v1.36).
        """
        found = self._presentation.openapi.document(place)
        if found is None:
            return EndpointResponse(NOT_FOUND)
        version, document = found
        asked = dict(_query(request)).get("hash", "")
        if asked and asked != version:
            location = b"Location: /openapi/v3/%b?hash=%b\r\n" % (place.encode(), version.encode())
            return EndpointResponse(Response(status=301, content_type=TEXT), location)
        lines = b'Etag: "%b"\r\nVary: Accept\r\n' % version.encode()
        cache = FOR_EVER if asked else b""
        if _header(request, b"if-none-match").strip('"') == version:
            return EndpointResponse(Response(status=304, content_type=JSON), lines, cache)
        return EndpointResponse(Response(status=200, body=document, content_type=JSON), lines, cache)

    def _discovery(self, request: ApiRequest, path: str) -> EndpointResponse:
        accept, address = _header(request, b"accept"), _header(request, b"host")
        found = self._presentation.discovery.respond(path, accept=accept, address=address)
        if found is None:
            return EndpointResponse(NOT_FOUND)
        if not found.etag:
            return EndpointResponse(found.response, is_object=found.response.content_type == JSON)
        etag = f'"{found.etag}"'
        lines, cache = b"Etag: %b\r\nVary: Accept\r\n" % etag.encode(), b"public"
        if _header(request, b"if-none-match") == etag:
            return EndpointResponse(Response(status=304, content_type=found.response.content_type), lines, cache)
        return EndpointResponse(found.response, lines, cache, is_object=True)

    # --- tokens of service accounts

    def _about_tokens(self, request: ApiRequest, path: str) -> EndpointResponse:
        keys = self._api.public_keys()
        if not keys:
            return EndpointResponse(NOT_FOUND)
        if path == KEYS:
            response = Response(status=200, body=orjson.dumps({"keys": keys}), content_type="application/jwk-set+json")
        else:
            response = json_response(_configuration(self._api.issuer, _header(request, b"host"), keys))
        return EndpointResponse(response, cache=FOR_AN_HOUR)

    def _version_info(self) -> dict[str, str]:
        """Return the body of /version. Fields about a Go build have the values of a build without -ldflags."""
        version = self._version
        return {
            "major": version.major,
            "minor": version.minor,
            "emulationMajor": version.major,
            "emulationMinor": version.emulated_minor,
            "minCompatibilityMajor": version.major,
            "minCompatibilityMinor": str(int(version.emulated_minor) - 1),
            "gitVersion": version.git_version,
            "gitCommit": "unknown",
            "gitTreeState": "archive",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": platform.python_implementation().lower(),
            "platform": version.platform,
        }


def _configuration(issuer: str, address: str, keys: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the OpenID Connect discovery document, with the fields needed to verify service account tokens.

    issuer: issuer of the tokens
    address: host and port of the server, from the request's Host header
    keys: public keys as JSON Web Keys
    """
    return {
        "issuer": issuer,
        "jwks_uri": f"https://{address}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key["alg"] for key in keys}),
    }


def _query(request: ApiRequest) -> list[tuple[str, str]]:
    """Return all query parameters as (name, value), including repeated ones."""
    return parse_qsl(request.target.partition(b"?")[2].decode(errors="replace"), keep_blank_values=True)


def _header(request: ApiRequest, name: bytes) -> str:
    return request.headers.get(name, b"").decode(errors="replace")


def json_response(document: Mapping[str, Any]) -> Response:
    return Response(status=200, body=orjson.dumps(document), content_type=JSON)


def indented_response(document: Mapping[str, Any]) -> Response:
    return Response(status=200, body=orjson.dumps(document, option=orjson.OPT_INDENT_2), content_type=JSON)
