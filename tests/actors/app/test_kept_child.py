"""A child process that is restarted, on a clock of the test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.actors.app.kept_child import KeptChild
from kcm.runtime.process.children import ChildProcess, start_module


class Nursery:
    """Starts idle child processes and counts them. refuse: number of starts that fail."""

    def __init__(self) -> None:
        self.started, self.refuse = 0, 0

    def __call__(self) -> ChildProcess:
        if self.refuse:
            self.refuse -= 1
            raise OSError(24, "Too many open files")
        self.started += 1
        return start_module("timeit", ["-n", "1", "-r", "1", "-s", "import sys", "sys.stdin.read()"])


@pytest.fixture
def nursery() -> Nursery:
    return Nursery()


@pytest.fixture
def logs() -> LogCapture:
    return LogCapture()


@pytest.fixture
def kept(nursery: Nursery) -> Iterator[KeptChild]:
    child = KeptChild(nursery, what="nodes")
    yield child
    child.stop(0.0)


@pytest.fixture
def look(kept: KeptChild, logs: LogCapture) -> Callable[[float], None]:
    log = structlog.wrap_logger(None, processors=[logs])
    return lambda now: kept.look(now=now, log=log)


def kill(kept: KeptChild) -> None:
    """Kill the child, and wait until the kernel has reaped it."""
    assert kept.pid is not None
    os.kill(kept.pid, signal.SIGKILL)
    os.waitid(os.P_PID, kept.pid, os.WEXITED | os.WNOWAIT)


def test_running_child_is_not_restarted(
    kept: KeptChild, look: Callable[[float], None], nursery: Nursery, logs: LogCapture
) -> None:
    for now in (0.0, 1.0, 1000.0):
        look(now)
    assert (kept.trouble, nursery.started, logs.entries) == (None, 1, [])


def test_killed_child_is_restarted_and_both_are_logged(
    kept: KeptChild, look: Callable[[float], None], nursery: Nursery, logs: LogCapture
) -> None:
    look(0.0)
    kill(kept)
    look(5.0)
    assert kept.trouble == "nodes was killed by SIGKILL, to be started again"
    assert kept.pid is None
    look(5.9)
    assert nursery.started == 1
    look(6.0)
    assert (kept.trouble, nursery.started) == (None, 2)
    down, up = logs.entries
    assert (down["log_level"], down["reason"], down["seconds"]) == ("error", "was killed by SIGKILL", 1.0)
    assert (up["event"], up["pid"]) == ("process was started again", kept.pid)


def waits(
    kept: KeptChild, look: Callable[[float], None], logs: LogCapture, *, runs_for: float, times: int
) -> list[float]:
    now = 0.0
    for _ in range(times):
        look(now)
        kill(kept)
        now += runs_for
        look(now)
        now += logs.entries[-1]["seconds"]
        look(now)
    return [entry["seconds"] for entry in logs.entries if "seconds" in entry]


def test_repeatedly_ending_child_is_restarted_with_backoff(
    kept: KeptChild, look: Callable[[float], None], logs: LogCapture
) -> None:
    assert waits(kept, look, logs, runs_for=10.0, times=7) == [1, 2, 4, 8, 16, 30, 30]


def test_backoff_is_reset_after_a_steady_run(kept: KeptChild, look: Callable[[float], None], logs: LogCapture) -> None:
    assert waits(kept, look, logs, runs_for=60.0, times=3) == [1, 1, 1]


def test_failed_start_of_a_child_is_retried(kept: KeptChild, look: Callable[[float], None], nursery: Nursery) -> None:
    look(0.0)
    kill(kept)
    nursery.refuse = 1
    look(0.0)
    look(1.0)
    assert kept.trouble == "nodes cannot be started: Too many open files, to be started again"
    look(3.0)
    assert kept.trouble is None
