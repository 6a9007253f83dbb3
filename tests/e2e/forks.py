"""Runs of the command in forks of a process that has imported its modules, for runs that end after a moment.

Most of the CPU time of such a run is for imports.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.programs import PATIENCE, ROOT

FORKING = """
import json, os, runpy, sys
import kcm.actors.command.main, kcm.actors.command.run_setup, kcm.actors.controllers.built_in
for line in sys.stdin:
    arguments, *files = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in enumerate((os.devnull, *files)):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
        sys.argv[1:] = arguments
        runpy.run_module("kcm.actors.command", run_name="__main__", alter_sys=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    """Running process that forks. directory: for the output of the forks."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self._process, self._directory, self._runs = process, directory, 0

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `run-kcm` with these arguments to its end, and return its exit code and output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._runs += 1
        files = [self._directory / f"{self._runs}.{name}" for name in ("stdout", "stderr")]
        self._process.stdin.write(json.dumps([arguments, *map(str, files)]) + "\n")
        self._process.stdin.flush()
        ended, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert ended, f"{arguments} did not end within {PATIENCE:g} s:\n{files[1].read_text()}"
        code = int(self._process.stdout.readline())
        output, errors = (file.read_text() for file in files)
        return subprocess.CompletedProcess(arguments, code, output, errors)


@contextmanager
def forking(directory: Path) -> Iterator[Forks]:
    command = [sys.executable, "-P", "-c", FORKING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield Forks(process, directory)
        finally:
            process.kill()  # its forks have ended, unless a test has failed
