"""Retries of failed keys and passes: delays and log lines, by error."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.engine.controller.readiness import StaleTableError
from kcm.actors.reconciliation.failures import Retry, RetryQuietly, TerminalError
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Delete, Patch, Update
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Raised,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import TableMissingError
from kcm.runtime.tables.typed import ModelError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

STALE_RETRY = 10.0  # seconds until the retry of a key that waits for a table
AWAY_RETRY = 30.0  # maximum backoff in seconds while the server does not respond
SOONEST = 0.001  # minimum delay in seconds: `due - now` may be less than a requested delay by a rounding error
PER_PASS = Backoff(first=10.0, factor=2.0, most=3600.0)
MOST_TRACES = 100  # errors remembered by Traces
REQUESTED = (Retry, RetryQuietly, TerminalError)  # raised by a reconciler on purpose


class Traces:
    """Errors that were logged with their traceback. While a key is retried, its traceback is logged once."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def first_of(self, err: Exception) -> Exception | None:
        """Return the error if its traceback was not logged yet, else None."""
        line = one_line(err)
        if line in self._shown:
            return None
        if len(self._shown) >= MOST_TRACES:
            self._shown.clear()
        self._shown.add(line)
        return err


class RetryDecision(Struct, frozen=True, kw_only=True):
    """Delay and log line that follow from an error of a reconciliation."""

    text: str
    level: str  # of the log line: a method of the logger
    v: int | None = None  # klog verbosity, for info lines
    delay: float | None = None  # seconds until the retry; None: the backoff of the queue, which counts a failure
    longest: float = math.inf  # maximum of the backoff in seconds
    drops: bool = False  # do not retry before the next event
    is_bug: bool = False  # log the traceback, once


# These errors do not depend on the object: they are not counted towards max_retries.
NO_RESPONSE = RetryDecision(text="API server did not respond, retrying", level="warning", longest=AWAY_RETRY)
RETRY = RetryDecision(text="reconcile requested a retry", level="info", v=2)
PERMANENT = RetryDecision(text="reconcile failed permanently, waiting for the next event", level="error", drops=True)
TOO_OFTEN = RetryDecision(text="reconcile failed too often, waiting for the next event", level="error", drops=True)
# The key waits for a table. No backoff, so that it is reconciled soon after the table is available.
STALE = RetryDecision(text="deletion postponed: informer cache is stale", level="warning", delay=STALE_RETRY)
UNREADABLE = RetryDecision(text="reconcile held back", level="info", v=2, delay=STALE_RETRY)
UNREADABLE_BY_MODEL = replace(UNREADABLE, level="warning", v=None)
NO_TABLE = RetryDecision(text="reconcile postponed: a table is missing", level="warning", delay=STALE_RETRY)
# Expected in normal operation: the next event or the backoff resolves them.
QUIET = RetryDecision(text="reconcile waits for another write, retrying", level="debug")
CONFLICT = RetryDecision(text="reconcile met a newer object, retrying", level="info", v=2)
DELETED = RetryDecision(text="reconcile met a deleted object, retrying", level="info", v=2)
TERMINATING = RetryDecision(text="reconcile met a namespace that is being deleted, retrying", level="info", v=2)

FAILED = RetryDecision(text="reconcile failed, retrying", level="warning")
BUG = replace(FAILED, is_bug=True)


class KeyRetries:
    """Retries of the keys of one work queue."""

    def __init__(
        self,
        queue: WorkQueue[Any],
        *,
        max_retries: int | None,
        terminal: tuple[type[Outcome], ...],
        traces: Traces,
        log: FilteringBoundLogger,
    ) -> None:
        """Set the policy of the queue.

        max_retries, terminal: see QueueSettings.
        traces: shared by all queues of the controller.
        log: bound to controller and queue.
        """
        self._queue, self._max_retries, self._terminal = queue, max_retries, terminal
        self._traces, self._log = traces, log

    def failed(self, key: Hashable, err: Exception, now: float) -> float | None:
        """Enqueue the key, whose reconciliation has failed, for its retry, or drop it. now: monotonic seconds.

        Returns the seconds until the retry, or None.
        """
        queue = self._queue
        attempt = queue.failures(key) + 1
        reaction = self._reaction(err, attempt)
        log = self._log.bind(key=str(key), attempt=attempt, error=one_line(err))
        facts: dict[str, Any] = {} if reaction.v is None else {"v": reaction.v}
        delay: float | None = None
        if reaction.drops:
            queue.give_up(key)
        elif reaction.delay is not None:
            delay = reaction.delay
            queue.add_after(key, max(delay, SOONEST), now)
            facts["seconds"] = round(delay, 3)
        else:
            delay = queue.add_rate_limited(key, now)
            if delay > reaction.longest:
                delay = reaction.longest
                queue.add_after(key, delay, now)  # of two delays the queue keeps the shorter one
            facts["seconds"] = round(delay, 3)
        if reaction.is_bug:
            facts["exc_info"] = self._traces.first_of(err)
        getattr(log, reaction.level)(reaction.text, **facts)
        return delay

    def _reaction(self, err: Exception, attempt: int) -> RetryDecision:
        match err:
            case CommandError(failure=Refused() | Unknown()):
                return NO_RESPONSE
            case Retry(after=seconds):
                return replace(RETRY, delay=seconds)
            case TerminalError():
                return PERMANENT
            case CommandError(failure=failure) if isinstance(failure, self._terminal):
                return PERMANENT
        if self._max_retries is not None and attempt > self._max_retries:
            return TOO_OFTEN
        match err:
            case StaleTableError():
                return STALE
            case ModelError() if self._traces.first_of(err):  # the informer logs all other unreadable objects
                return UNREADABLE_BY_MODEL
            case UnreadableError():
                return UNREADABLE
            case TableMissingError():
                return NO_TABLE
            case RetryQuietly():
                return QUIET
            case CommandError(failure=Conflict()):
                return CONFLICT
            case CommandError(command=Update() | Patch() | Delete(), failure=NotFound()):
                return DELETED
            # The server creates nothing in such a namespace, and deletes its contents.
            case CommandError(failure=Forbidden(status=status)) if b"NamespaceTerminating" in status:
                return TERMINATING
            case CommandError() | ValueError() | SyncTimeoutError():
                return FAILED
        return BUG


class SyncTimeoutError(Exception):
    """Reconciliation of a key that did not end within the timeout of its queue. The key is retried with backoff."""


# Waits for a table: the reconciliation has not begun, or a deletion was not sent.
POSTPONED = (StaleTableError, UnreadableError, TableMissingError)
# Label values of kcm_reconcile_errors_total.
KINDS: dict[type[Outcome], str] = {
    NotFound: "not_found",
    AlreadyExists: "already_exists",
    Conflict: "conflict",
    Forbidden: "forbidden",
    Invalid: "invalid",
    Gone: "gone",
    Throttled: "throttled",
    ServerFailure: "server_failure",
    Unknown: "unknown_outcome",
    Refused: "refused",
    Raised: "raised",
}


def is_failure(err: Exception) -> bool:
    """Report whether a health check counts this error; false for requested retries and for keys that wait."""
    return not isinstance(err, (Retry, RetryQuietly, *POSTPONED))


def result_of(err: Exception) -> str:
    """Return the label `result` of a reconciliation that raised this error, as controller-runtime names results."""
    if isinstance(err, Retry):
        return "requeue_after"
    return "requeue" if isinstance(err, RetryQuietly) else "error"


def error_kind(err: Exception) -> str:
    """Return the label `kind` of an error: the outcome of the failed command, or what else happened."""
    if isinstance(err, CommandError):
        return KINDS[type(err.failure)]
    if isinstance(err, SyncTimeoutError):
        return "timeout"
    return "postponed" if isinstance(err, POSTPONED) else "raised"


def pass_delay(err: Exception, failures: int, *, every: float) -> float:
    """Return the seconds until a failed pass is repeated.

    failures: successive failures before this one.
    every: period of the pass in seconds.
    """
    if isinstance(err, Retry):
        return err.after
    if isinstance(err, TerminalError):
        return every
    return min(PER_PASS.delay(failures), every)


def report_pass(err: Exception, *, delay: float, attempt: int, traces: Traces, log: FilteringBoundLogger) -> None:
    """Log the failure of a pass. log: bound to controller and pass."""
    expected = isinstance(
        err, (*REQUESTED, CommandError, StaleTableError, TableMissingError, UnreadableError, ValueError)
    )
    log.warning(
        "pass failed, retrying",
        attempt=attempt,
        error=one_line(err),
        seconds=round(delay, 3),
        exc_info=None if expected else traces.first_of(err),
    )


def one_line(err: Exception) -> str:
    """Return class, text and notes of an exception. Notes contain hints for the author of a controller."""
    notes = "".join(f"; {note}" for note in getattr(err, "__notes__", ()))
    return f"{type(err).__name__}: {err}{notes}".replace("\n", " ")
