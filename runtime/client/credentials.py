"""Credentials of requests: fixed, from files, and cached until they expire or are rejected."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.client.config import ConfigError, Credential, CredentialSource
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# Seconds, as client-go's cachingTokenSource. A token that is rejected before is read again at once.
TOKEN_FILE_PERIOD = 60.0


class FixedCredential:
    """A credential that does not change."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def load(self) -> Credential:
        return self._credential


class TokenFile:
    """Bearer token in a file, which is read again once a minute."""

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
    """Return the Authorization header's value. Raises ConfigError for a token with spaces or control characters."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{origin}: not a bearer token: it contains spaces or unprintable characters")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """Return the Authorization header's value, by RFC 7617 with UTF-8."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


# Minimum seconds between two loads of a source: a plugin that fails, or whose tokens the server rejects, must not
# be run for every request.
HOLD_OFF = 5.0


class CredentialCache:
    """Cache of one source's credential.

    Used on the loop's thread; the source is loaded on another, because it may block.

    If the source fails, the error is logged and the previous credential stays in use: it may still be accepted.
    """

    def __init__(self, source: CredentialSource, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._source, self._clock, self._log = source, clock, log
        self._current: Credential | None = None
        self._error = ""
        self._loaded_at = self._load_at = -HOLD_OFF
        self._loading: asyncio.Task[None] | None = None

    def held(self) -> Credential | None:
        """Return the credential to use now, or None if renewed() must be awaited. Raises ConfigError like renewed()."""
        if self._load_at <= self._clock.monotonic():
            return None
        return self._known()

    async def renewed(self) -> Credential:
        """Load the source and return its credential, or the previous one. Raises ConfigError if there never was one."""
        await self._renew()
        return self._known()

    async def refused(self, credential: Credential) -> bool:
        """Record that the server returned 401 for a credential. Return whether there is another credential to try."""
        if self._current is credential and self._clock.monotonic() >= self._loaded_at + HOLD_OFF:
            await self._renew()
        return self._current is not credential

    def _known(self) -> Credential:
        if self._current is None:
            raise ConfigError(self._error)
        return self._current

    async def _renew(self) -> None:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        await asyncio.shield(self._loading)  # the timeout of one caller must not cancel it for the others

    async def _load(self) -> None:
        try:
            credential = await asyncio.get_running_loop().run_in_executor(None, self._source.load)
        except ConfigError as err:
            self._error = str(err)
            self._load_at = self._clock.monotonic() + HOLD_OFF
            self._log.warning("no new credentials", error=self._error)
        else:
            self._load_at = self._clock.monotonic() + max(credential.lifetime, HOLD_OFF)
            if self._current is None or not _same(credential, self._current):
                self._current = credential
        finally:
            self._loaded_at = self._clock.monotonic()
            self._loading = None


def _same(new: Credential, old: Credential) -> bool:
    """Report whether two credentials differ in their lifetime at most."""
    return (new.authorization, new.certificate, new.key) == (old.authorization, old.certificate, old.key)
