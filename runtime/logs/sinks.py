"""Destinations of log lines: standard error, standard output and rotated files."""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import socket
import threading
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from kcm.runtime.logs.settings import KLOG_FILE_SIZE
from kcm.runtime.process.files import create_private
from kcm.runtime.process.standard_streams import ERASE, is_terminal, write_or_forget

PROGRAM = "kcm"
OTHER_NAMES = 100  # names to try for a log file
FILE_SEVERITIES = ("INFO", "WARNING", "ERROR")
RANKS = {
    "debug": 0,
    "info": 0,
    "warning": 1,
    "error": 2,
    "critical": 2,
}  # index of the last file in FILE_SEVERITIES that a line is written to
LARGEST_BUFFER = 2 * 1024**3  # bytes, as upstream


class BufferedOutput:
    """Stream whose lines are collected in a buffer, so that many of them are one write. Not thread-safe.

    size: bytes of the buffer. A line is never divided: if it does not fit, the buffer is written first. 0 writes each
    line at once.

    Source: kubernetes v1.36 staging/src/k8s.io/component-base/logs/api/v1/text.go, bufferedWriter.
    """

    def __init__(self, stream: TextIO, size: int) -> None:
        self._stream = stream
        self._size = min(max(size, 0), LARGEST_BUFFER)
        self._lines: list[str] = []
        self._used = 0

    def write(self, text: str) -> None:
        length = len(text.encode(errors="replace"))
        if self._used + length > self._size:
            self.flush()
        if length > self._size:
            write_or_forget(self._stream, text)
            return
        self._lines.append(text)
        self._used += length

    def flush(self) -> None:
        if self._lines:
            write_or_forget(self._stream, "".join(self._lines))
            self._lines.clear()
            self._used = 0

    def close(self) -> None:
        """Write the buffer, and later lines at once."""
        self.flush()
        self._size = 0


class LogFile:
    """Log file that is replaced when it has reached its largest size. A line that cannot be written is dropped.

    open: opens the file, or its successor if the argument is False, and returns its descriptor. Raises OSError.
    largest: bytes; 0 for no limit.

    Source: klog v2, syncBuffer. klog neither watches the file for a rename nor reopens it on a signal; an external
    rotation must copy and truncate it (logrotate's copytruncate), which works because the file is opened for appending.
    """

    def __init__(self, open: Callable[[bool], int], *, largest: int) -> None:
        self._open, self._largest = open, largest
        self.descriptor = open(True)
        self._written = os.fstat(self.descriptor).st_size

    def write(self, data: bytes) -> None:
        if self._largest and self._written + len(data) >= self._largest:
            # The old file stays in use if its successor cannot be created; klog ends the process.
            with contextlib.suppress(OSError):
                self._replace()
        with contextlib.suppress(OSError):  # a disk that is full now may have room for a later line
            self._written += os.write(self.descriptor, data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def _replace(self) -> None:
        successor = self._open(False)
        self.close()
        self.descriptor, self._written = successor, 0


class Sink:
    """Destination of log lines. Lines are written whole, from any thread.

    stderr: None to write to files only.
    directory: of a file for each severity, which also contains the lines of higher severities; "" for none.
    file: path of one file for all lines, used instead of the directory; "" for none.
    largest: bytes after which a file is replaced; 0 for no limit. In a directory the successor has a new name; the
        single file is emptied, as klog does.
    quiet: standard error receives only warnings and errors.
    stdout: stream of the lines with one of the levels in `to_stdout`; None to write all to stderr.
    buffer_size: bytes of lines for stdout that are kept until flush().

    troubles: links that could not be created, with the error.

    Raises OSError if the directory or file cannot be written when the sink is created. A line that cannot be written
    later is dropped, so that logging never fails. Only the owner can read the files: they contain names of objects, and
    the directory may be /tmp.
    """

    def __init__(
        self,
        *,
        stderr: TextIO | None,
        directory: str,
        now: Callable[[], float],
        file: str = "",
        largest: int = KLOG_FILE_SIZE,
        quiet: bool = False,
        stdout: TextIO | None = None,
        to_stdout: Collection[str] = (),
        buffer_size: int = 0,
    ) -> None:
        self._lock = threading.Lock()
        self._stderr = stderr
        # On a terminal a log line may overwrite a status line, which may be longer.
        self._before = ERASE if stderr is not None and is_terminal(stderr) else ""
        self._stdout = BufferedOutput(stdout, buffer_size) if stdout is not None and stderr is not None else None
        self._to_stdout = frozenset(to_stdout) if self._stdout is not None else frozenset()
        self.quiet = quiet
        self._directory = Path(directory)
        self._files: list[LogFile] = []
        self._now = now
        self.troubles: list[tuple[str, OSError]] = []
        if file:
            self._files = [LogFile(lambda is_first: _open_single(file, keep=is_first), largest=largest)]
        elif directory:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._files = [
                LogFile(lambda _, severity=severity: self._open(severity), largest=largest)  # type: ignore[misc]
                for severity in FILE_SEVERITIES
            ]

    def takes(self, level: str) -> bool:
        """Report whether a line of this level is written anywhere."""
        return bool(self._files) or (self._stderr is not None and not (self.quiet and RANKS[level] == 0))

    def write(self, level: str, line: str) -> None:
        text = line + "\n"
        with self._lock:
            if self._stdout is not None and level in self._to_stdout:
                if not self.quiet:
                    self._stdout.write(text)
            elif self._stderr is not None and not (self.quiet and RANKS[level] == 0):
                write_or_forget(self._stderr, self._before + text)
            if self._files:
                data = text.encode(errors="replace")
                for file in self._files[: RANKS[level] + 1]:
                    file.write(data)

    def flush(self) -> None:
        """Write the lines in the buffer."""
        if self._stdout is not None:
            with self._lock:
                self._stdout.flush()

    def close(self) -> None:
        """Close the files. Later lines go to the standard streams, at once."""
        with self._lock:
            if self._stdout is not None:
                self._stdout.close()
            for file in self._files:
                file.close()
            self._files = []

    def _open(self, severity: str) -> int:
        """Open a new file, named like klog's, and create a link to it, <program>.<SEVERITY>."""
        begun = datetime.fromtimestamp(self._now(), tz=UTC).astimezone()
        host = socket.gethostname().partition(".")[0]
        name = f"{PROGRAM}.{host}.{getpass.getuser()}.log.{severity}.{begun:%Y%m%d-%H%M%S}.{os.getpid()}"
        name, descriptor = self._create(name)
        link = self._directory / f"{PROGRAM}.{severity}"
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(name)
        except OSError as err:  # the link belongs to another user, in a shared directory; the file exists without it
            self.troubles.append((str(link), err))
        return descriptor

    def _create(self, name: str) -> tuple[str, int]:
        """Create a file of this name, or with a free suffix: another user may have created a file of that name."""
        for suffix in ("", *(f".{number}" for number in range(1, OTHER_NAMES))):
            with contextlib.suppress(FileExistsError):
                return name + suffix, create_private(self._directory / (name + suffix))
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._directory / name))


def _open_single(path: str, *, keep: bool) -> int:
    """Open a log file for appending. keep: do not empty an existing file."""
    truncate = 0 if keep else os.O_TRUNC
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | truncate, 0o600)
