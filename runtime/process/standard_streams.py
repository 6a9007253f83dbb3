"""Standard input, output and error as the process got them: perhaps closed, perhaps without a reader."""

from __future__ import annotations

import os
import sys
from typing import TextIO

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


def write_or_forget(stream: TextIO, text: str) -> None:
    """Write it whole and at once; after an error (a broken pipe, a full disk) the stream discards what is written."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # What is left in its buffers is written at the end of the process, and must not fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
