"""The user behind a request: by bearer token, or by a client certificate that our authority signed."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from typing import Any


class Authenticator:
    def __init__(self, tokens: Mapping[str, str]) -> None:
        """tokens: token → user."""
        self._tokens = [(token.encode(), user) for token, user in tokens.items()]

    def user(self, authorization: str, peer_certificate: Mapping[str, Any] | None) -> str | None:
        """authorization: the request's header, "" without one. peer_certificate: as ssl's getpeercert gives it, of a
        connection that verified it.

        Returns None for an unknown user. With a token, valid or not, the certificate is ignored.
        """
        if authorization:
            scheme, _, token = authorization.partition(" ")
            given = token.strip().encode(errors="replace") if scheme.lower() == "bearer" else b""
            return next((user for known, user in self._tokens if hmac.compare_digest(given, known)), None)
        return _common_name((peer_certificate or {}).get("subject", ()))


def _common_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str | None:
    return next((value for part in subject for name, value in part if name == "commonName"), None)
