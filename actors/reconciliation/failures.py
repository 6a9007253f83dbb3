"""What a reconciliation raises to say what is to become of its key. All else is tried again with backoff."""

from __future__ import annotations

from kcm.actors.reconciliation.reconciler import check_seconds


class TerminalError(Exception):
    """Do not retry the key: it waits for its next event, Enqueue or resync, as trying again would change nothing.

    Whatever the key waits for has to enqueue it, by a watch. A name that is taken by a dependent of a predecessor (an
    owner of the same name, with another uid) becomes free without an event for the owner itself: watch the dependents
    by `its_controller(OWNERS, or_successor=True)`.
    """


class Retry(Exception):
    """Not yet: try the key again after so many seconds (an earlier event looks earlier).

    It is no failure: neither the backoff nor max_retries count it.
    """

    def __init__(self, why: str = "", *, after: float) -> None:
        """why: for the log. Raises TypeError or ValueError on what is no number of seconds, 0 or more."""
        check_seconds("Retry: after", after)
        super().__init__(why or f"again in {after:g} s")
        self.after = after


class RetryQuietly(Exception):
    """What the key needs is for others to do, and may come without an event: try it again with the queue's backoff.

    The log has it at debug level only, so that what users leave undone for days fills no log.
    """
