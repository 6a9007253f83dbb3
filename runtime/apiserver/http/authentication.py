"""The user behind a request: by bearer token, or by a client certificate that our authority signed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runtime.apiserver.registry.users import User, known


class Authenticator:
    def __init__(self, user_of: Callable[[str], User | None]) -> None:
        """user_of: whom a token is of, now."""
        self._user_of = user_of

    def user(self, authorization: str, peer_certificate: Mapping[str, Any] | None) -> User | None:
        """authorization: the request's header, "" without one. peer_certificate: as ssl's getpeercert gives it, of a
        connection that verified it.

        Returns None for an unknown user. With a token, valid or not, the certificate is ignored.
        """
        if authorization:
            scheme, _, token = authorization.partition(" ")
            return self._user_of(token.strip()) if scheme.lower() == "bearer" else None
        return _subject((peer_certificate or {}).get("subject", ()))


def _subject(subject: Iterable[Iterable[tuple[str, str]]]) -> User | None:
    """Its common name is the user, its organizations are their groups. None without a common name.

    Source: apiserver pkg/authentication/request/x509/x509.go, CommonNameUserConversion (v1.36).
    """
    parts = [part for several in subject for part in several]
    names = [value for name, value in parts if name == "commonName"]
    groups = tuple(value for name, value in parts if name == "organizationName")
    return known(User(names[-1], groups=groups)) if names else None
