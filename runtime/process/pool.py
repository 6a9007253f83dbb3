"""Pool of Python processes: the default executor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import connection

__all__ = ["BrokenExecutor", "Executor", "Future", "processes"]


def processes(count: int | None) -> Executor:
    """Create a pool of spawned processes, which inherit no threads or locks, and end when this process ends.

    count: None for the number of processors.
    """
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_settle)


def _settle() -> None:
    """Initialize a process of the pool. Ctrl-C ends it silently, because the parent process reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)  # no process can receive a result
