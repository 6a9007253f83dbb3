"""Connection of a process to an API server."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.client.api import Request
from kcm.runtime.client.config import ClientConfig, CredentialSource
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.client.request_form import UserAgents, program_or_error
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.families import (
    CERTIFICATE_ROTATION_GC,
    EXEC_PLUGIN_CERTIFICATE_AGE,
    EXEC_PLUGIN_TTL,
    TRANSPORT_CALLS,
    TRANSPORTS,
)
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.termination import Ending
from kcm.runtime.process.version import this_version
from kcm.runtime.scheduling.clock import Clock, SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OWN_PROGRAM = "kcm"  # commands of kcm such as --apply, and programs without a name of their own
SERVER_WAIT = 10.0  # seconds within which an API server must respond at the start, as upstream
POLL = 1.0


class ServerUnavailableError(Exception):
    """The API server does not respond, or rejects our credentials. The text is one line for the operator."""


def connect(
    config: ClientConfig,
    *,
    clock: Clock,
    metrics: Metrics,
    log: FilteringBoundLogger,
    accounts: Iterable[str] = (),
    others: Mapping[str, CredentialSource] | None = None,
    program: str = OWN_PROGRAM,
    programs: Mapping[str, tuple[str, str]] | None = None,
) -> HttpTransport:
    """Return a started transport, which the caller closes.

    accounts: clients that act as the service account of their name.
    others: clients that act as another user.
    program: name that API servers record as the field manager of writes.
    programs: clients whose requests are those of another program, with its suffix in the user agent; see UserAgents.

    Raises ConfigError if the TLS files are invalid, ValueError if the name of a program is invalid.
    """
    if not config.verify and config.server.startswith("https://"):
        log.warning("the server's certificate is not verified", server=config.server, config=config.origin)
    agents = user_agents(program, {OWN_CLIENT: (OWN_PROGRAM, ""), **(programs or {})})
    transport = HttpTransport(
        config, agents=agents, metrics=metrics, clock=clock, log=log, accounts=accounts, others=others
    )
    transport.start()
    metrics.gauge(EXEC_PLUGIN_TTL).set(math.inf)  # shown unless an exec plugin prints certificates
    metrics.histogram(EXEC_PLUGIN_CERTIFICATE_AGE)
    metrics.counter(CERTIFICATE_ROTATION_GC)  # stays 0: transports are closed, not garbage collected
    metrics.gauge(TRANSPORTS).inc()
    metrics.counter(TRANSPORT_CALLS, "miss").inc()
    return transport


def user_agents(program: str, programs: Mapping[str, tuple[str, str]]) -> UserAgents:
    """Return the user agents of a program of this version. Raises ValueError if its name cannot be a field manager."""
    version = this_version()
    return UserAgents(
        program=program_or_error(program),
        version=version.git_version,
        platform=version.platform,
        commit=f"kcm-{version.kcm}",
        programs=programs,
    )


def wait_for_server(
    transport: HttpTransport,
    config: ClientConfig,
    *,
    clock: Clock,
    stopping: Ending,
    waiting: Callable[[str, float], None] = lambda _why, _left: None,
) -> None:
    """Wait for the server. Raises ServerUnavailableError if it does not respond in time, or rejects our credentials.

    waiting: called after each failed request with the reason and the number of seconds that are left.
    """
    patience = SERVER_WAIT
    deadline = clock.monotonic() + SERVER_WAIT
    while True:
        # Discovery needs authentication; /healthz and /version may be open to anonymous users.
        response = transport.request(Request(method="GET", path="/api"), client=OWN_CLIENT, timeout=5.0)
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
    program: str = OWN_PROGRAM,
    context: str = "",
) -> Iterator[HttpTransport]:
    """Connect to the server of a kubeconfig, or without one to the server of the pod; close the connection at the end.

    log: see ControllerSystem.
    program: the name that API servers record as the field manager of writes, and that audit logs show in the user
        agent, before its first slash.
    context: of the kubeconfig; empty: its current one.

    No request is sent yet. Raises ConfigError, and ValueError if program cannot be a field manager.
    """
    program_or_error(program)
    clock = SystemClock()
    metrics = metrics if metrics is not None else Metrics()
    path = "" if kubeconfig is None else str(Path(kubeconfig).expanduser())
    config = load_config(
        kubeconfig=path, master=None, context=context, environ=os.environ, clock=clock, metrics=metrics
    )
    transport = connect(
        config, clock=clock, metrics=metrics, log=log if log is not None else standard_log("kcm"), program=program
    )
    try:
        yield transport
    finally:
        transport.close(timeout=2.0)
        clock.close()
