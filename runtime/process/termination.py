"""Termination of a process by a signal, with its parent, or on request."""

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
STDIN, STDOUT, STDERR = 0, 1, 2  # file descriptors
LONGEST_WAIT = 1.0  # seconds


class Ending:
    """Request to end, which any thread sets and one thread waits for. signal: number of the signal, or 0."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self.signal = 0

    def set(self) -> None:
        self._set.set()

    def is_set(self) -> bool:
        return self._set.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most `seconds`, and report whether it is set."""
        if seconds is not None:
            return self._set.wait(seconds)
        # Python handles a signal that arrives just before a thread sleeps only after the sleep.
        while not self._set.wait(LONGEST_WAIT):
            pass
        return True


@contextlib.contextmanager
def ending_within(seconds: float, due: Callable[[], object], *, code: int, with_stacks: bool = True) -> Iterator[None]:
    """End the process if the block takes longer than `seconds` after `due` has returned.

    due: blocks, possibly forever.
    with_stacks: write the stacks of all threads to standard error before the end.

    For a main thread that may itself be blocked, by a terminal that accepts no output.
    """
    over = threading.Event()

    def watch() -> None:
        due()
        if not over.wait(seconds):
            if with_stacks:
                faulthandler.dump_traceback(STDERR)
            os._exit(code)

    threading.Thread(target=watch, name="last resort", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def on_signals() -> Ending:
    """Return an Ending that SIGTERM, SIGINT or SIGHUP sets; a second signal ends the process at once.

    Call it on the main thread of a command. A closed terminal sends SIGHUP, by which upstream ends without releasing
    its lease. Under nohup it remains ignored.
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


def with_parent(respond: Callable[[bytes], bytes] | None = None) -> Ending:
    """Return an Ending that is set by SIGTERM, and at the end of standard input, which the parent holds open.

    SIGINT is ignored, because the parent handles it. Call it on the main thread of a child process.

    respond: returns the response to a request of the parent (ChildProcess.request); b"" without one. It is called on a
        thread of its own. An error that it raises ends the process.
    """
    ending = Ending()

    def watch() -> None:
        try:
            with os.fdopen(os.dup(STDIN), "rb") as requests:
                for line in requests:
                    if respond is not None:
                        number, _, body = line.rstrip(b"\n").partition(b" ")
                        os.write(STDOUT, b"%s %s\n" % (number, respond(body)))
        except OSError:  # the parent ended before it read the response
            pass
        finally:
            ending.set()

    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, name="stdin", daemon=True).start()
    return ending


def unique_identity() -> str:
    """Return the identity for leader election: `<host>_<uuid>`, as upstream."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def ended_by(code: int) -> str:
    """Describe the end of a child process. code: exit code as in subprocess."""
    if code >= 0:
        return f"ended (exit code {code})"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
