"""Responses on their way from the thread of HTTP to the callers' threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MOST = 16  # responses that are held
LONGEST = 0.002  # seconds that one is held


class Handover:
    """Hands responses over, several at once where many are expected.

    To wake the caller's thread costs as much as a third of the request itself, and while it reads the response
    ours waits for the interpreter. So what comes within a moment is handed over together. Belongs to the loop's thread.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def add(self, response: Callable[[], None], *, more: bool) -> None:
        """response: hands one over; must not raise. more: others will follow soon, so it may be held a moment."""
        self._held.append(response)
        if not more or len(self._held) >= MOST:
            self.flush()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(LONGEST, self.flush)

    def flush(self) -> None:
        """Hand over all that is held, in the order in which it came."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        held, self._held = self._held, []
        for response in held:
            response()
