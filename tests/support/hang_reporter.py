"""Stacks of tests that hang where pytest-timeout cannot end them, for example in a C library that holds the GIL.

pytest's own option faulthandler_timeout starts and ends a thread for each test, which takes longer than most tests: of
the CPU time of 3,000 empty tests on two workers it was a third.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time

import pytest

HANGS = 280.0  # seconds after which the stacks of a test are printed, at most RENEW later; pytest-timeout comes first
RENEW = 20.0  # seconds for which the thread of faulthandler is not started again


class HangReporter:
    """Plugin that prints the stacks of all threads if a test takes longer than HANGS."""

    def __init__(self) -> None:
        assert sys.__stderr__ is not None
        self._stderr = os.dup(sys.__stderr__.fileno())  # which is not captured
        self._renew_at = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew_at = now + RENEW
            faulthandler.dump_traceback_later(HANGS + RENEW, file=self._stderr)

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        os.close(self._stderr)
