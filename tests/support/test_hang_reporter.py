from __future__ import annotations

import faulthandler
from types import SimpleNamespace

import pytest

from tests.support import hang_reporter
from tests.support.hang_reporter import HANGS, RENEW, HangReporter


def test_watchdog_is_armed_for_every_test_but_renewed_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[tuple[float, float]] = []  # when, and for how many seconds
    now = 1000.0

    def arm(seconds: float, *, file: int) -> None:
        assert file > 2
        armed.append((now, seconds))

    monkeypatch.setattr(faulthandler, "dump_traceback_later", arm)
    monkeypatch.setattr(hang_reporter, "time", SimpleNamespace(monotonic=lambda: now))
    reporter = HangReporter()
    begins = [1000.0, 1000.5, 1000.0 + RENEW - 0.1, 1000.0 + RENEW, 1500.0]
    for now in begins:
        reporter.pytest_runtest_protocol()
        when, seconds = armed[-1]
        assert HANGS <= when + seconds - now <= HANGS + RENEW
    assert len(armed) == 3
    reporter.pytest_unconfigure()
