"""`run-kcm`: the command line of the controller manager.

Without a cluster given it starts one of its own (actors/local_cluster.py). Exit codes: 0 after a drained shutdown, 1
after anything else, with one line that says what was wrong.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from actors.catalogue import BUILT_IN
from actors.controller_system import ControllerSystem
from actors.elector import Election
from actors.names import UPSTREAM, aliases_of
from actors.options import InvalidOptions, Options, help_text, parse_options
from actors.version import KUBERNETES, VERSION
from runtime.api import Request
from runtime.client.config import ClientConfig, ConfigError
from runtime.client.in_cluster import is_in_cluster
from runtime.client.loading import load_config
from runtime.client.transport import HttpTransport
from runtime.client.user_agent import base_user_agent
from runtime.clock import SystemClock
from runtime.flags import FlagError
from runtime.logging import configure_logging, logger_for
from runtime.metrics import Metrics

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SERVER_WAIT = 10.0  # seconds for an API server to answer at the start, as upstream waits for it
POLL = 1.0


class StartError(Exception):
    """The command cannot begin its work; the text is one line for the operator."""


def main(argv: Sequence[str] | None = None) -> int:
    """The whole life of the process; answers its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    known = {name.canonical for name in UPSTREAM} | {spec.name for spec in BUILT_IN}
    try:
        options = parse_options(arguments, known_controllers=known, aliases=aliases_of(UPSTREAM))
    except FlagError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    except InvalidOptions as err:
        print(f"Error: {err}", file=sys.stderr)
        if "is not in the list of known controllers" in str(err):
            print(f"known controllers: {', '.join(sorted(known))}", file=sys.stderr)
        return 1
    if options.process.help:
        print(help_text(columns=shutil.get_terminal_size().columns))
        return 0
    if options.process.version in ("true", "raw"):
        print(f"Kubernetes {KUBERNETES} (kcm {VERSION})")
        return 0
    clock = SystemClock()
    try:
        control = configure_logging(options.logging.settings, now=clock.now)
    except OSError as err:
        print(f"Error: cannot write logs: {err}", file=sys.stderr)
        return 1
    log = logger_for("kcm")
    try:
        return run(options, clock=clock, environ=os.environ, log=log)
    except (StartError, ConfigError) as err:
        log.error("command failed", error=str(err))
        return 1
    except KeyboardInterrupt:
        return 1
    finally:
        control.close()
        clock.close()


def run(options: Options, *, clock: SystemClock, environ: Mapping[str, str], log: FilteringBoundLogger) -> int:
    """Connect, serve, lead and work, until a signal or the loss of the lease."""
    log.info("Starting", version=VERSION, kubernetes=KUBERNETES, pid=os.getpid())
    for warning in options.warnings:
        log.warning(warning)
    metrics = Metrics()
    stopping = _stop_on_signals()
    config = load_config(
        kubeconfig=options.client.kubeconfig,
        master=options.client.master,
        environ=environ,
        clock=clock,
        metrics=metrics,
    )
    transport = connect(config, clock=clock, metrics=metrics, log=log)
    try:
        wait_for_server(transport, config, clock=clock, stopping=stopping)
        system = ControllerSystem(
            transport=transport,
            log=log,
            options=options,
            election=election(options),
            clock=clock,
            metrics=metrics,
        )
        return work(system, stopping=stopping, log=log)
    finally:
        transport.close(timeout=2.0)


def needs_local_cluster(options: Options, environ: Mapping[str, str]) -> bool:
    return not options.client.kubeconfig and not options.client.master and not is_in_cluster(environ)


def connect(config: ClientConfig, *, clock: SystemClock, metrics: Metrics, log: FilteringBoundLogger) -> HttpTransport:
    agent = base_user_agent(VERSION, system=platform.system().lower(), machine=platform.machine())
    transport = HttpTransport(config, user_agent_base=agent, metrics=metrics, clock=clock, log=log)
    transport.start()
    return transport


def wait_for_server(
    transport: HttpTransport, config: ClientConfig, *, clock: SystemClock, stopping: threading.Event
) -> None:
    """Raises StartError if the server does not answer, or does not know us."""
    deadline = clock.monotonic() + SERVER_WAIT
    while True:
        response = transport.request(Request(method="GET", path="/version"), client="kcm", timeout=5.0)
        if response.status == 200:
            return
        if response.status in (401, 403):
            raise StartError(f"{config.server} does not let us in ({response.status}): check the credentials")
        why = response.error or f"it answered {response.status}"
        if clock.monotonic() >= deadline or stopping.wait(POLL):
            raise StartError(f"failed to wait for apiserver being healthy at {config.server}: {why}")


def election(options: Options) -> Election | None:
    """Raises StartError on timings that cannot work."""
    chosen = options.leader_election
    if not chosen.enabled:
        return None
    try:
        return Election(
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            lease_duration=chosen.lease_duration,
            renew_deadline=chosen.renew_deadline,
            retry_period=chosen.retry_period,
            namespace=chosen.resource_namespace,
            name=chosen.resource_name,
        )
    except ValueError as err:
        raise StartError(str(err)) from err


def work(system: ControllerSystem, *, stopping: threading.Event, log: FilteringBoundLogger) -> int:
    """Run the system until it ends or somebody wants it to."""
    built = {spec.name for spec in system.controllers}
    for name in UPSTREAM:
        if name.canonical not in built:
            log.debug("controller is not part of this release", controller=name.canonical)
    system.start()
    while system.wait(timeout=0.2) is None:
        if stopping.is_set():
            log.info("shutting down, asked by a signal")
            drained = system.stop(timeout=system.options.generic.controller_shutdown_timeout + 5.0)
            return 0 if drained else 1
    log.error(system.end or "ended")
    system.halt()
    return 1


def _stop_on_signals() -> threading.Event:
    """Set by SIGTERM or SIGINT; a second one ends the process at once."""
    stopping = threading.Event()

    def handle(number: int, _frame: object) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stopping


if __name__ == "__main__":
    sys.exit(main())
