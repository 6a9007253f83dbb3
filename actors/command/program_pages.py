"""Pages of a program that embeds a system: metrics, health, debug pages and the console."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kcm.actors.app.delegation import delegate
from kcm.actors.app.health import Check
from kcm.actors.app.serving import build_plain_server, build_server
from kcm.actors.app.system import ControllerSystem
from kcm.protocols.arguments import check_function, check_mapping, check_text, check_type
from kcm.runtime.metrics.meters import report_build
from kcm.runtime.process.version import this_version
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks

if TYPE_CHECKING:
    from kcm.actors.command.console import RunConsole

MOST_PORT = 65535
DESCRIPTORS = 1024  # default limit of file descriptors


class Pages(Struct, frozen=True):
    """Served pages; a context manager that stops the server.

    urls: one for each address.
    console: address that opens the console; "" without it.
    """

    urls: tuple[str, ...]
    console: str
    closing: ExitStack  # the server, and connections to the API servers that review requests

    @property
    def url(self) -> str:
        return self.urls[0]

    def stop(self) -> None:
        self.closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(
    system: ControllerSystem,
    address: str = "",
    *,
    checks: Mapping[str, Check] | None = None,
    console: bool = False,
) -> Pages:
    """Serve metrics (including the caller's own) and health pages from a separate thread.

    address: "127.0.0.1:9090" or "[::]:9090"; port 0 selects a free port. Serves /healthz, /metrics and /configz over
        plain HTTP without authentication. "" serves all pages of run-kcm as the flags in the system's options configure
        it (--secure-port, --bind-address, --tls-cert-file, --port, …), by default over HTTPS on port 10257.
    checks: additional health checks, by name: functions that return None, or the problem in one line.
    console: serve the web console as well, unless the options contain --console=false. With an address it is on another
        port of 127.0.0.1 (--console-port), for clients with the key of the link in `Pages.console`, which gives all
        rights. Otherwise it is below /console/ of the HTTPS port, for users that the API servers of
        --authentication-kubeconfig and --authorization-kubeconfig know and allow.

    Raises ValueError if the address is invalid, ServingError if it cannot be bound, TlsError; and with
    --authentication-kubeconfig or --authorization-kubeconfig in the options ConfigError and LookupFailedError.
    """
    check_type("serve", system, ControllerSystem, "a ControllerSystem")
    check_text("address of serve", address, may_be_empty=True)
    check_type("console of serve", console, bool, "True or False")
    if checks is not None:
        check_mapping("checks of serve", checks)
    for name, check in (checks or {}).items():
        check_function(f"the health check {name!r}", check)
    options, host_and_port = system.options, _host_and_port(address) if address else None
    shown = _console_of(system, has_link=bool(address)) if console and options.diagnosis.console else None
    health, version, debug = HealthChecks(log=system.log), this_version(), DebugPages()
    health.set({**system.checks(), **(checks or {})}, exists=system.has_check)
    debug.set(system)
    report_build(system.metrics, version, options.features, versions=options.versions)
    with ExitStack() as closing:
        if host_and_port is not None:
            server = build_plain_server(
                options,
                *host_and_port,
                health=health,
                debug=debug,
                metrics=system.metrics,
                version=version,
                clock=system.clock,
                log=system.log,
                console=shown.console if shown is not None else None,
                key=shown.key if shown is not None else None,
            )
        else:
            delegation = delegate(
                options,
                closing,
                environ=os.environ,
                clock=system.clock,
                metrics=system.metrics,
                log=system.log,
                wait=lambda _seconds: True,  # an application decides by itself whether to try again
            )
            built = build_server(
                options,
                delegation=delegation,
                health=health,
                debug=debug,
                metrics=system.metrics,
                set_verbosity=None,
                version=version,
                clock=system.clock,
                log=system.log,
                descriptors=DESCRIPTORS,
                embeds_cluster=False,
                console=shown.console if shown is not None else None,
            )
            if built is None:
                raise ValueError("the system's options disable both ports: pass an address")
            server = built
        server.start()
        closing.callback(server.stop)
        urls, way_in = server.urls, ""
        if shown is not None:
            closing.callback(shown.console.close)
            shown.serve_at(urls[-1])
            way_in = shown.link or urls[0] + shown.console.prefix
            urls = urls[:-1] if shown.key is not None else urls
        return Pages(urls, way_in, closing.pop_all())


def _console_of(system: ControllerSystem, *, has_link: bool) -> RunConsole:
    """Return the console of a system. has_link: a key opens it. Raises ValueError."""
    if not has_link and not system.options.secure_serving.port:
        raise ValueError("the console needs --secure-port or an address")
    from kcm.actors.command.console import open_console  # few programs have one

    console = open_console(has_link=has_link, log=system.log)
    console.fill(system)
    return console


def _host_and_port(address: str) -> tuple[str, int]:
    """Parse an address such as 127.0.0.1:9090 or [::]:9090. Raises ValueError."""
    host, _, port = address.rpartition(":")
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        found = None
    if found is None or not port.isdecimal() or int(port) > MOST_PORT or (":" in host) != host.startswith("["):
        raise ValueError(f"not an IP address and a port, as 127.0.0.1:9090 or [::]:9090 are: {address!r}")
    return str(found), int(port)
