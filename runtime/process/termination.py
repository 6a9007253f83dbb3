"""When a process, or a part of it, has to end: by a signal, with its parent, or on request."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator

SIGINT = int(signal.SIGINT)
STDIN, STDERR = 0, 2  # file descriptors
LONGEST_WAIT = 1.0  # seconds


class Ending:
    """Set once, from any thread; waited for by one. signal: the number of the signal that set it, 0 for none."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self.signal = 0

    def set(self) -> None:
        self._set.set()

    def is_set(self) -> bool:
        return self._set.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits at most so many seconds; returns whether it is set."""
        if seconds is not None:
            return self._set.wait(seconds)
        # Python notices a signal that comes just before a thread begins to sleep only when the sleep is over.
        while not self._set.wait(LONGEST_WAIT):
            pass
        return True


@contextlib.contextmanager
def ending_within(seconds: float, due: Callable[[], object], *, code: int) -> Iterator[None]:
    """Once `due` returns, which may take for ever, the block has so many seconds to end; else the process is ended.

    For a main thread that may be held up itself, by a terminal that takes nothing. The stacks go to standard error.
    """
    over = threading.Event()

    def watch() -> None:
        due()
        if not over.wait(seconds):
            faulthandler.dump_traceback(STDERR)
            os._exit(code)

    threading.Thread(target=watch, name="last resort", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def on_signals() -> Ending:
    """Set by SIGTERM, SIGINT or SIGHUP; a second one ends the process at once. For a command's main thread only.

    A closed terminal sends SIGHUP (upstream dies of it, and keeps its lease); under nohup it stays ignored.
    """
    ending = Ending()

    def handle(number: int, _frame: object) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.signal = number
        ending.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handle)
    return ending


def with_parent() -> Ending:
    """Set by SIGTERM, and when the process that holds the other end of standard input is gone, however it ended.

    SIGINT is left to the parent. For a child process's main thread only.
    """
    ending = Ending()

    def watch() -> None:
        while os.read(STDIN, 4096):
            pass
        ending.set()

    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, name="stdin", daemon=True).start()
    return ending


def unique_identity() -> str:
    """Who this process is among all that run for leader: `<host>_<uuid>`, as upstream."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def ended_by(code: int) -> str:
    """How a child ended, from its exit code as subprocess has it."""
    if code >= 0:
        return f"ended (exit code {code})"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
