"""A child process that is started again when it ends by itself, after a longer wait each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.runtime.process.children import Child
from kcm.runtime.process.termination import ended_by
from kcm.runtime.scheduling.backoff import Backoff

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BACKOFF = Backoff(first=1.0, most=30.0)
SETTLED = 60.0  # seconds after which a child that ends counts as one that has worked


class KeptChild:
    """what: its name in the log and in `trouble`. The first child runs already.

    It has no thread: whoever owns it calls `look` a few times a second.
    """

    def __init__(self, start: Callable[[], Child], *, what: str) -> None:
        """Raises what `start` raises, which is OSError."""
        self._start, self._what = start, what
        self._child: Child | None = start()
        self._began: float | None = None
        self._failures = 0
        self._again = 0.0
        self._why = ""

    @property
    def pid(self) -> int | None:
        """None while it is down."""
        return None if self._child is None else self._child.pid

    @property
    def trouble(self) -> str | None:
        """Why it is down, since the last look; None while it runs."""
        return self._why if self._child is None else None

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
        """It is killed if it takes longer than so many seconds to end."""
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
