"""What becomes of a key or a pass that failed: when it is tried again, and what is logged."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from kcm.actors.engine.controller.readiness import StaleTableError
from kcm.actors.reconciliation.failures import Retry, RetryQuietly, TerminalError
from kcm.protocols.messages.commands import Delete, Patch, Update
from kcm.protocols.messages.outcomes import CommandError, Conflict, Forbidden, NotFound, Outcome, Refused, Unknown
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import TableMissingError
from kcm.runtime.tables.typed import ModelError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

STALE_RETRY = 10.0  # seconds until a deletion that a stale table held back is looked at again
AWAY = (Refused, Unknown)  # they say nothing about the object: a key is not given up for them, nor waits for minutes
ON_AN_OBJECT = (Update, Patch, Delete)  # that was there by its table: a 404 says that somebody deleted it meanwhile
SAID = (Retry, RetryQuietly, TerminalError)  # the reconciler's own word, and no bug
MOST_TRACES = 100  # errors that are remembered
PER_PASS = Backoff(first=10.0, factor=2.0, most=3600.0)
SOONEST = 0.001  # seconds until a key is looked at again: `due - now` may fall a float's rounding short of due
AWAY_RETRY = 30.0  # seconds at most between two tries while the server does not answer


class Traces:
    """Which errors were logged with their traceback: once is enough while a key is retried."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def first_of(self, err: Exception) -> Exception | None:
        """The error if its traceback is to be shown, else None."""
        line = one_line(err)
        if line in self._shown:
            return None
        if len(self._shown) >= MOST_TRACES:
            self._shown.clear()
        self._shown.add(line)
        return err


def retry(
    queue: WorkQueue[Any],
    key: Hashable,
    err: Exception,
    *,
    now: float,
    max_retries: int | None,
    terminal: tuple[type[Outcome], ...],
    traces: Traces,
    log: FilteringBoundLogger,
) -> None:
    """Enqueue the key, which is not in work any more, for its next try, if it has one.

    max_retries, terminal: see QueueSettings. now: monotonic seconds. log: bound to controller and queue.
    """
    attempt = queue.failures(key) + 1
    log = log.bind(key=str(key), attempt=attempt, error=one_line(err))
    if isinstance(err, CommandError) and isinstance(err.failure, AWAY):
        delay = min(queue.add_rate_limited(key, now), AWAY_RETRY)
        queue.add_after(key, AWAY_RETRY, now)  # the earlier of the two counts
        log.warning("the server did not answer, trying again", seconds=round(delay, 3))
        return
    if isinstance(err, Retry):
        queue.add_after(key, max(err.after, SOONEST), now)
        log.info("reconcile asked to be tried again", v=2, seconds=round(err.after, 3))
        return
    if isinstance(err, TerminalError) or (isinstance(err, CommandError) and isinstance(err.failure, terminal)):
        queue.give_up(key)
        log.error("reconcile failed for good, dropped until the next event")
        return
    if max_retries is not None and attempt > max_retries:
        queue.give_up(key)
        log.error("reconcile failed too often, dropped until the next event")
        return
    if isinstance(err, StaleTableError):  # no fault of the key's: it is to go on soon after the table does
        queue.add_after(key, STALE_RETRY, now)
        log.warning("deletion postponed: informer cache is stale", seconds=STALE_RETRY)
        return
    if isinstance(err, UnreadableError):
        queue.add_after(key, STALE_RETRY, now)
        first = isinstance(err, ModelError) and traces.first_of(err)  # of others the informer has said it once, aloud
        if first:
            log.warning("reconcile held back", seconds=STALE_RETRY)
        else:
            log.info("reconcile held back", v=2, seconds=STALE_RETRY)
        return
    if isinstance(err, TableMissingError):
        queue.add_after(key, STALE_RETRY, now)
        log.warning("reconcile postponed: a table is missing", seconds=STALE_RETRY)
        return
    delay = queue.add_rate_limited(key, now)
    if isinstance(err, RetryQuietly):
        log.debug("reconcile waits for others, trying again", seconds=round(delay, 3))
    elif isinstance(err, CommandError) and isinstance(err.failure, Conflict):
        log.info("reconcile met a newer object, trying again", v=2, seconds=round(delay, 3))
    elif isinstance(err, CommandError) and isinstance(err.failure, NotFound) and isinstance(err.command, ON_AN_OBJECT):
        log.info("reconcile met an object that is gone, trying again", v=2, seconds=round(delay, 3))
    elif isinstance(err, CommandError) and _in_an_ending_namespace(err.failure):
        log.info("reconcile met a namespace that is being deleted, trying again", v=2, seconds=round(delay, 3))
    elif isinstance(err, (CommandError, ValueError)):
        log.warning("reconcile failed, trying again", seconds=round(delay, 3))
    else:
        log.warning("reconcile failed, trying again", seconds=round(delay, 3), exc_info=traces.first_of(err))


def _in_an_ending_namespace(failure: Outcome) -> bool:
    """The server creates nothing there any more; what is there goes, and its keys with it."""
    return isinstance(failure, Forbidden) and b"NamespaceTerminating" in failure.status


def pass_delay(err: Exception, failures: int, *, every: float) -> float:
    """Seconds until a failed pass begins again. failures: those in a row before this one. every: its period."""
    if isinstance(err, Retry):
        return err.after
    if isinstance(err, TerminalError):
        return every
    return min(PER_PASS.delay(failures), every)


def report_pass(err: Exception, *, delay: float, attempt: int, traces: Traces, log: FilteringBoundLogger) -> None:
    """log: bound to controller and pass."""
    expected = isinstance(err, (*SAID, CommandError, StaleTableError, TableMissingError, UnreadableError, ValueError))
    log.warning(
        "pass failed, trying again",
        attempt=attempt,
        error=one_line(err),
        seconds=round(delay, 3),
        exc_info=None if expected else traces.first_of(err),
    )


def one_line(err: Exception) -> str:
    """With its notes, which tell authors what to do."""
    notes = "".join(f"; {note}" for note in getattr(err, "__notes__", ()))
    return f"{type(err).__name__}: {err}{notes}".replace("\n", " ")
