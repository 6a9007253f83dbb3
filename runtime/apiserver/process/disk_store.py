"""Opening of the store on disk, handling of its write errors, and snapshots."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.http.handler import ApiHttp
from kcm.runtime.apiserver.process.failures import StoreFailedError
from kcm.runtime.apiserver.process.launch import STORE
from kcm.runtime.apiserver.process.settings import FULL, ServerSettings
from kcm.runtime.apiserver.storage.sizes import TooLargeError
from kcm.runtime.apiserver.storage.sqlite_store import SqliteStore, is_too_large
from kcm.runtime.apiserver.storage.store import StoreLostError
from kcm.runtime.scheduling.clock import SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOG_INTERVAL = 60.0  # minimum seconds between two log lines about a full disk


class FullDiskHandler:
    """Handler of commits that fail because the disk is full or an object is too large.

    Before the server serves, such a failure ends the process.
    """

    def __init__(self, ending: asyncio.Future[None], *, clock: SystemClock, log: FilteringBoundLogger) -> None:
        self._ending, self._clock, self._log = ending, clock, log
        self._logged_at = -math.inf
        self.http: ApiHttp | None = None

    def commit_refused(self, error: Exception) -> None:
        """Undo the changes that could not be committed, and fail the requests that wait for them.

        error: why the commit failed
        """
        if self.http is not None and is_too_large(error):
            self._log.error("object is too large for the store, rejecting the write", error=str(error))
            self.http.discard_pending(TooLargeError())
            return
        if self.http is None:
            end(self._ending, StoreFailedError(str(error)))
            return
        if self._clock.monotonic() >= self._logged_at + LOG_INTERVAL:
            self._logged_at = self._clock.monotonic()
            self._log.error("disk of the store is full, rejecting writes", error=str(error))
        self.http.discard_pending(status_errors.store_full())


def open_store(
    settings: ServerSettings,
    full_disk: FullDiskHandler,
    ending: asyncio.Future[None],
    lost: asyncio.Future[StoreLostError],
) -> SqliteStore:
    """Open the database of the directory. Raises StoreUnusableError.

    full_disk: handles commits that are refused because the disk is full or an object is too large
    ending: set to an exception if a commit fails for another reason. The process then ends, because later commits would
      not be durable either.
    lost: set to the error if the database file was deleted or replaced
    """
    loop, path = asyncio.get_running_loop(), settings.directory / STORE

    def post(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    def soon(callback: Callable[[], None]) -> None:
        loop.call_soon(callback)

    def failed(err: Exception) -> None:
        if isinstance(err, StoreLostError):
            loop.call_soon_threadsafe(set_lost, lost, err)
        else:
            loop.call_soon_threadsafe(end, ending, StoreFailedError(f"{path}: {err}"))

    return SqliteStore(
        path,
        post=post,
        soon=soon,
        refused=full_disk.commit_refused,
        failed=failed,
        synced=settings.durability == FULL,
    )


def snapshot(store: SqliteStore, directory: Path, done: Callable[[str | Exception], None]) -> None:
    """Write a snapshot of the store into a directory; see handler.TakeSnapshot.

    The client moves the file to its destination. A file that is not moved is deleted when the server starts again.

    done: called with the file name, or with the error
    """
    name = f"snapshot-{secrets.token_hex(8)}"
    store.copy(directory / name, lambda err: done(name if err is None else err))


def end(ending: asyncio.Future[None], error: Exception | None) -> None:
    if ending.done():
        return
    if error is None:
        ending.set_result(None)
    else:
        ending.set_exception(error)


def set_lost(lost: asyncio.Future[StoreLostError], error: StoreLostError) -> None:
    if not lost.done():
        lost.set_result(error)
