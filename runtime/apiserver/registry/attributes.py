"""What a request does, as authorizers are asked: verb, resource, namespace and name, or verb and path.

Source: apiserver pkg/endpoints/request/requestinfo.go, pkg/endpoints/filters/authorization.go,
pkg/endpoints/handlers/responsewriters/errors.go (v1.36). Paths that begin with a verb (/api/v1/watch/…) are not served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.selectors import parse_field_selector
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_WITH_SELECTORS = ("list", "watch", "deletecollection")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class NotAuthorizedError(StatusError):
    """The refusal of a request that its user may not make, unlike one that admission refuses."""


class Attributes(NamedTuple):
    """is_resource: else it is a path, and only verb and path say something. field_selector: as the request has it."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    is_resource: bool = True


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """path: unescaped."""
    parts = path.strip("/").split("/")
    root = parts[0]
    if root == "api" and len(parts) > 2:
        group, version, parts = "", parts[1], parts[2:]
    elif root == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return Attributes(method.lower(), path=path, is_resource=False)
    verb, namespace = _VERBS.get(method, ""), ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    selector = ""
    if not name:
        if verb == "get":
            verb = "watch" if is_set(query, "watch") else "list"
            name = _selected_name(query.get("fieldSelector", ""))
        elif verb == "delete":
            verb = "deletecollection"
    if verb in _WITH_SELECTORS:
        selector = query.get("fieldSelector", "")
    return Attributes(verb, group, version, parts[0], subresource, namespace, name, path, selector)


def attributes_in(said: Mapping[str, Any]) -> Attributes:
    """Of a review: its ResourceAttributes, or its NonResourceAttributes, which have a path."""
    if "path" in said:
        return Attributes(said.get("verb") or "", path=said["path"] or "", is_resource=False)
    return Attributes(
        said.get("verb") or "",
        said.get("group") or "",
        said.get("version") or "*",
        said.get("resource") or "",
        said.get("subresource") or "",
        said.get("namespace") or "",
        said.get("name") or "",
        "",
        _field_selector(said.get("fieldSelector") or {}),
    )


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Report whether a boolean parameter is true: every value but "0" and "false" is, as upstream."""
    return name in query and query[name].lower() not in ("0", "false")


def required_value(selector: str, field: str) -> str:
    r"""Return the value that a field selector requires of a field; "" without one, or if the selector is invalid.

    Parsed as the selection itself is: in "a!=b\,metadata.name=x" the comma is part of a value.
    """
    try:
        requirements = parse_field_selector(selector).requirements
    except ValueError:
        return ""
    return next((one.value for one in requirements if one.field == field and not one.negated), "")


def _selected_name(selector: str) -> str:
    name = required_value(selector, "metadata.name") if selector else ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _field_selector(said: Mapping[str, Any]) -> str:
    terms = [
        f"{one.get('key', '')}={_escaped(one['values'][0])}"
        for one in said.get("requirements") or ()
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1
    ]
    return ",".join(terms) or said.get("rawSelector") or ""


def _escaped(value: str) -> str:
    """As a value of a field selector."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def forbidden(user: str, asked: Attributes, reason: str = "") -> StatusError:
    """The refusal of a request."""
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if not asked.is_resource:
        message = f"User {quoted(user)} cannot {asked.verb} path {quoted(asked.path)}"
    else:
        where = f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
        message = (
            f"User {quoted(user)} cannot {asked.verb} resource {quoted(resource)} in API group {quoted(asked.group)} "
            f"{where}"
        )
    message = message.translate(_SANITIZED)
    because = f"{message}: {reason}" if reason else message
    if asked.is_resource and not asked.resource:  # "/api/v1//x"
        return StatusError(403, "Forbidden", f"forbidden: {because}", {"name": asked.name} if asked.name else {})
    if not asked.is_resource:
        return NotAuthorizedError(403, "Forbidden", f"forbidden: {because}", {})
    error = status_errors.forbidden(asked.group, asked.resource, asked.name, because)
    return NotAuthorizedError(error.code, error.reason, error.message, error.details)
