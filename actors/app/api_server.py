"""API server without controllers and nodes, for tests of controllers and clients in any library.

with ApiServer() as server:
    kubernetes.config.load_kube_config(str(server.kubeconfig))
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import FULL, ServerSettings


class ApiServer:
    """API server in a child process, without controllers and nodes. `LocalCluster` has nodes as well.

    It serves from `start` to `stop`, which `with` calls. It ends with this process, however that ends.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        port: int = 0,
        durability: str = FULL,
        quiet: bool = True,
        collect_garbage: bool = True,
        empty_namespaces: bool = True,
        service_ranges: Sequence[str] = (),
        account_key_file: str = "",
    ) -> None:
        """Create the server without starting it. The other parameters are those of LocalCluster.start.

        directory: where objects are stored and loaded from; None keeps them in memory.
        """
        self._directory = None if directory is None else Path(directory).expanduser().resolve()
        self._port, self._durability, self._quiet = port, durability, quiet
        self._collect_garbage, self._empty_namespaces = collect_garbage, empty_namespaces
        self._service_ranges, self._account_key_file = tuple(service_ranges), account_key_file
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._server: EmbeddedServer | None = None

    def start(self) -> Self:
        """Start the server and return once it serves. Raises LaunchError, and RuntimeError if it runs already."""
        if self._server is not None:
            raise RuntimeError("this API server runs already")
        directory = self._directory
        if directory is None:  # certificates and the kubeconfig are files in any case
            self._temporary = tempfile.TemporaryDirectory(prefix="kcm-apiserver-")
            directory = Path(self._temporary.name)
        try:
            settings = ServerSettings(
                directory=directory,
                port=self._port,
                in_memory=self._directory is None,
                durability=self._durability,
                quiet=self._quiet,
                collect_garbage=self._collect_garbage,
                empty_namespaces=self._empty_namespaces,
                service_ranges=self._service_ranges,
                account_key_file=self._account_key_file,
            )
            self._server = launch(settings)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Shut the server down gracefully. Repeated calls have no effect."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()

    @property
    def url(self) -> str:
        return self._running.url

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the kubeconfig, which contains the administrator's token; its mode is 0600."""
        return self._running.kubeconfig

    @property
    def _running(self) -> EmbeddedServer:
        if self._server is None:
            raise RuntimeError("this API server does not run: use it in a `with` block, or call start()")
        return self._server

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
