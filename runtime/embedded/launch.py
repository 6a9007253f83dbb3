"""Starts the embedded API server as a child process, and ends it: the other side of process.py."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from select import select

MODULE = "runtime.embedded.process"
READY_WITHIN = 30.0  # seconds
STOPPED_WITHIN = 15.0  # seconds


class LaunchError(Exception):
    """The server did not start; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A running server. kubeconfig: how to reach it. It ends with us, or earlier by stop()."""

    url: str
    kubeconfig: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Let it finish what it has, and wait for its end; a server that does not end is killed."""
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def launch(directory: Path, *, port: int = 0, ready_within: float = READY_WITHIN) -> EmbeddedServer:
    """Start a server on a directory and wait until it serves. Raises LaunchError.

    It is in a session of its own, so that Ctrl-C reaches only us, and we still have it while we shut down.
    """
    # -P: no directory that happens to be the current one may stand in for our packages.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, "--until-stdin-closes", f"--dir={directory}", f"--port={port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,
    )
    words = _first_words(process, ready_within)
    if "url" in words:
        return EmbeddedServer(url=words["url"], kubeconfig=Path(words["kubeconfig"]), process=process)
    process.kill()
    process.communicate()
    raise LaunchError(f"the embedded API server did not start: {words['error']}")


def _environment() -> dict[str, str]:
    """Ours, and the way to our own packages, installed or not."""
    here = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}


def _first_words(process: subprocess.Popen[bytes], within: float) -> dict[str, str]:
    """What the process says of itself, once it says something."""
    assert process.stdout is not None
    if not select([process.stdout], [], [], within)[0]:
        return {"error": f"no sign of life for {within:g} s"}
    line = process.stdout.readline()
    try:
        words = json.loads(line)
    except ValueError:
        return {"error": f"exit code {process.wait()}" if not line else f"unexpected output: {line!r}"}
    return {str(key): str(value) for key, value in words.items()}
