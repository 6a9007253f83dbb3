"""RequestInfo: verb, resource and name of a request, parsed once from the HTTP method and request target.

Source: apiserver pkg/endpoints/request/requestinfo.go, NewRequestInfo (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus

from kcm.protocols.bounded_cache import bounded_cache, first_size
from kcm.protocols.selectors import parse_field_selector
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError, bad_request

LONGEST_TARGET = 128 * 1024  # bytes; a label selector with thousands of values takes tens of thousands
MOST_PARAMETERS = 1000  # maximum number of parameters in a query

_ABSOLUTE = re.compile("https?://[^/?]*", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PREFIX_VERBS = ("proxy", "watch")  # upstream's specialVerbs
_VERBS_WITH_SELECTORS = ("list", "watch", "deletecollection")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_EMPTY: Mapping[str, str] = MappingProxyType({})


class RequestInfo(NamedTuple):
    """Verb, resource and name of a request, as upstream's request.RequestInfo.

    Authorization, audit, metrics, priority and fairness and the handlers of resources all use this value. Access
    reviews
    and impersonation also create it for requests that were not sent, with only the fields that authorizers read.
    """

    verb: str  # verb of the API, such as deletecollection; for non-resource paths, the method in lower case
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""  # the first segment only: "proxy" for …/pods/web/proxy/index.html
    namespace: str = ""  # for a Namespace: its own name
    name: str = ""  # also a name that a list or watch selects by metadata.name
    path: str = ""  # unescaped
    field_selector: str = ""  # unparsed; only for verbs that honor selectors
    is_resource_request: bool = True
    api_prefix: str = ""  # "api" or "apis"
    parts: tuple[str, ...] = ()  # segments of the path, beginning with the resource
    query: Mapping[str, str] = _EMPTY  # the first value of each parameter
    repeated: tuple[tuple[str, str], ...] = ()  # the further values of parameters, such as `command` of pods/exec
    has_verb_prefix: bool = False  # /api/v1/watch/pods: authorized as upstream, but not served here
    in_namespace: bool = False  # the resource follows /namespaces/{namespace}/

    @classmethod
    def parse(cls, method: str, target: bytes) -> RequestInfo:
        """Parse a request target. Scheme and host of an absolute target are ignored (RFC 9112, 3.2.2).

        Raises StatusError: 414 if the target is too long, 400 if it has too many parameters or its path has an invalid
        escape.
        """
        return _parse_target(target, method)

    @classmethod
    def of(cls, method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
        """Return the RequestInfo for an unescaped path and a parsed query, if a request is not received over HTTP."""
        return _parse(path, method, query) if query else _parse_bare(path, method)


@bounded_cache(2048, size=first_size)
def _parse_target(target: bytes, method: str) -> RequestInfo:
    if len(target) > LONGEST_TARGET:
        text = f"the request's target has {len(target)} bytes, at most {LONGEST_TARGET} are allowed"
        raise StatusError(414, "", text)
    text = target.decode(errors="surrogateescape")
    if not text.startswith("/") and (absolute := _ABSOLUTE.match(text)):
        text = text[absolute.end() :]
    path, _, query = text.partition("?")
    if "%" in path:
        if broken := _BROKEN_ESCAPE.search(path):
            escape = path[broken.start() : broken.start() + 3]
            raise bad_request(f"the request's path has an invalid escape: {quoted(escape)}")
        path = unquote(path)
    first, repeated = _parse_query(query)
    info = RequestInfo.of(method, path, first)
    return info._replace(repeated=repeated) if repeated else info


@bounded_cache(256)
def _parse_query(query: str) -> tuple[Mapping[str, str], tuple[tuple[str, str], ...]]:
    """Parse a query as Go's net/url: parameters that are malformed or contain a semicolon are dropped.

    Returns the first value of each parameter, and the further values.
    """
    count = query.count("&") + 1
    if count > MOST_PARAMETERS:
        raise bad_request(f"the request's query has {count} parameters, at most {MOST_PARAMETERS} are allowed")
    found: dict[str, str] = {}
    repeated: list[tuple[str, str]] = []
    for part in query.split("&") if query else ():
        if part and ";" not in part and not _BROKEN_ESCAPE.search(part):
            name, _, value = part.partition("=")
            parameter = unquote_plus(name), unquote_plus(value)
            if parameter[0] in found:
                repeated.append(parameter)
            else:
                found[parameter[0]] = parameter[1]
    return MappingProxyType(found), tuple(repeated)


@bounded_cache(2048, size=first_size)
def _parse_bare(path: str, method: str) -> RequestInfo:
    return _parse(path, method, _EMPTY)


def _parse(path: str, method: str, query: Mapping[str, str]) -> RequestInfo:
    found = _parse_path(path)
    if not found.is_resource_request:
        return found._replace(verb=method.lower(), query=query)
    name, selector = found.name, ""
    verb = found.verb or _VERBS.get(method, "")
    if not name:
        if verb == "get":
            verb = "watch" if is_set(query, "watch") else "list"
            name = _selected_name(query.get("fieldSelector", ""))
        elif verb == "delete":
            verb = "deletecollection"
    if verb in _VERBS_WITH_SELECTORS and not found.has_verb_prefix:
        selector = query.get("fieldSelector", "")
    return found._replace(verb=verb, name=name, field_selector=selector, query=query)


@bounded_cache(4096)
def _parse_path(path: str) -> RequestInfo:
    """Parse a path without the method and the query; `verb` is set only if the path contains it."""
    parts = path.strip("/").split("/")
    prefix = parts[0]
    if prefix == "api" and len(parts) > 2:
        group, version, parts = "", parts[1], parts[2:]
    elif prefix == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo("", path=path, is_resource_request=False)
    verb = ""
    if parts[0] in _PREFIX_VERBS and len(parts) > 1:  # upstream fails (500) without further segments
        verb, parts = parts[0], parts[1:]
    namespace, in_namespace = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            in_namespace, parts = True, parts[2:]
    return RequestInfo(
        verb,
        group,
        version,
        parts[0],
        parts[2] if len(parts) > 2 and verb != "proxy" else "",
        namespace,
        parts[1] if len(parts) > 1 else "",
        path,
        api_prefix=prefix,
        parts=tuple(parts),
        has_verb_prefix=bool(verb),
        in_namespace=in_namespace,
    )


def review_info(attributes: Mapping[str, Any]) -> RequestInfo:
    """Return the RequestInfo for the request that an access review describes.

    attributes: ResourceAttributes or NonResourceAttributes
    """
    if "path" in attributes:
        return RequestInfo(attributes.get("verb") or "", path=attributes["path"] or "", is_resource_request=False)
    return RequestInfo(
        attributes.get("verb") or "",
        attributes.get("group") or "",
        attributes.get("version") or "*",
        attributes.get("resource") or "",
        attributes.get("subresource") or "",
        attributes.get("namespace") or "",
        attributes.get("name") or "",
        "",
        _review_selector(attributes.get("fieldSelector") or {}),
    )


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Report whether a boolean parameter is true. As upstream, every value except "0" and "false" counts as true."""
    return name in query and query[name].lower() not in ("0", "false")


def required_value(selector: str, field: str) -> str:
    r"""Return the value that a field selector requires of a field; "" without one, or if the selector is invalid.

    It is parsed as the selection of the handler is: in "a!=b\,metadata.name=x" the comma is part of a value.
    """
    try:
        requirements = parse_field_selector(selector).requirements
    except ValueError:
        return ""
    found = (requirement for requirement in requirements if requirement.field == field and not requirement.negated)
    return next((requirement.value for requirement in found), "")


def _selected_name(selector: str) -> str:
    name = required_value(selector, "metadata.name") if selector else ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _review_selector(selector: Mapping[str, Any]) -> str:
    terms = [
        f"{requirement.get('key', '')}={_escape_value(requirement['values'][0])}"
        for requirement in selector.get("requirements") or ()
        if requirement.get("operator") == "In" and len(requirement.get("values") or ()) == 1
    ]
    return ",".join(terms) or selector.get("rawSelector") or ""


def _escape_value(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
