"""Standard input, output and error, which may be closed or have no reader."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import TextIO

NO_READER = 141  # 128 and the number of SIGPIPE
ERASE = "\x1b[K"  # from the cursor to the end of its line, on a terminal


def is_terminal(stream: TextIO) -> bool:
    """Report whether the stream is a terminal that can overwrite a line."""
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except ValueError:  # closed
        return False


def open_closed_streams() -> None:
    """Open /dev/null in place of a closed stream. Call this before any other file is opened.

    Otherwise the next socket gets the descriptor, and libuv aborts when it closes it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open


def printing(main: Callable[[], int]) -> int:
    """Run a command that prints to standard output, and return its exit code.

    If a pipe has no reader, as in `--help | head`, the command ends silently, with the exit code for SIGPIPE. Any other
    error of the output, such as a full disk, is printed in one line.
    """
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()  # also after SystemExit; otherwise the interpreter prints an error at exit
    except OSError as err:
        if not _has_failed(sys.stdout):
            raise  # not an error of the output
        _discard(sys.stdout)
        if isinstance(err, BrokenPipeError):
            return NO_READER
        print(f"Error: cannot write to standard output: {err.strerror}", file=sys.stderr)
        return 1


def _has_failed(stream: TextIO) -> bool:
    """Report whether the stream cannot be flushed, or, for unbuffered output (python -u), its pipe has no reader."""
    try:
        stream.flush()
    except OSError:
        return True
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def write_or_forget(stream: TextIO, text: str) -> None:
    """Write and flush a text. After an error (broken pipe, full disk) the stream discards all output."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _discard(stream)


def _discard(stream: TextIO) -> None:
    # The interpreter flushes the buffers at exit, which must not fail again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
