"""Authorization of users for paths.

Source: kubernetes v1.36 apiserver/pkg/endpoints/filters/authorization.go, apiserver/pkg/authorization/union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec


class AuthorizationError(Exception):
    """There is no decision. The text contains the reason."""


class PageUser(msgspec.Struct, frozen=True, kw_only=True):
    """User of a request, as in Kubernetes. extra: further attributes, with their values."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = {}


MASTERS = "system:masters"
ANONYMOUS = PageUser(name="system:anonymous", groups=("system:unauthenticated",))
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  # in the texts of refusals, as upstream


class PageAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes of a request for authorization.

    verb: the HTTP method in lower case.
    path: of the URL, unescaped, without the query.
    """

    user: PageUser
    verb: str
    path: str


class PageDecision(msgspec.Struct, frozen=True, kw_only=True):
    """PageDecision of an authorizer. reason: for the client; "" if the authorizer has none."""

    is_allowed: bool
    reason: str = ""


ALLOWED, NO_OPINION = PageDecision(is_allowed=True), PageDecision(is_allowed=False)


class PageAuthorizer(Protocol):
    """Interface for authorizing requests. Asynchronous, because the authorizer may call an API server."""

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        """Return the decision. Raises AuthorizationError."""


class EverythingAllowed:
    """Authorizer that allows every request: for plain HTTP, which is open to every client that can connect."""

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        del attributes  # unused
        return ALLOWED


class PathsAllowed:
    """Authorizer that allows some paths to every user, and everything to system:masters.

    A path that ends in "*" is a prefix.

    otherwise: decides on the other requests; None to refuse them.
    """

    def __init__(self, paths: Iterable[str], *, otherwise: PageAuthorizer | None = None) -> None:
        absolute = ["/" + path.lstrip("/") for path in paths]
        self._exact = {path for path in absolute if not path.endswith("*")}
        self._beginnings = tuple(path[:-1] for path in absolute if path.endswith("*"))
        self._otherwise = otherwise

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        if MASTERS in attributes.user.groups:
            return ALLOWED
        if attributes.path in self._exact or attributes.path.startswith(self._beginnings):
            return ALLOWED
        return NO_OPINION if self._otherwise is None else await self._otherwise.decide(attributes)


def forbidden_status(attributes: PageAttributes, reason: str = "") -> dict[str, Any]:
    """Return the body of a 403: a metav1.Status."""
    refusal = f'User "{attributes.user.name}" cannot {attributes.verb} path "{attributes.path}"'.translate(_ESCAPED)
    message = f"forbidden: {refusal}: {reason}" if reason else f"forbidden: {refusal}"
    return {**failure_status(message, "Forbidden", 403), "details": {}}


def internal_error(target: str, error: AuthorizationError) -> str:
    """Return the text of a 500, after an authorizer has raised an error."""
    return f'Internal Server Error: "{target}": {error}\n'.translate(_ESCAPED)


def unauthorized_status() -> dict[str, Any]:
    """Return the body of a 401: a metav1.Status."""
    return failure_status("Unauthorized", "Unauthorized", 401)


def failure_status(message: str, reason: str, code: int) -> dict[str, Any]:
    """Return the body of a refusal: a metav1.Status. reason: as in Kubernetes."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
