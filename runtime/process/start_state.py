"""Start state of a process, for other processes that wait for it: a file that the process keeps locked.

The kernel releases the lock when the process ends, for any reason. So a file without a lock belongs to an ended
process.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Self

from msgspec import Struct

FILE = "start"
LONGEST = 1 << 16  # bytes of the file that are read


class ObservedStart(Struct, frozen=True):
    """Start state of another process.

    text: what the start waits for; "" if it is ready or the process does not run.
    """

    is_running: bool = False
    is_ready: bool = False
    text: str = ""


class StartState:
    """Start state of this process, in a directory that no other process uses. A context manager."""

    def __init__(self, directory: Path, text: str = "starting") -> None:
        """Raises OSError."""
        self._file = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._written = b""
        fcntl.flock(self._file, fcntl.LOCK_EX)  # others hold it for an instant only, in `observe`
        self.set(text)

    def set(self, text: str, *, is_ready: bool = False) -> None:
        """Record what the start waits for, or that it has finished. May be called often."""
        content = json.dumps({"ready": is_ready, "text": text}).encode()
        if content != self._written:
            self._written = content
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, content, 0)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def observe(directory: Path) -> ObservedStart:
    """Return the start state of the process that uses a directory. Raises OSError if the state cannot be read."""
    try:
        file = os.open(directory / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ObservedStart()
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        content = os.pread(file, LONGEST, 0)
    else:
        return ObservedStart()
    finally:
        os.close(file)
    try:
        found = json.loads(content)
        return ObservedStart(is_running=True, is_ready=bool(found["ready"]), text=str(found["text"]))
    except (ValueError, KeyError, TypeError):  # the file is being written
        return ObservedStart(is_running=True, text="starting")


def last_record(directory: Path) -> int:
    """Return when a start was last recorded there, in nanoseconds; 0 if never.

    Raises OSError if that cannot be read.
    """
    try:
        status = os.stat(directory / FILE)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return status.st_mtime_ns if status.st_size else 0
