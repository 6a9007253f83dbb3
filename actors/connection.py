"""The way to an API server over HTTP, for a process of ours."""

from __future__ import annotations

import platform
import threading
from typing import TYPE_CHECKING

from runtime.api import Request
from runtime.client.config import ClientConfig
from runtime.client.transport import HttpTransport
from runtime.client.user_agent import base_user_agent
from runtime.clock import Clock
from runtime.metrics import Metrics
from runtime.version import this_version

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SERVER_WAIT = 10.0  # seconds for an API server to answer at the start, as upstream waits for it
POLL = 1.0


class ServerUnavailableError(Exception):
    """The API server does not answer, or does not let us in; the text is one line for the operator."""


def connect(config: ClientConfig, *, clock: Clock, metrics: Metrics, log: FilteringBoundLogger) -> HttpTransport:
    """A started transport; to be closed by the caller. Raises ConfigError when the TLS files are no good."""
    agent = base_user_agent(this_version().kcm, system=platform.system().lower(), machine=platform.machine())
    transport = HttpTransport(config, user_agent_base=agent, metrics=metrics, clock=clock, log=log)
    transport.start()
    return transport


def wait_for_server(transport: HttpTransport, config: ClientConfig, *, clock: Clock, stopping: threading.Event) -> None:
    """Raises ServerUnavailableError if the server does not answer in time, or does not know us."""
    deadline = clock.monotonic() + SERVER_WAIT
    while True:
        response = transport.request(Request(method="GET", path="/version"), client="kcm", timeout=5.0)
        if response.status == 200:
            return
        if response.status in (401, 403):
            raise ServerUnavailableError(
                f"{config.server} does not let us in ({response.status}): check the credentials in {config.origin}"
            )
        why = response.error or f"it answered {response.status}"
        if clock.monotonic() >= deadline or stopping.wait(POLL):
            raise ServerUnavailableError(f"failed to wait for apiserver being healthy at {config.server}: {why}")
