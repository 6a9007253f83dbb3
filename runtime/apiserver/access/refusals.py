"""Errors for requests that the user is not authorized to make.

Source: apiserver pkg/endpoints/filters/authorization.go, pkg/endpoints/handlers/responsewriters/errors.go (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.request_info import RequestInfo

_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class NotAuthorizedError(StatusError):
    """The authorizer refused the request. Refusals by admission are plain StatusErrors."""


def not_authorized(user: str, info: RequestInfo, reason: str = "") -> StatusError:
    """Return the error (403) for a request that the user is not authorized to make.

    reason: the authorizer's reason, which is appended to the text
    """
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not info.is_resource_request:
        message = f"User {quoted(user)} cannot {info.verb} path {quoted(info.path)}"
    else:
        where = f"in the namespace {quoted(info.namespace)}" if info.namespace else "at the cluster scope"
        message = (
            f"User {quoted(user)} cannot {info.verb} resource {quoted(resource)} in API group {quoted(info.group)} "
            f"{where}"
        )
    message = message.translate(_SANITIZED)
    because = f"{message}: {reason}" if reason else message
    if info.is_resource_request and not info.resource:  # "/api/v1//x"
        return StatusError(403, "Forbidden", f"forbidden: {because}", {"name": info.name} if info.name else {})
    if not info.is_resource_request:
        return NotAuthorizedError(403, "Forbidden", f"forbidden: {because}", {})
    error = status_errors.forbidden(info.group, info.resource, info.name, because)
    return NotAuthorizedError(error.code, error.reason, error.message, error.details)
