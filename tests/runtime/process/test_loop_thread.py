from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.runtime.process import loop_thread
from kcm.runtime.process.loop_thread import LoopThread

PATIENCE = 10.0


async def nothing() -> None:
    pass


@pytest.fixture
def thread(log: FilteringBoundLogger) -> Iterator[LoopThread]:
    made = LoopThread(name="loop", log=log)
    yield made
    made.stop(nothing, timeout=PATIENCE)


def wait_for_posted(thread: LoopThread) -> None:
    """Wait until everything posted so far has run."""
    done = threading.Event()
    thread.post(done.set)
    assert done.wait(PATIENCE)


def test_posted_functions_run_in_order_on_the_loops_thread(thread: LoopThread) -> None:
    thread.start(nothing)
    ran: list[tuple[int, str]] = []
    for number in range(1000):
        thread.post(lambda number=number: ran.append((number, threading.current_thread().name)))
    wait_for_posted(thread)
    assert ran == [(number, "loop") for number in range(1000)]
    assert not thread.is_current


def test_functions_posted_before_the_start_run_after_the_opening(thread: LoopThread) -> None:
    ran: list[str] = []

    async def opening() -> None:
        ran.append("opening")

    thread.post(lambda: ran.append("posted"))
    assert ran == []
    thread.start(opening)
    wait_for_posted(thread)
    assert ran == ["opening", "posted"]


def test_function_posted_after_the_end_runs_at_once_on_the_callers_thread(thread: LoopThread) -> None:
    thread.start(nothing)
    thread.stop(nothing, timeout=PATIENCE)
    ran: list[str] = []
    thread.post(lambda: ran.append(threading.current_thread().name))
    assert ran == [threading.current_thread().name]


def test_stopping_before_the_start_runs_posted_functions(thread: LoopThread) -> None:
    ran: list[int] = []
    thread.post(lambda: ran.append(1))
    thread.stop(nothing, timeout=PATIENCE)
    assert ran == [1]


def test_concurrent_posts_during_the_stop_are_not_lost(thread: LoopThread) -> None:
    thread.start(nothing)
    ran: list[int] = []
    begin = threading.Barrier(5)

    def post_many(first: int) -> None:
        begin.wait(PATIENCE)
        for number in range(first, first + 500):
            thread.post(lambda number=number: ran.append(number))

    posters = [threading.Thread(target=post_many, args=(first,)) for first in range(0, 2000, 500)]
    for poster in posters:
        poster.start()
    begin.wait(PATIENCE)
    thread.stop(nothing, timeout=PATIENCE)
    for poster in posters:
        poster.join()
    assert sorted(ran) == list(range(2000))


def test_error_in_a_posted_function_is_logged_and_the_next_runs(thread: LoopThread, logs: LogCapture) -> None:
    thread.start(nothing)
    thread.post(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    wait_for_posted(thread)
    assert [entry["event"] for entry in logs.entries] == ["call failed"]


def test_unhandled_error_of_the_loop_is_in_our_log_and_not_in_that_of_asyncio(
    thread: LoopThread, logs: LogCapture, caplog: pytest.LogCaptureFixture
) -> None:
    thread.start(nothing)
    wrong = ValueError("wrong")
    thread.post(lambda: asyncio.get_running_loop().call_exception_handler({"message": "m", "exception": wrong}))
    thread.post(lambda: asyncio.get_running_loop().call_exception_handler({"message": "p", "protocol": None}))
    wait_for_posted(thread)
    logged = [(e["log_level"], e["what"], e["exc_info"]) for e in logs.entries if e["event"] == "event loop complains"]
    assert logged == [("warning", "m", wrong), ("debug", "p", None)]
    assert caplog.records == []


def test_an_opening_that_fails_raises_in_the_caller_of_start(thread: LoopThread) -> None:
    async def opening() -> None:
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        thread.start(opening)
    assert not thread.is_running


def test_a_closing_that_hangs_is_cut_off(thread: LoopThread, logs: LogCapture) -> None:
    async def closing() -> None:
        await asyncio.get_running_loop().create_future()

    thread.start(nothing)
    thread.stop(closing, timeout=0.01)
    assert not thread.is_running
    assert [entry["event"] for entry in logs.entries] == ["not closed in order"]


def test_second_start_is_an_error(thread: LoopThread) -> None:
    thread.start(nothing)
    with pytest.raises(RuntimeError, match="started twice"):
        thread.start(nothing)


def take_descriptor(thread: LoopThread) -> None:
    """Replace the epoll descriptor of the loop, so that its next wait fails."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, thread._loop._selector.fileno())  # type: ignore[union-attr]
    os.close(nowhere)
    thread.post(lambda: None)


def exit_loop(thread: LoopThread) -> None:
    thread.post(sys.exit)


@pytest.mark.parametrize(
    "end, why",
    [
        (take_descriptor, "OSError: [Errno 22] Invalid argument"),
        (exit_loop, "SystemExit: "),
        (lambda thread: thread.post(thread._loop.stop), "it was stopped from outside"),
    ],
)
def test_broken_loop_is_reported_and_posted_functions_still_run(
    log: FilteringBoundLogger, logs: LogCapture, monkeypatch: pytest.MonkeyPatch, end: Any, why: str
) -> None:
    monkeypatch.setattr(loop_thread, "new_event_loop", asyncio.new_event_loop)  # libuv would abort the process
    whys: list[str] = []
    reported = threading.Event()

    def broken(why: str) -> None:
        whys.append(why)
        thread.post(reported.set)  # runs later, on the thread that is ending

    thread = LoopThread(name="loop", log=log, broken=broken)
    thread.start(nothing)
    end(thread)
    assert reported.wait(PATIENCE)
    assert whys == [why]
    thread.stop(nothing, timeout=PATIENCE)
    assert not thread.is_running
    wait_for_posted(thread)
    (entry,) = [entry for entry in logs.entries if entry["event"] == "event loop ended"]
    assert (entry["log_level"], entry["thread"], entry["error"]) == ("error", "loop", why)


def test_requested_end_is_not_reported_as_breakdown(log: FilteringBoundLogger) -> None:
    whys: list[str] = []
    thread = LoopThread(name="loop", log=log, broken=whys.append)
    thread.start(nothing)
    thread.stop(nothing, timeout=PATIENCE)
    assert whys == []
