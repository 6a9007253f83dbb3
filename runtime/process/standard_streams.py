"""Standard input, output and error as the process got them: perhaps closed, perhaps without a reader."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import TextIO

NO_READER = 141  # 128 and the number of SIGPIPE
ERASE = "\x1b[K"  # from the cursor to the end of its line, on a terminal


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it who can be shown a line that changes."""
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except ValueError:  # closed
        return False


def open_closed_streams() -> None:
    """Put /dev/null where one of them is closed. To be called before anything is opened.

    Else the next socket gets its number, and libuv aborts when it closes that.
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

    Where the reader of a pipe has gone, as in `--help | head`, the command ends without a word, with the code of a
    process that SIGPIPE has ended. An output that cannot be written otherwise, as on a full disk, is one line of error.
    """
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()  # also after SystemExit: else the interpreter would complain at its end
    except OSError as err:
        if not _has_failed(sys.stdout):
            raise  # it was about something else
        _discard(sys.stdout)
        if isinstance(err, BrokenPipeError):
            return NO_READER
        print(f"Error: cannot write to standard output: {err.strerror}", file=sys.stderr)
        return 1


def _has_failed(stream: TextIO) -> bool:
    """Return whether its buffers cannot be written, or, as it may have none (python -u), its pipe has no reader."""
    try:
        stream.flush()
    except OSError:
        return True
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def write_or_forget(stream: TextIO, text: str) -> None:
    """Write it whole and at once; after an error (a broken pipe, a full disk) the stream discards what is written."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        _discard(stream)


def _discard(stream: TextIO) -> None:
    """What is left in its buffers is written at the end of the process, and must not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
