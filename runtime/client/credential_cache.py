"""The credential in use: loaded again once it expires or the server rejects it, once for all waiting requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kcm.runtime.client.config import ConfigError, Credential, CredentialSource
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

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
