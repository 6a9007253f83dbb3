"""Retries of failed keys, by their errors."""

from __future__ import annotations

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller.readiness import StaleTableError
from kcm.actors.engine.controller.retries import AWAY_RETRY, STALE_RETRY, KeyRetries, Traces, pass_delay
from kcm.actors.reconciliation import Retry, TerminalError
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Get
from kcm.protocols.messages.outcomes import Conflict, Forbidden, Invalid, NotFound, Outcome, Refused, Unknown
from kcm.runtime.scheduling.work_queue import WorkQueue

KEY = "default/web"
MANY = 15  # failures after which the backoff alone is longer than half a minute


def failed(outcome: Outcome) -> CommandError:
    return CommandError(Get("v1/pods", KEY), outcome)


def queue_after(
    failures: int,
    err: Exception,
    log: FilteringBoundLogger,
    *,
    max_retries: int | None,
    terminal: tuple[type[Outcome], ...] = (),
) -> tuple[WorkQueue, float | None]:
    """Return a queue with a key that failed this often before and fails once more, and the seconds until it is due."""
    queue, now = WorkQueue[str](now=0.0), 1.0
    for _ in range(failures):
        now += queue.add_rate_limited(KEY, now)
    queue.add(KEY, now)
    assert queue.take(now) == KEY
    queue.done(KEY, now)
    KeyRetries(queue, max_retries=max_retries, terminal=terminal, traces=Traces(), log=log).failed(KEY, err, now)
    due = queue.next_due()
    return queue, None if due is None else due - now


def seconds_said(logs: LogCapture) -> float:
    seconds: float = logs.entries[-1]["seconds"]
    return seconds


@pytest.mark.parametrize("outcome", [Refused("no route"), Unknown("cut")])
def test_unavailable_server_is_retried_every_half_minute_without_giving_up(
    outcome: Outcome, log: FilteringBoundLogger, logs: LogCapture
) -> None:
    queue, wait = queue_after(MANY, failed(outcome), log, max_retries=3)
    assert (wait, seconds_said(logs)) == (AWAY_RETRY, AWAY_RETRY)
    assert queue.failures(KEY) == MANY + 1


def test_key_beyond_max_retries_waits_for_its_next_event(log: FilteringBoundLogger, logs: LogCapture) -> None:
    queue, wait = queue_after(3, ValueError("malformed"), log, max_retries=3)
    assert (wait, queue.failures(KEY)) == (None, 0)
    assert logs.entries[-1]["log_level"] == "error"


def test_stale_table_does_not_count_as_failure(log: FilteringBoundLogger, logs: LogCapture) -> None:
    queue, wait = queue_after(2, StaleTableError("old", "v1/pods"), log, max_retries=None)
    assert (wait, seconds_said(logs)) == (STALE_RETRY, STALE_RETRY)
    assert queue.failures(KEY) == 2


@pytest.mark.parametrize(
    ("err", "level", "traceback"),
    [
        (failed(Conflict("newer", b"")), "info", False),
        (CommandError(Delete("v1/pods", KEY), NotFound("gone", b"")), "info", False),
        (failed(Forbidden("", b'{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}')), "info", False),
        (failed(Forbidden("exceeded quota", b"{}")), "warning", False),
        (CommandError(Create("v1/pods", "gone", b"{}"), NotFound("no such namespace", b"")), "warning", False),
        (ValueError("malformed"), "warning", False),
        (RuntimeError("a bug"), "warning", True),
    ],
)
def test_other_failures_are_retried_with_backoff_and_only_bugs_have_tracebacks(
    err: Exception, level: str, traceback: bool, log: FilteringBoundLogger, logs: LogCapture
) -> None:
    queue, wait = queue_after(2, err, log, max_retries=None)
    assert wait == pytest.approx(0.02)  # 5 ms, doubled for each failure before
    assert queue.failures(KEY) == 3
    assert logs.entries[-1]["log_level"] == level
    assert ("exc_info" in logs.entries[-1]) is traceback


@pytest.mark.parametrize("err", [TerminalError("no such plan"), failed(Invalid("spec.plan: unknown"))])
def test_permanent_failure_waits_for_the_next_event(
    err: Exception, log: FilteringBoundLogger, logs: LogCapture
) -> None:
    queue, wait = queue_after(2, err, log, max_retries=None, terminal=(Invalid,))
    assert (wait, queue.failures(KEY)) == (None, 0)
    (entry,) = logs.entries
    assert (entry["log_level"], entry["event"]) == ("error", "reconcile failed permanently, waiting for the next event")
    assert "exc_info" not in entry


def test_outcome_that_is_not_terminal_is_retried(log: FilteringBoundLogger) -> None:
    _, wait = queue_after(2, failed(Invalid("a policy that may change")), log, max_retries=None)
    assert wait == pytest.approx(0.02)


def test_retry_uses_its_delay_and_does_not_count_as_failure(log: FilteringBoundLogger, logs: LogCapture) -> None:
    queue, wait = queue_after(3, Retry("the directory moves", after=20.0), log, max_retries=3)
    assert (wait, queue.failures(KEY)) == (20.0, 3)
    assert logs.entries[-1]["error"] == "Retry: the directory moves"
    assert logs.entries[-1]["log_level"] == "info"


@pytest.mark.parametrize("after", [-1.0, float("nan"), float("inf")])
def test_retry_determines_its_delay(after: float) -> None:
    with pytest.raises(ValueError, match="Retry: after takes a number of seconds, 0 or more, not "):
        Retry(after=after)


def test_a_pass_heeds_them_too() -> None:
    assert pass_delay(Retry(after=3.0), 2, every=60.0) == 3.0
    assert pass_delay(TerminalError("in vain"), 2, every=3600.0) == 3600.0
    assert pass_delay(ValueError("malformed"), 2, every=3600.0) == 40.0


def test_traceback_is_logged_once() -> None:
    traces, err = Traces(), RuntimeError("a bug")
    assert [traces.first_of(err), traces.first_of(err)] == [err, None]
