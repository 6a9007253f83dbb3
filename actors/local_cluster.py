"""The cluster that run-kcm brings when it is given none: an API server and hollow nodes, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from runtime.embedded.launch import EmbeddedServer, launch

STOPPED_WITHIN = 5.0  # seconds


@dataclass(slots=True)
class LocalCluster:
    """Running; a context manager that ends both processes. nodes: None without hollow nodes."""

    server: EmbeddedServer
    nodes: subprocess.Popen[bytes] | None

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """With the administrator's token: 0600."""
        return self.server.kubeconfig

    def trouble(self) -> str | None:
        """Why it cannot be worked with any more, None while it can."""
        code = self.server.process.poll()
        if code is not None:
            return f"the embedded API server ended (exit code {code})"
        return None

    def stop(self) -> None:
        if self.nodes is not None:
            _end(self.nodes)
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_local_cluster(directory: Path, *, port: int, nodes: int, zones: int) -> LocalCluster:
    """Wait until the API server serves; the nodes come when they come. Raises LaunchError."""
    server = launch(directory, port=port)
    fleet = _start_nodes(server.kubeconfig, nodes=nodes, zones=zones) if nodes > 0 else None
    return LocalCluster(server, fleet)


def _start_nodes(kubeconfig: Path, *, nodes: int, zones: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "actors.hollow.process",
            f"--kubeconfig={kubeconfig}",
            f"--nodes={nodes}",
            f"--zones={zones}",
        ],
        stdin=subprocess.PIPE,
        env=dict(os.environ),
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(STOPPED_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
