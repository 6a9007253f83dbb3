"""File of the audit log, with rotation.

A file that would exceed its maximum size is renamed after the current time: audit-2026-01-02T03-04-05.678.log. Rotated
files are deleted after a maximum age, or if there are more than a maximum number.

Source: gopkg.in/natefinch/lumberjack.v2, as kube-apiserver uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

MEGABYTE = 1024 * 1024


class AuditFile:
    def __init__(
        self, path: Path, *, now: Callable[[], float], max_size: int = 100, max_age: int = 0, max_backups: int = 0
    ) -> None:
        """Open the file for appending. Raises OSError.

        now: returns the current time in Unix seconds
        max_size: size in megabytes at which the file is rotated; 0 for 100
        max_age: days to keep rotated files; 0 for no limit
        max_backups: number of rotated files to keep; 0 for no limit
        """
        self._path, self._now = path, now
        self._max_size, self._max_age, self._max_backups = (max_size or 100) * MEGABYTE, max_age, max_backups
        self._file = self._open()

    def write(self, line: bytes) -> None:
        """Append a line. Rotates the file first if it would exceed the maximum size. Raises OSError."""
        if self._size + len(line) > self._max_size and self._size:
            self._rotate()
        os.write(self._file, line)
        self._size += len(line)

    def close(self) -> None:
        os.close(self._file)

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(file).st_size
        return file

    def _rotate(self) -> None:
        os.close(self._file)
        at = datetime.fromtimestamp(self._now(), UTC)
        timestamp = at.strftime("%Y-%m-%dT%H-%M-%S.") + f"{at.microsecond // 1000:03d}"
        self._path.rename(self._path.with_name(f"{self._path.stem}-{timestamp}{self._path.suffix}"))
        self._file = self._open()
        backups = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
        limit = at - timedelta(days=self._max_age)
        oldest = f"{self._path.stem}-{limit.strftime('%Y-%m-%dT%H-%M-%S')}"
        keep = backups[-self._max_backups :] if self._max_backups else backups
        for rotated in backups:
            if rotated not in keep or (self._max_age and rotated.name < oldest):
                rotated.unlink(missing_ok=True)
