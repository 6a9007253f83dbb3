"""Files that only their owner can read, atomic writes, and directories that one process uses at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

LOCK = "lock"  # name of the lock file in the directory
GLANCE = 0.1  # seconds between two attempts to take a lock


class DirectoryInUseError(Exception):
    """Another process uses the directory. The text contains its process id."""


class UnsafeDirectoryError(Exception):
    """Another user owns or can write the directory or a file in it; the text is one line for the operator."""


def write_private(path: Path, content: bytes) -> None:
    """Write the file atomically, with mode 0600 from its first byte on: a reader sees the old content or the new.

    The file is durable: content and name are on disk when this returns. Raises OSError if the directory cannot be
        written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # left by a process with the same id that died while writing
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)  # the umask may have removed bits
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Flush the names in a directory to disk, if the file system supports that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse it for directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_private(path: Path) -> int:
    """Create a file with mode 0600, regardless of the umask, and return its descriptor for appending.

    Raises FileExistsError if the name exists, even as a dangling symbolic link: links are not followed.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def identity(path: Path) -> tuple[int, int] | None:
    """Return (device, inode) of the file, which change when the file is replaced, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def sole_use(directory: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Create the directory, mode 0700, unless it exists, and lock it against other processes.

    patience: seconds to wait for another process. The kernel releases the lock when a process ends or is killed.
    Raises DirectoryInUseError, and OSError if the directory cannot be created or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(descriptor, directory, patience=patience)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, directory: Path, *, patience: float = 0.0) -> None:
    """Lock the file. Raises DirectoryInUseError with the id of the process that holds the lock, from its first line."""
    waiting = threading.Event()
    for left in range(round(patience / GLANCE), -1, -1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as err:
            if left == 0:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").partition("\n")[0].strip()
                raise DirectoryInUseError(f"{directory} is in use by process {holder or '(unknown)'}") from err
        waiting.wait(GLANCE)


def refuse_foreign(directory: Path, *trusted: str) -> None:
    """Raise UnsafeDirectoryError if another user owns or can write the directory, or a file in it.

    trusted: patterns of the files to check. A planted token or key would let another user in. root may own all of them.
    """
    for path in (directory, *sorted(found for pattern in trusted for found in directory.glob(pattern))):
        status = path.stat()
        if status.st_uid not in (os.getuid(), 0):
            raise UnsafeDirectoryError(f"{path} belongs to another user (uid {status.st_uid})")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsafeDirectoryError(f"{path} can be written by others: chmod -R go-w {directory}")
