"""What the command serves, and where: HTTPS by default, plain HTTP when it is asked for."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from actors.options import Options
from actors.options.configz import CONFIGZ_KEY, configuration, flag_values
from runtime.logs.configuration import LogControl
from runtime.metrics.registry import Metrics
from runtime.process.version import Version
from runtime.scheduling.clock import Clock
from runtime.serving.authorization import EverythingAllowed, PathsAllowed
from runtime.serving.certificates import server_context
from runtime.serving.health import HealthChecks
from runtime.serving.server import Listener, ServerThread
from runtime.serving.site import Site, build_application

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def build_server(
    options: Options,
    *,
    health: HealthChecks,
    metrics: Metrics,
    control: LogControl,
    version: Version,
    clock: Clock,
    log: FilteringBoundLogger,
) -> ServerThread | None:
    """A server to start and stop; None when nothing is to be served. Raises CertificateError."""
    site = Site(
        health=health,
        metrics=metrics,
        configuration=lambda: {CONFIGZ_KEY: configuration(options)},
        flags=lambda: flag_values(options),
        set_verbosity=control.set_verbosity,
        version=version,
        profiling=options.debugging.profiling,
        clock=clock,
        log=log,
        started=clock.now(),
    )
    listeners = []
    secure, plain = options.secure_serving, options.plain_http
    if secure.port:
        tls = server_context(
            certificate=secure.tls_cert_file,
            key=secure.tls_private_key_file,
            directory=secure.cert_dir,
            now=clock.now(),
            min_version=secure.tls_min_version,
        )
        allowed = PathsAllowed(options.authorization.always_allow_paths)
        listeners.append(
            Listener(
                application=build_application(site, allowed),
                host=secure.bind_address,
                port=secure.port,
                tls=tls,
                share_address=secure.permit_address_sharing,
                share_port=secure.permit_port_sharing,
            )
        )
    if plain is not None:
        host, port = plain
        local = ipaddress.ip_address(host).is_loopback
        application = build_application(site, EverythingAllowed(), local=local)
        listeners.append(Listener(application=application, host=host, port=port))
    return ServerThread(listeners, log=log) if listeners else None
