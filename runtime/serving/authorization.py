"""Authorization of users for paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kcm.protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageUser:
    """User of a request: name and groups, as in Kubernetes."""

    name: str
    groups: tuple[str, ...] = ()


MASTERS = "system:masters"
ANONYMOUS = PageUser(name="system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAttributes:
    """Attributes of a request for authorization.

    verb: the HTTP method in lower case.
    path: of the URL, unescaped, without the query.
    """

    user: PageUser
    verb: str
    path: str

    @property
    def refusal(self) -> str:
        return f'forbidden: User "{self.user.name}" cannot {self.verb} path "{self.path}"'


class PageAuthorizer(Protocol):
    """Interface for authorizing requests. Asynchronous, because the authorizer may call an API server."""

    async def allows(self, attributes: PageAttributes) -> bool: ...


class EverythingAllowed:
    """Authorizer that allows every request: for plain HTTP, which is open to every client that can connect."""

    async def allows(self, attributes: PageAttributes) -> bool:
        del attributes  # unused
        return True


class PathsAllowed:
    """Authorizer that allows some paths to every user, and everything to system:masters.

    A path that ends in "*" is a prefix.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        absolute = ["/" + path.lstrip("/") for path in paths]
        self._exact = {path for path in absolute if not path.endswith("*")}
        self._beginnings = tuple(path[:-1] for path in absolute if path.endswith("*"))

    async def allows(self, attributes: PageAttributes) -> bool:
        if MASTERS in attributes.user.groups:
            return True
        return attributes.path in self._exact or attributes.path.startswith(self._beginnings)


def forbidden_status(attributes: PageAttributes) -> dict[str, Any]:
    """Return the body of a 403: a metav1.Status."""
    return {**_failure(attributes.refusal, "Forbidden", 403), "details": {}}


def unauthorized_status() -> dict[str, Any]:
    """Return the body of a 401."""
    return _failure("Unauthorized", "Unauthorized", 401)


def _failure(message: str, reason: str, code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
