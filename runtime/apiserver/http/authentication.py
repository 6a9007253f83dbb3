"""The user behind a request: by bearer token, or by a client certificate that our authority signed."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runtime.apiserver.registry.users import AUTHENTICATED, User


def _nobody(_token: str) -> User | None:
    return None


class Authenticator:
    def __init__(self, tokens: Mapping[str, User], *, account_of: Callable[[str], User | None] = _nobody) -> None:
        """tokens: token → user. Everyone who is known is in the group of those who are, too. account_of: who any other
        token is of, now.
        """
        self._account_of = account_of
        self._tokens = [(token.encode(), _known(user)) for token, user in tokens.items()]

    def user(self, authorization: str, peer_certificate: Mapping[str, Any] | None) -> User | None:
        """authorization: the request's header, "" without one. peer_certificate: as ssl's getpeercert gives it, of a
        connection that verified it.

        Returns None for an unknown user. With a token, valid or not, the certificate is ignored.
        """
        if authorization:
            scheme, _, token = authorization.partition(" ")
            given = token.strip().encode(errors="replace") if scheme.lower() == "bearer" else b""
            known = next((user for known, user in self._tokens if hmac.compare_digest(given, known)), None)
            return known if known is not None else self._account_of(given.decode(errors="replace"))
        return _subject((peer_certificate or {}).get("subject", ()))


def _subject(subject: Iterable[Iterable[tuple[str, str]]]) -> User | None:
    """Its common name is the user, its organizations are their groups. None without a common name.

    Source: apiserver pkg/authentication/request/x509/x509.go, CommonNameUserConversion (v1.36).
    """
    parts = [part for several in subject for part in several]
    names = [value for name, value in parts if name == "commonName"]
    groups = tuple(value for name, value in parts if name == "organizationName")
    return _known(User(names[-1], groups=groups)) if names else None


def _known(user: User) -> User:
    return user if AUTHENTICATED in user.groups else user._replace(groups=(*user.groups, AUTHENTICATED))
