"""The machine's clock: one alarm each, and no alarm silences the others."""

from __future__ import annotations

import math
import sys
import threading
import time

import pytest

from kcm.runtime.scheduling.clock import LONGEST_WAIT, SystemClock

SOON = 5.0  # seconds that an alarm which is due may take on a busy machine


def sounds(clock: SystemClock, who: str) -> bool:
    rang = threading.Event()
    clock.call_at(who, clock.monotonic(), rang.set)
    return rang.wait(SOON)


def test_an_alarm_that_is_never_due_silences_no_other() -> None:
    clock = SystemClock()
    clock.call_at("never", math.inf, lambda: None)
    assert sounds(clock, "now")
    assert sounds(clock, "again")
    clock.close()


def test_an_alarm_that_raises_is_reported_and_silences_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(str(args.exc_value)))
    clock = SystemClock()

    def broken() -> None:
        raise RuntimeError("out of order")

    clock.call_at("broken", clock.monotonic(), broken)
    assert sounds(clock, "sound")
    assert reported == ["out of order"]
    clock.close()


def test_an_alarm_that_would_end_its_thread_silences_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    clock = SystemClock()
    clock.call_at("exits", clock.monotonic(), sys.exit)
    assert sounds(clock, "sound")
    assert reported == [SystemExit]
    clock.close()


def test_alarms_that_are_postponed_again_and_again_take_no_memory() -> None:
    clock = SystemClock()
    for delay in range(10_000):
        clock.call_at("busy", clock.monotonic() + 60.0 + delay, lambda: None)
    assert clock.pending <= 200
    assert sounds(clock, "now")
    clock.close()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux has a clock of its own for this")
def test_the_time_in_which_the_machine_is_suspended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read, suspended = time.clock_gettime, 0.0

    def boot_time(number: int) -> float:
        assert number == time.CLOCK_BOOTTIME
        return read(number) + suspended

    monkeypatch.setattr(time, "clock_gettime", boot_time)
    clock, rang = SystemClock(), threading.Event()
    before = clock.monotonic()
    clock.call_at("in an hour", before + 3600.0, rang.set)
    suspended = 3600.0  # of which a lock that waits knows nothing
    assert clock.monotonic() - before >= 3600.0
    assert rang.wait(LONGEST_WAIT + SOON)
    clock.close()
