"""The system clock: one alarm per name, and no alarm blocks the others."""

from __future__ import annotations

import math
import sys
import threading
import time

import pytest

from kcm.runtime.scheduling.clock import LONGEST_WAIT, SystemClock

TIMEOUT = 5.0  # seconds until a due alarm is triggered on a busy machine


def is_triggered(clock: SystemClock, who: str) -> bool:
    rang = threading.Event()
    clock.call_at(who, clock.monotonic(), rang.set)
    return rang.wait(TIMEOUT)


def test_alarm_that_is_never_due_does_not_block_others() -> None:
    clock = SystemClock()
    clock.call_at("never", math.inf, lambda: None)
    assert is_triggered(clock, "now")
    assert is_triggered(clock, "again")
    clock.close()


def test_error_in_an_alarm_is_reported_and_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(str(args.exc_value)))
    clock = SystemClock()

    def broken() -> None:
        raise RuntimeError("out of order")

    clock.call_at("broken", clock.monotonic(), broken)
    assert is_triggered(clock, "sound")
    assert reported == ["out of order"]
    clock.close()


def test_system_exit_in_an_alarm_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    clock = SystemClock()
    clock.call_at("exits", clock.monotonic(), sys.exit)
    assert is_triggered(clock, "sound")
    assert reported == [SystemExit]
    clock.close()


def test_postponed_alarms_take_no_memory() -> None:
    clock = SystemClock()
    for delay in range(10_000):
        clock.call_at("busy", clock.monotonic() + 60.0 + delay, lambda: None)
    assert clock.pending <= 200
    assert is_triggered(clock, "now")
    clock.close()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux has a clock of its own for this")
def test_time_of_a_suspended_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read, suspended = time.clock_gettime, 0.0

    def boot_time(number: int) -> float:
        assert number == time.CLOCK_BOOTTIME
        return read(number) + suspended

    monkeypatch.setattr(time, "clock_gettime", boot_time)
    clock, rang = SystemClock(), threading.Event()
    before = clock.monotonic()
    clock.call_at("in an hour", before + 3600.0, rang.set)
    suspended = 3600.0  # not included in the timeout of a lock
    assert clock.monotonic() - before >= 3600.0
    assert rang.wait(LONGEST_WAIT + TIMEOUT)
    clock.close()
