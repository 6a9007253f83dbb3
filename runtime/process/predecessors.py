"""Names of earlier processes that used a directory and have ended, as proven by a lock that the kernel releases.

An earlier leader with this directory has ended, and writes nothing more, once its successor has the lock. So the
successor need not wait until the lease expires. It must wait for any other holder of the lease, which may be alive.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kcm.runtime.process.files import lock_file

FILE = "managers"  # in the directory: process id, then names, the newest first
REMEMBERED = 16  # a predecessor that never led leaves the lease with an earlier one


@contextlib.contextmanager
def succeed(directory: Path, name: str) -> Iterator[frozenset[str]]:
    """Lock the directory under this name, for this process alone, and yield the names of its earlier holders.

    The directory is created with mode 0700 if it is missing. Child processes do not inherit the lock. Raises
    DirectoryInUseError if another process holds it, and OSError if the directory cannot be created or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock_file(descriptor, directory)
        earlier = os.pread(descriptor, 1 << 16, 0).decode(errors="replace").splitlines()[1 : REMEMBERED + 1]
        # In one write, and before the name is used: the next reader has the lock, so this process has ended.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, "\n".join([str(os.getpid()), name, *earlier, ""]).encode(), 0)
        os.fsync(descriptor)
        yield frozenset(filter(None, earlier))
    finally:
        os.close(descriptor)
