"""Credentials of requests: fixed, from files, and cached until they expire or are refused."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.client.config import ConfigError, Credential, CredentialSource
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


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


# Seconds between two times that a source is asked, whatever happens: a plugin that fails, or whose tokens the server
# refuses, must not be run for every request.
HOLD_OFF = 5.0


class CredentialCache:
    """Belongs to the loop's thread; the source is asked on another, for it may block.

    A source that fails is logged, and what it gave before stays in use: better a late token than none.
    """

    def __init__(self, source: CredentialSource, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._source, self._clock, self._log = source, clock, log
        self._current: Credential | None = None
        self._error = ""
        self._asked_at = self._ask_at = -HOLD_OFF
        self._asking: asyncio.Task[None] | None = None

    def held(self) -> Credential | None:
        """The credential to use now; None when renewed() is to be awaited. Raises ConfigError as that does."""
        if self._ask_at <= self._clock.monotonic():
            return None
        return self._known()

    async def renewed(self) -> Credential:
        """A credential from the source. Raises ConfigError when there never was one."""
        await self._renew()
        return self._known()

    async def refused(self, credential: Credential) -> bool:
        """The server returned 401 for it. True when there is another one to try."""
        if self._current is credential and self._clock.monotonic() >= self._asked_at + HOLD_OFF:
            await self._renew()
        return self._current is not credential

    def _known(self) -> Credential:
        if self._current is None:
            raise ConfigError(self._error)
        return self._current

    async def _renew(self) -> None:
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        await asyncio.shield(self._asking)  # one caller's time-out must not cancel it for the others

    async def _ask(self) -> None:
        try:
            credential = await asyncio.get_running_loop().run_in_executor(None, self._source.load)
        except ConfigError as err:
            self._error = str(err)
            self._ask_at = self._clock.monotonic() + HOLD_OFF
            self._log.warning("no new credentials", error=self._error)
        else:
            self._ask_at = self._clock.monotonic() + max(credential.lifetime, HOLD_OFF)
            if self._current is None or not _same(credential, self._current):
                self._current = credential
        finally:
            self._asked_at = self._clock.monotonic()
            self._asking = None


def _same(one: Credential, other: Credential) -> bool:
    """Whether they are one credential, be it with another end."""
    return (one.authorization, one.certificate, one.key) == (other.authorization, other.certificate, other.key)
