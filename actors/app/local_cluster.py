"""The cluster that run-kcm brings when it is given none: an API server and hollow nodes, each a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from runtime.apiserver.process.launch import EmbeddedServer, launch
from runtime.process.children import Child, start_module

STOPPED_WITHIN = 5.0  # seconds


@dataclass(slots=True)
class LocalCluster:
    """Running; a context manager that ends both processes. nodes: None without hollow nodes."""

    server: EmbeddedServer
    nodes: Child | None

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """With the administrator's token: 0600."""
        return self.server.kubeconfig

    def trouble(self) -> str | None:
        """Why it cannot be worked with any more, None while it can."""
        code = self.server.child.exit_code
        if code is not None:
            return f"the embedded API server ended (exit code {code})"
        return None

    def stop(self) -> None:
        if self.nodes is not None:
            self.nodes.stop(STOPPED_WITHIN)
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_local_cluster(
    directory: Path, *, port: int, nodes: int, zones: int, log_format: str = "text"
) -> LocalCluster:
    """Wait until the API server serves; the nodes come when they come. log_format: "text" or "json".

    Raises LaunchError.
    """
    server = launch(directory, port=port, log_format=log_format)
    fleet = None
    if nodes > 0:
        told = [f"--kubeconfig={server.kubeconfig}", f"--nodes={nodes}", f"--zones={zones}"]
        told.append(f"--logging-format={log_format}")
        fleet = start_module("actors.hollow.process", told)
    return LocalCluster(server, fleet)
