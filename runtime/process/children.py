"""Python modules as child processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from select import select
from typing import IO


class ChildProcess:
    """Child process, which ends when its standard input is closed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._requesting = threading.Lock()
        self._requested = self._responded = 0  # numbers of the last request, and of the last response

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

    def request(self, body: bytes, within: float) -> bytes | None:
        """Return the response of a child that was started with `read` and responds (termination.with_parent).

        body: one line, without its end.
        within: seconds; afterwards the result is None. It is None as well while an earlier request has no response, and
            for an empty response.
        """
        given, taken = self._process.stdin, self._process.stdout
        if given is None or taken is None or not self._requesting.acquire(timeout=within):
            return None
        try:
            while self._responded < self._requested and select([taken], [], [], 0.0)[0]:
                self._take(taken)
            if self._responded < self._requested:
                return None
            self._requested += 1
            given.write(b"%d %s\n" % (self._requested, body))
            given.flush()
            return self._take(taken) if select([taken], [], [], within)[0] else None
        except (OSError, ValueError):  # it has ended, or is being stopped
            return None
        finally:
            self._requesting.release()

    def _take(self, taken: IO[bytes]) -> bytes | None:
        """Read one response, which the child writes in one piece. Raises ValueError if it has ended."""
        number, _, response = taken.readline().rstrip(b"\n").partition(b" ")
        self._responded = int(number)
        return response or None

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
