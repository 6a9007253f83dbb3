"""Exceptions with which a reconciliation controls the retry of its key.

After any other the key is retried with backoff.
"""

from __future__ import annotations

from kcm.actors.reconciliation.reconciler import check_seconds


class TerminalError(Exception):
    """A retry would change nothing: the key waits for its next event, Enqueue or resync.

    A watch must enqueue the key for everything that it waits for. A name that a dependent of a predecessor has (an
    owner of the same name with another uid) becomes free without an event for the owner itself: watch the dependents
    with `its_controller(OWNERS, or_successor=True)`.
    """


class Retry(Exception):
    """Request to retry the key after a delay, or earlier at an event.

    It is not a failure: neither the backoff nor max_retries count it.
    """

    def __init__(self, why: str = "", *, after: float) -> None:
        """Set the delay in seconds, a number of 0 or more; else TypeError or ValueError is raised. why: for the log."""
        check_seconds("Retry: after", after)
        super().__init__(why or f"again in {after:g} s")
        self.after = after


class RetryQuietly(Exception):
    """The key waits for something that may change without an event: retry it with the backoff of the queue.

    It is logged at debug level only, because it may last for days.
    """
