"""The way to an API server over HTTP, for a process of ours."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.client.api import Request
from runtime.client.config import ClientConfig, CredentialSource
from runtime.client.loading import load_config
from runtime.client.transport import HttpTransport
from runtime.client.user_agent import base_user_agent
from runtime.logs.standard_log import standard_log
from runtime.metrics.registry import Metrics
from runtime.process.ending import Ending
from runtime.process.version import this_version
from runtime.scheduling.clock import Clock, SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SERVER_WAIT = 10.0  # seconds for an API server to answer at the start, as upstream waits for it
POLL = 1.0


class ServerUnavailableError(Exception):
    """The API server does not answer, or does not let us in; the text is one line for the operator."""


def connect(
    config: ClientConfig,
    *,
    clock: Clock,
    metrics: Metrics,
    log: FilteringBoundLogger,
    accounts: Iterable[str] = (),
    others: Mapping[str, CredentialSource] | None = None,
) -> HttpTransport:
    """A started transport; to be closed by the caller. accounts: clients that act as service accounts of their name;
    others: as another user.

    Raises ConfigError when the TLS files are no good.
    """
    if not config.verify and config.server.startswith("https://"):
        log.warning("the server's certificate is not verified", server=config.server, config=config.origin)
    agent = base_user_agent(this_version().kcm, system=platform.system().lower(), machine=platform.machine())
    transport = HttpTransport(
        config, user_agent_base=agent, metrics=metrics, clock=clock, log=log, accounts=accounts, others=others
    )
    transport.start()
    return transport


def wait_for_server(
    transport: HttpTransport,
    config: ClientConfig,
    *,
    clock: Clock,
    stopping: Ending,
    waiting: Callable[[str, float], None] = lambda _why, _left: None,
) -> None:
    """Raises ServerUnavailableError if the server does not answer in time, or does not know us.

    waiting: called whenever it does not answer, with the reason, and for how many seconds it is asked again.
    """
    patience = SERVER_WAIT
    deadline = clock.monotonic() + SERVER_WAIT
    while True:
        # Discovery is for those whom the server knows; its health and version may be for anybody.
        response = transport.request(Request(method="GET", path="/api"), client="kcm", timeout=5.0)
        if response.status == 200:
            return
        if response.status in (401, 403):
            raise ServerUnavailableError(
                f"{config.server} does not let us in ({response.status}): check the credentials in {config.origin}"
            )
        why = response.error or f"it answered {response.status}"
        waiting(why, patience)
        patience = max(0.0, deadline - clock.monotonic())
        if clock.monotonic() >= deadline or stopping.wait(POLL):
            raise ServerUnavailableError(f"failed to wait for apiserver being healthy at {config.server}: {why}")


@contextmanager
def api_transport(
    kubeconfig: str | Path | None = None,
    *,
    metrics: Metrics | None = None,
    log: FilteringBoundLogger | None = None,
) -> Iterator[HttpTransport]:
    """The way to the server of a kubeconfig, without one to that of the pod's service account; closed at the end.

    Nothing is asked of the server yet. log: as ControllerSystem has it. Raises ConfigError.
    """
    clock = SystemClock()
    metrics = metrics if metrics is not None else Metrics()
    path = "" if kubeconfig is None else str(Path(kubeconfig).expanduser())
    config = load_config(kubeconfig=path, master=None, environ=os.environ, clock=clock, metrics=metrics)
    transport = connect(config, clock=clock, metrics=metrics, log=log if log is not None else standard_log("kcm"))
    try:
        yield transport
    finally:
        transport.close(timeout=2.0)
        clock.close()
