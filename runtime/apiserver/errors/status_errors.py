"""Errors that the server returns as metav1.Status, with the reasons and messages of kube-apiserver.

Source: apimachinery pkg/api/errors/errors.go, apiserver pkg/storage/errors.go and pkg/registry/rest (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from kcm.protocols.errors import aggregate
from kcm.runtime.apiserver.errors.field_errors import FieldError, quoted
from kcm.runtime.client.api import Response

MOST_CAUSES = 300  # number of field errors that are reported for one object
LONGEST_CAUSES = 512 * 1024  # total characters of reported field errors; the first error is always reported in full
TEXT = "text/plain; charset=utf-8"
OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """Error that is returned to the client as a metav1.Status.

    code: HTTP status code.
    reason: a metav1.StatusReason, or "".
    details: details of the Status, or None.
    next: continue token with which the client may continue a list, or "".
    """

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None, *, next: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details, self.next = code, reason, message, details, next

    @property
    def status(self) -> dict[str, Any]:
        """The metav1.Status object. An ERROR event of a watch contains it too."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.next} if self.next else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def response(self) -> Response:
        retry_after = (self.details or {}).get("retryAfterSeconds", 0)
        return Response(status=self.code, body=orjson.dumps(self.status), retry_after=float(retry_after))


class PlainError(StatusError):
    """Error that is returned to the client as plain text, as by Go's http.Error."""

    def response(self) -> Response:
        return Response(status=self.code, body=f"{self.message}\n".encode(), content_type=TEXT)


def qualified(plural: str, group: str) -> str:
    """Format a schema.GroupResource: "pods", "replicasets.apps"."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f"{qualified(plural, group)} {quoted(name)} not found"
    return StatusError(404, "NotFound", message, _details(group, plural, name))


def no_such_path(because: str = "") -> StatusError:
    """Return a 404 for a path under which no resource is served.

    because: hint that is appended to the message, such as the missing API group. Upstream gives no hint.
    """
    hint = f" ({because})" if because else ""
    return StatusError(404, "NotFound", f"the server could not find the requested resource{hint}", {})


def served_elsewhere() -> StatusError:
    """Return a 503 for a group version of an aggregated API server, which this server cannot reach."""
    return PlainError(503, "ServiceUnavailable", "service unavailable")


def version_on_create() -> StatusError:
    """Return a 500 for a new object with a resourceVersion. Upstream's error has no status code, which means 500."""
    return StatusError(500, "", "resourceVersion should not be set on objects to be created")


def without_reason(message: str) -> StatusError:
    """Return a 500 without a reason, as upstream does for an error that is not a StatusError."""
    return StatusError(500, "", message)


def store_full() -> StatusError:
    """Return a 500 with etcd's text for a store that is full."""
    return without_reason("etcdserver: mvcc: database space exceeded")


def already_exists(group: str, plural: str, name: str) -> StatusError:
    message = f"{qualified(plural, group)} {quoted(name)} already exists"
    return StatusError(409, "AlreadyExists", message, _details(group, plural, name))


def generated_name_exists(group: str, plural: str, name: str) -> StatusError:
    """Return a 409 for an object with a generateName, for which all attempts generated names of existing objects."""
    message = (
        f"{qualified(plural, group)} {quoted(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return StatusError(409, "AlreadyExists", message, _details(group, plural, name) | {"retryAfterSeconds": 1})


def conflict(group: str, plural: str, name: str, because: str = OBJECT_MODIFIED) -> StatusError:
    message = f"Operation cannot be fulfilled on {qualified(plural, group)} {quoted(name)}: {because}"
    return StatusError(409, "Conflict", message, _details(group, plural, name))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """Return a 422 for one or more field errors.

    Upstream lists all errors; here the first ones are listed, followed by the number of the others.
    """
    causes: list[dict[str, str]] = []
    texts: list[str] = []
    size = 0
    for error in errors:
        body = error.body
        size += len(body) + len(error.field)
        if causes and (len(causes) == MOST_CAUSES or size > LONGEST_CAUSES):
            break
        causes.append({"reason": error.type, "message": body, "field": error.field})
        texts.append(f"{error.field}: {body}")
    if len(causes) < len(errors):
        more = f"and {len(errors) - len(causes)} more"
        causes.append({"message": more})
        texts.append(more)
    message = f"{qualified(kind, group)} {quoted(name)} is invalid: {aggregate(texts)}"
    return StatusError(422, "Invalid", message, _details(group, kind, name) | {"causes": causes})


def forbidden(group: str, plural: str, name: str, because: str) -> StatusError:
    subject = f"{qualified(plural, group)} {quoted(name)}" if name else qualified(plural, group)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {because}", _details(group, plural, name))


def forbidden_path(user: str, verb: str, path: str) -> StatusError:
    """Return a 403 for a path outside the API. verb: HTTP method in lower case."""
    message = f"forbidden: User {quoted(user)} cannot {verb} path {quoted(path)}"
    return StatusError(403, "Forbidden", message, {})


def too_large(because: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {because}")


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str, *, next: str = "") -> StatusError:
    """Return a 410: the requested revision is no longer in the history. next: continue token without a revision."""
    return StatusError(410, "Expired", message, next=next)


def too_large_resource_version(asked: int, current: int) -> StatusError:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def method_not_allowed() -> StatusError:
    """Return a 405 for a verb that the path does not support."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(content_type: str, supported: Sequence[str]) -> StatusError:
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(supported)}"
        if content_type
        else "the body of the request was in an unknown format"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def unsupported_patch_type() -> StatusError:
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def unprocessable(because: str) -> StatusError:
    """Return a 422 for a patch that can be decoded but not applied.

    because: text of the cause, which upstream does not give.
    """
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {"causes": [{"field": "patch", "message": because}]})


def unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})
