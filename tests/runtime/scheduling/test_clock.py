"""The machine's clock: one alarm each, and no alarm silences the others."""

from __future__ import annotations

import math
import threading

import pytest

from runtime.scheduling.clock import SystemClock

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


def test_alarms_that_are_postponed_again_and_again_take_no_memory() -> None:
    clock = SystemClock()
    for delay in range(10_000):
        clock.call_at("busy", clock.monotonic() + 60.0 + delay, lambda: None)
    assert clock.pending <= 200
    assert sounds(clock, "now")
    clock.close()
