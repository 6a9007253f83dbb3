"""Python modules as child processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO


class ChildProcess:
    """Child process, which ends when its standard input is closed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def words(self) -> IO[bytes] | None:
        """Return its standard output, if it was started with `read`."""
        return self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self, within: float) -> None:
        """Close its standard input and wait; kill it after `within` seconds."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self.stop(0.0)


def start_module(module: str, arguments: Sequence[str], *, read: bool = False) -> ChildProcess:
    """Start `python -m module arguments` in a new session, so that Ctrl-C reaches only the parent.

    read: connect its standard output to a pipe, instead of sharing the parent's.
    """
    here = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}
    process = subprocess.Popen(
        # -P: do not import packages from the current directory.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if read else None,
        env=environment,
        start_new_session=True,
    )
    return ChildProcess(process)
