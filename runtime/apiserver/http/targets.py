"""What a request is for, as its target says: read once for all requests that have the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from runtime.apiserver.http.turns import is_heartbeat
from runtime.apiserver.registry.attributes import Attributes, attributes_of

_CORE_RESOURCE = re.compile("/api/v1/(?:namespaces/[^/]+/)?(?P<resource>[^/]+)")
# What upstream has an APILifecycle for, of all that it serves by default.
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


class Target(NamedTuple):
    """path: unescaped. is_resource: it leads below a group's version. is_heartbeat: to a lease, or the status of a
    node. deprecation: what its clients are warned of.
    """

    path: str
    query: Mapping[str, str]
    is_resource: bool
    is_heartbeat: bool
    deprecation: str


@lru_cache(maxsize=1024)
def target_of(raw: bytes) -> Target:
    """raw: as it stands in the request."""
    path, _, query = raw.decode(errors="surrogateescape").partition("?")
    if "%" in path:
        path = unquote(path)
    return Target(path, _parameters(query), _is_resource(path), is_heartbeat(path), _deprecation_of(path))


@lru_cache(maxsize=256)
def _parameters(query: str) -> Mapping[str, str]:
    """Many targets have the same."""
    return MappingProxyType(dict(parse_qsl(query, keep_blank_values=True)) if query else {})


@lru_cache(maxsize=1024)
def asked_for(method: str, raw: bytes) -> Attributes:
    """What a request with this target asks to do; who authorizes, notes and counts requests all want to know."""
    target = target_of(raw)
    return attributes_of(method, target.path, target.query)


def _is_resource(path: str) -> bool:
    """Whether a path leads below a group's version: /api/v1/pods, /apis/apps/v1/deployments…"""
    if path.startswith("/apis/"):
        return path.count("/", 0, -1) >= 4
    return path.startswith("/api/") and path.count("/", 0, -1) >= 3


def _deprecation_of(path: str) -> str:
    place = _CORE_RESOURCE.match(path)
    return "" if place is None else _DEPRECATED.get(place["resource"], "")
