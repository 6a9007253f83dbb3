from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.runtime.process.termination import ended_by, on_signals

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may be run with nohup
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HANDLED)
def test_signal_requests_termination(number: signal.Signals) -> None:
    ending = on_signals()
    assert not ending.is_set()
    signal.raise_signal(number)
    assert ending.is_set()


def test_process_started_with_nohup_survives_the_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending = on_signals()
    signal.raise_signal(signal.SIGHUP)
    assert not ending.is_set()


@pytest.mark.parametrize(
    "code, words",
    [
        (0, "ended (exit code 0)"),
        (1, "ended (exit code 1)"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exit_code_is_described(code: int, words: str) -> None:
    assert ended_by(code) == words


HELD_UP = """
import threading
from kcm.runtime.process.termination import ending_within
with ending_within(0.1, lambda: None, code=3):
    threading.Event().wait(60)
"""
ENDS = """
from kcm.runtime.process.termination import ending_within
with ending_within(60.0, lambda: None, code=3):
    pass
"""


def test_blocked_main_thread_does_not_keep_the_process_alive() -> None:
    done = run(HELD_UP)
    assert done.returncode == 3
    assert "(most recent call first)" in done.stderr, "all stacks"


def test_stacks_are_left_out_on_request() -> None:
    done = run(HELD_UP.replace("code=3", "code=3, with_stacks=False"))
    assert (done.returncode, done.stderr) == (3, "")


def test_block_that_ends_in_time_keeps_its_exit_code() -> None:
    done = run(ENDS)
    assert (done.returncode, done.stderr) == (0, "")


def run(program: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    return subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False, timeout=50
    )
