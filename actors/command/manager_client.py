"""Client of the pages of a running manager, for `run-kcm ctl`, `run-kcm top` and `run-kcm why`.

with open_manager(arguments) as manager:
    states = manager.get("/controllers")
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.app.connection import connect
from kcm.actors.command.embedded_directory import MANAGER_KUBECONFIG
from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import ClientConfig, ConfigError, Credential, Pem
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.credentials import FixedCredential, bearer
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock

READ_WITHIN = 10.0  # seconds
CHANGED_WITHIN = 70.0  # seconds; the manager itself waits at most a minute


class ManagerError(Exception):
    """The manager did not do what was requested. The text is one line for the user. status: 0 without a response."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ManagerClient:
    """Requests to one manager. server: its URL."""

    def __init__(self, transport: HttpTransport, *, server: str) -> None:
        self._transport, self.server = transport, server

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the content of a page with JSON. Raises ManagerError."""
        request = Request(method="GET", path=path, query=query or {})
        return self._content(self._transport.request(request, client=OWN_CLIENT, timeout=READ_WITHIN))

    def post(self, path: str, settings: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None) -> Any:
        """Request a change. Raises ManagerError."""
        body = orjson.dumps(settings) if settings else b""
        request = Request(method="POST", path=path, query=query or {}, body=body)
        return self._content(self._transport.request(request, client=OWN_CLIENT, timeout=CHANGED_WITHIN))

    def _content(self, response: Response) -> Any:
        if not 200 <= response.status < 300:
            where = f" (from {self.server})" if response.status in (0, 401) else ""
            raise ManagerError(f"{response.problem}{where}", status=response.status)
        try:
            return orjson.loads(response.body)
        except ValueError as err:
            raise ManagerError(
                f"{self.server} did not respond with JSON: is it a kcm?", status=response.status
            ) from err


class ManagerAddress(Struct, frozen=True, kw_only=True):
    """Address of a manager and the credentials to use there, from flags; "" for a flag that is not given."""

    embedded_dir: str = EmbeddedServerOptions().directory
    server: str = ""
    kubeconfig: str = ""
    token: str = ""
    client_certificate: str = ""
    client_key: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False


def add_manager_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ManagerAddress to a command."""
    group = parser.add_argument_group("manager")
    group.add_argument(
        "--embedded-dir",
        default=EmbeddedServerOptions().directory,
        metavar="DIR",
        help="directory of the embedded cluster, as given to run-kcm, whose manager is used unless --server or "
        "--kubeconfig is given (default %(default)s)",
    )
    group.add_argument(
        "--server",
        default="",
        metavar="URL",
        help="secure port of the manager, as https://127.0.0.1:10257, with the credentials of the other flags",
    )
    group.add_argument(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="kubeconfig with the credentials; without --server, its server is the manager",
    )
    group.add_argument("--token", default="", help="bearer token, instead of the credentials of --kubeconfig")
    group.add_argument("--client-certificate", default="", metavar="FILE", help="certificate of the client, in PEM")
    group.add_argument("--client-key", default="", metavar="FILE", help="key of --client-certificate, in PEM")
    group.add_argument(
        "--certificate-authority", default="", metavar="FILE", help="authority of the manager's certificate, in PEM"
    )
    group.add_argument(
        "--insecure-skip-tls-verify", action="store_true", help="do not verify the manager's certificate"
    )


def manager_address(arguments: argparse.Namespace) -> ManagerAddress:
    return ManagerAddress(**{field: getattr(arguments, field) for field in ManagerAddress.__struct_fields__})


@contextmanager
def open_manager(arguments: argparse.Namespace) -> Iterator[ManagerClient]:
    """Open the client that the flags of add_manager_flags describe. Raises ManagerError."""
    clock, metrics = SystemClock(), Metrics()
    try:
        try:
            config = manager_config(manager_address(arguments), environ=os.environ, clock=clock, metrics=metrics)
            transport = connect(config, clock=clock, metrics=metrics, log=standard_log("kcm"))
        except ConfigError as err:
            raise ManagerError(str(err)) from err
        try:
            yield ManagerClient(transport, server=config.server)
        finally:
            transport.close(timeout=2.0)
    finally:
        clock.close()


def manager_config(
    address: ManagerAddress, *, environ: Mapping[str, str], clock: SystemClock, metrics: Metrics
) -> ClientConfig:
    """Return the settings of the connection. Raises ConfigError."""
    kubeconfig, server = address.kubeconfig, address.server
    if not kubeconfig and not server:
        path = Path(address.embedded_dir) / MANAGER_KUBECONFIG
        if not path.exists():
            raise ConfigError(
                f"no manager of an embedded cluster runs in {address.embedded_dir}: start run-kcm there, or name a "
                "manager with --server and its credentials"
            )
        kubeconfig = str(path)
    if server and "://" not in server:
        server = f"https://{server}"
    config = load_config(kubeconfig=kubeconfig, master=server, environ=environ, clock=clock, metrics=metrics)
    if bool(address.client_certificate) != bool(address.client_key):
        raise ConfigError("--client-certificate and --client-key are given together")
    if address.client_certificate:
        config = replace(
            config,
            certificate=Pem(origin="--client-certificate", path=address.client_certificate),
            key=Pem(origin="--client-key", path=address.client_key),
        )
    if address.token:
        authorization = bearer(address.token, origin="--token")
        config = replace(config, credentials=FixedCredential(Credential(authorization=authorization)))
    if address.certificate_authority:
        config = replace(config, ca=Pem(origin="--certificate-authority", path=address.certificate_authority))
    if address.insecure_skip_tls_verify:
        config = replace(config, ca=None, verify=False)
    return config
