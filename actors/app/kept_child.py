"""Child process that is restarted with backoff when it ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.runtime.process.children import ChildProcess
from kcm.runtime.process.termination import ended_by
from kcm.runtime.scheduling.backoff import Backoff

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BACKOFF = Backoff(first=1.0, most=30.0)
SETTLED = 60.0  # uptime in seconds that resets the backoff


class KeptChild:
    """Child process with restarts. It has no thread: its owner calls `look` a few times a second."""

    def __init__(self, start: Callable[[], ChildProcess], *, what: str) -> None:
        """Start the first child. Raises OSError, as `start` does.

        what: name in the log and in `trouble`.
        """
        self._start, self._what = start, what
        self._child: ChildProcess | None = start()
        self._began: float | None = None
        self._failures = 0
        self._again = 0.0
        self._why = ""

    @property
    def pid(self) -> int | None:
        """Return the process id, or None while the child is down."""
        return None if self._child is None else self._child.pid

    @property
    def trouble(self) -> str | None:
        """Return why the child is down, or None while it runs; updated by `look`."""
        return self._why if self._child is None else None

    def request(self, body: bytes, within: float) -> bytes | None:
        """Return the response of the child, see ChildProcess.request; None while it is down."""
        child = self._child
        return None if child is None else child.request(body, within)

    def look(self, *, now: float, log: FilteringBoundLogger) -> None:
        """Restart the child if it has ended and its delay is over. now: monotonic time."""
        if self._child is None:
            if now >= self._again:
                self._restart(now, log)
            return
        if self._began is None:
            self._began = now
        code = self._child.exit_code
        if code is not None:
            self._child.stop(0.0)
            self._child = None
            self._failures = 0 if now - self._began >= SETTLED else self._failures
            self._fail(ended_by(code), now, log)

    def stop(self, within: float) -> None:
        """Terminate the child, and kill it if it does not end within this number of seconds."""
        if self._child is not None:
            self._child.stop(within)

    def _restart(self, now: float, log: FilteringBoundLogger) -> None:
        try:
            self._child = self._start()
        except OSError as err:
            self._fail(f"cannot be started: {err.strerror or err}", now, log)
            return
        self._began = now
        log.info("process was started again", process=self._what, pid=self._child.pid)

    def _fail(self, why: str, now: float, log: FilteringBoundLogger) -> None:
        wait = BACKOFF.delay(self._failures)
        self._failures += 1
        self._again = now + wait
        self._why = f"{self._what} {why}, to be started again"
        log.error("process is down, to be started again", process=self._what, reason=why, seconds=wait)
