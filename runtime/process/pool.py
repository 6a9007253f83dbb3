"""Python processes that calls are handed to: the executor of those who give none of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import connection

__all__ = ["BrokenExecutor", "Executor", "Future", "processes"]


def processes(count: int | None) -> Executor:
    """So many fresh ones, which inherit no thread or lock of this process; they end with it, however it ends.

    count: None for as many as there are processors.
    """
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_settle)


def _settle() -> None:
    """In a process of the pool. Ctrl-C reaches all of them, and the one that began it speaks for all."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)  # nobody is left to take a result
