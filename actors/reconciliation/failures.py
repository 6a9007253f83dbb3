"""What a reconciliation raises to say what is to become of its key. All else is tried again with backoff."""

from __future__ import annotations

import math


class TerminalError(Exception):
    """Trying again changes nothing until the object changes: the key waits for its next event, Enqueue or resync."""


class Retry(Exception):
    """Not yet: try the key again after so many seconds (an earlier event looks earlier).

    It is no failure: neither the backoff nor max_retries count it.
    """

    def __init__(self, why: str = "", *, after: float) -> None:
        """why: for the log. Raises ValueError on what are no seconds, TypeError on no number."""
        if not (math.isfinite(after) and after >= 0):
            raise ValueError(f"Retry: after is a number of seconds, not {after!r}")
        super().__init__(why or f"again in {after:g} s")
        self.after = after


class RetryQuietly(Exception):
    """What the key needs is for others to do, and may come without an event: try it again with the queue's backoff.

    The log has it at debug level only, so that what users leave undone for days fills no log.
    """
