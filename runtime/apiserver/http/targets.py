"""Parse request targets, once for all requests that have the same one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError, bad_request
from kcm.runtime.apiserver.http.priority import is_heartbeat
from kcm.runtime.apiserver.registry.attributes import Attributes, attributes_of

LONGEST_TARGET = 128 * 1024  # bytes; label selectors with thousands of values are some ten thousand
MOST_PARAMETERS = 1000  # of a query

_ABSOLUTE = re.compile("https?://[^/?]*", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_CORE_RESOURCE = re.compile("/api/v1/(?:namespaces/[^/]+/)?(?P<resource>[^/]+)")
# What upstream has an APILifecycle for, of all that it serves by default.
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


class Target(NamedTuple):
    """The target of a request, read.

    path: unescaped.
    query: the first value of each parameter, as upstream reads them.
    asked: what requests with it ask for, by their method: see asked_for.
    is_resource: the path leads below a group's version.
    is_watch: a GET of it is authorized and served as a watch.
    is_heartbeat: the path leads to a lease, or to the status of a node.
    deprecation: a warning for its clients.
    """

    path: str
    query: Mapping[str, str]
    asked: dict[str, Attributes]
    is_resource: bool
    is_watch: bool
    is_heartbeat: bool
    deprecation: str


@bounded_cache(1024)
def target_of(raw: bytes) -> Target:
    """Read a target as it was sent; in absolute form its scheme and host are ignored (RFC 9112, 3.2.2).

    Raises StatusError: 414 on too long a target, 400 on too many parameters or an invalid escape in the path.
    """
    if len(raw) > LONGEST_TARGET:
        text = f"the request's target has {len(raw)} bytes, at most {LONGEST_TARGET} are allowed"
        raise StatusError(414, "", text)
    text = raw.decode(errors="surrogateescape")
    if not text.startswith("/") and (absolute := _ABSOLUTE.match(text)):
        text = text[absolute.end() :]
    path, _, query = text.partition("?")
    if "%" in path:
        if broken := _BROKEN_ESCAPE.search(path):
            escape = path[broken.start() : broken.start() + 3]
            raise bad_request(f"the request's path has an invalid escape: {quoted(escape)}")
        path = unquote(path)
    parameters = _parameters(query)
    is_watch = attributes_of("GET", path, parameters).verb == "watch"
    return Target(
        path,
        parameters,
        {},
        _is_resource(path),
        is_watch,
        is_heartbeat(path),
        _deprecation_of(path),
    )


@bounded_cache(256)
def _parameters(query: str) -> Mapping[str, str]:
    """Parse a query as Go's net/url does: what is malformed, or has a semicolon, is left out."""
    count = query.count("&") + 1
    if count > MOST_PARAMETERS:
        raise bad_request(f"the request's query has {count} parameters, at most {MOST_PARAMETERS} are allowed")
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        if part and ";" not in part and not _BROKEN_ESCAPE.search(part):
            name, _, value = part.partition("=")
            found.setdefault(unquote_plus(name), unquote_plus(value))
    return MappingProxyType(found)


def asked_for(method: str, target: Target) -> Attributes:
    """What such a request asks to do; who authorizes, notes and counts requests all need to know."""
    found = target.asked.get(method)
    if found is None:
        found = target.asked[method] = attributes_of(method, target.path, target.query)
    return found


def _is_resource(path: str) -> bool:
    """Whether a path leads below a group's version: /api/v1/pods, /apis/apps/v1/deployments…"""
    if path.startswith("/apis/"):
        return path.count("/", 0, -1) >= 4
    return path.startswith("/api/") and path.count("/", 0, -1) >= 3


def _deprecation_of(path: str) -> str:
    place = _CORE_RESOURCE.match(path)
    return "" if place is None else _DEPRECATED.get(place["resource"], "")
