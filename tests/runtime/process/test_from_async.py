"""Blocking functions that are called from an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kcm.runtime.process.from_async import in_thread

PATIENCE = 20.0  # seconds


def test_function_runs_in_a_thread_and_its_result_is_returned() -> None:
    async def program() -> bool:
        return await in_thread(lambda: threading.current_thread() is threading.main_thread(), hurry=lambda: None)

    assert asyncio.run(program()) is False


def test_error_of_the_function_is_raised() -> None:
    def fails() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        asyncio.run(in_thread(fails, hurry=lambda: None))


def test_cancellation_hurries_the_function_and_waits_for_it() -> None:
    begun, hurried, over = threading.Event(), threading.Event(), threading.Event()

    def waits() -> None:
        begun.set()
        assert hurried.wait(PATIENCE)
        over.set()

    async def program() -> None:
        task = asyncio.create_task(in_thread(waits, hurry=hurried.set))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert over.is_set()

    asyncio.run(program())
