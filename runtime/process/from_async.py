"""Blocking functions for programs whose main thread runs an asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], *, hurry: Callable[[], None]) -> T:
    """Call a blocking function in a thread, so that the event loop is not blocked.

    hurry: called if the task is cancelled before the function has returned. The task still waits for the function.
    """
    running = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        hurry()
        await asyncio.wait([running])
        raise
