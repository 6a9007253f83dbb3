"""Credentials that are a header: fixed ones, and a token in a file that another program rotates."""

from __future__ import annotations

import base64
from pathlib import Path

from kcm.runtime.client.config import ConfigError, Credential

# As client-go's cachingTokenSource. A token that is refused before that is read again at once.
TOKEN_FILE_PERIOD = 60.0


class FixedCredential:
    """The same for ever."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def load(self) -> Credential:
        return self._credential


class TokenFile:
    """A bearer token in a file, read again once a minute."""

    def __init__(self, path: str, *, origin: str) -> None:
        self._path, self._origin = path, origin

    def load(self) -> Credential:
        try:
            text = Path(self._path).read_bytes()
        except OSError as err:
            raise ConfigError(f"{self._origin}: cannot read {self._path}: {err.strerror}") from err
        token = text.strip().decode("utf-8", "replace")
        if not token:
            raise ConfigError(f"{self._origin}: {self._path} is empty")
        return Credential(
            authorization=bearer(token, origin=f"{self._origin}: {self._path}"), lifetime=TOKEN_FILE_PERIOD
        )


ANONYMOUS = Credential()


def bearer(token: str, *, origin: str) -> str:
    """The Authorization header's value. Raises ConfigError on what no header can carry (a line break, say)."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin}: not a bearer token: it holds spaces or unprintable characters")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header's value, RFC 7617 with UTF-8."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
