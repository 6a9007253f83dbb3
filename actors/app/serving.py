"""Server of metrics, health and debug pages: as flags configure it, or with `serve` in an embedding program."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kcm.actors.app.delegation import Delegation, delegate
from kcm.actors.app.health import Check
from kcm.actors.app.system import ControllerSystem
from kcm.actors.options import Options
from kcm.actors.options.configz import CONFIGZ_KEY, OWN_KEY, configuration, flag_values, own_configuration
from kcm.protocols.arguments import check_function, check_mapping, check_text, check_type
from kcm.runtime.http.server.bounded_connections import ConnectionLimits
from kcm.runtime.metrics.meters import report_build
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version, this_version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.authentication import ByCertificate, CertificateOrToken, PageAuthenticator
from kcm.runtime.serving.authorization import EverythingAllowed, PathsAllowed
from kcm.runtime.serving.console.pages import Console, LinkKey
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.profiling import Profiler
from kcm.runtime.serving.server import PageListener, ServerThread, connections_of
from kcm.runtime.serving.site import Site, build_application
from kcm.runtime.serving.tls import NamedPair, ServingTls, TlsSettings

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOPBACK = "127.0.0.1"
MOST_PORT = 65535
DESCRIPTORS = 1024  # default limit of file descriptors


class Pages(Struct, frozen=True):
    """Served pages; a context manager that stops the server."""

    urls: tuple[str, ...]  # one for each address
    server: ServerThread
    closing: ExitStack  # connections to the API servers that review requests

    @property
    def url(self) -> str:
        return self.urls[0]

    def stop(self) -> None:
        self.server.stop()
        self.closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(system: ControllerSystem, address: str = "", *, checks: Mapping[str, Check] | None = None) -> Pages:
    """Serve metrics (including the caller's own) and health pages from a separate thread.

    address: "127.0.0.1:9090" or "[::]:9090"; port 0 selects a free port. Serves /healthz, /metrics and /configz over
        plain HTTP without authentication. "" serves all pages of run-kcm as the flags in the system's options configure
        it (--secure-port, --bind-address, --tls-cert-file, --port, …), by default over HTTPS on port 10257.
    checks: additional health checks, by name: functions that return None, or the problem in one line.

    Raises ValueError if the address is invalid, ServingError if it cannot be bound, TlsError; and with
    --authentication-kubeconfig or --authorization-kubeconfig in the options ConfigError and LookupFailedError.
    """
    check_type("serve", system, ControllerSystem, "a ControllerSystem")
    check_text("address of serve", address, may_be_empty=True)
    if checks is not None:
        check_mapping("checks of serve", checks)
    for name, check in (checks or {}).items():
        check_function(f"the health check {name!r}", check)
    health, version = HealthChecks(log=system.log), this_version()
    health.set({**system.checks(), **(checks or {})}, exists=system.has_check)
    report_build(system.metrics, version, system.options.features, versions=system.options.versions)
    with ExitStack() as closing:
        if address:
            site = _site(
                system.options,
                health=health,
                metrics=system.metrics,
                set_verbosity=None,
                version=version,
                profiling=False,
                clock=system.clock,
                log=system.log,
            )
            server = ServerThread([_plain(site, *_host_and_port(address))], log=system.log)
        else:
            debug = DebugPages()
            debug.set(system)
            delegation = delegate(
                system.options,
                closing,
                environ=os.environ,
                clock=system.clock,
                metrics=system.metrics,
                log=system.log,
                wait=lambda _seconds: True,  # an application decides by itself whether to try again
            )
            built = build_server(
                system.options,
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
            )
            if built is None:
                raise ValueError("the system's options disable both ports: pass an address")
            server = built
        server.start()
        return Pages(server.urls, server, closing.pop_all())


def build_server(
    options: Options,
    *,
    delegation: Delegation = Delegation(),  # noqa: B008 it is frozen
    health: HealthChecks,
    debug: DebugPages,
    metrics: Metrics,
    set_verbosity: Callable[[int], None] | None,
    version: Version,
    clock: Clock,
    log: FilteringBoundLogger,
    descriptors: int,
    embeds_cluster: bool,
    console: Console | None = None,
    key: LinkKey | None = None,
) -> ServerThread | None:
    """Return a server that is not started yet, or None if no port is configured. Raises TlsError.

    debug: debug pages of controllers.
    set_verbosity: changes the log level; None if the application configures the logs.
    descriptors: maximum number of file descriptors of this process.
    embeds_cluster: serve HTTPS on loopback only, and on a free port if the default port is taken, unless flags give
        address and port.
    console: see Site.
    key: opens the console over HTTP on loopback, by the last of the server's listeners; None: there is no such one.
    """
    site = _site(
        options,
        health=health,
        debug=debug,
        console=console,
        metrics=metrics,
        set_verbosity=set_verbosity,
        version=version,
        profiling=options.debugging.profiling,
        clock=clock,
        log=log,
    )
    listeners = []
    secure, plain = options.secure_serving, options.plain_http
    if secure.port:
        published = delegation.published
        tls = ServingTls(
            _tls_settings(options),
            clock=clock,
            log=log,
            published=None if published is None else published.authorities,
        )
        allowed = PathsAllowed(options.authorization.always_allow_paths, otherwise=delegation.access)
        known: PageAuthenticator = ByCertificate(
            clients=tls.clients,
            proxies=tls.proxies,
            headers=partial(delegation.headers, options),
            now=clock.now,
            metrics=metrics,
        )
        if delegation.tokens is not None:
            known = CertificateOrToken(known, delegation.tokens)
        listeners.append(
            PageListener(
                application=build_application(site, allowed, authenticator=known),
                host=LOOPBACK if embeds_cluster and "bind-address" not in options.given else secure.bind_address,
                port=secure.port,
                or_free_port=embeds_cluster and "secure-port" not in options.given,
                tls=tls.context,
                share_port=secure.permit_port_sharing,
                flag="--secure-port",
            )
        )
    if plain is not None:
        listeners.append(_plain(site, *plain, flag="--port"))
    if key is not None:
        allowed = PathsAllowed(options.authorization.always_allow_paths)
        application = build_application(site, allowed, authenticator=key, local=True)
        port = options.diagnosis.console_port
        listeners.append(PageListener(application=application, host=LOOPBACK, port=port, flag="--console-port"))
    if not listeners:
        return None
    return ServerThread(listeners, log=log, bounds=ConnectionLimits(most=connections_of(descriptors)))


def _site(
    options: Options,
    *,
    health: HealthChecks,
    metrics: Metrics,
    set_verbosity: Callable[[int], None] | None,
    version: Version,
    profiling: bool,
    clock: Clock,
    log: FilteringBoundLogger,
    debug: DebugPages | None = None,
    console: Console | None = None,
) -> Site:
    pages = debug if debug is not None else DebugPages()
    return Site(
        health=health,
        metrics=metrics,
        configuration=lambda: {CONFIGZ_KEY: configuration(options), OWN_KEY: own_configuration(options)},
        flags=lambda: flag_values(options),
        set_verbosity=set_verbosity,
        version=version,
        emulated=str(options.versions.emulation),
        profiling=profiling,
        clock=clock,
        log=log,
        started=clock.now(),
        flagz=options.feature_gates["ComponentFlagz"],
        statusz=options.feature_gates["ComponentStatusz"],
        debug=debug,
        console=console,
        profiler=Profiler(clock=clock, activities=pages.activities, waits=pages.waits),
    )


def _plain(site: Site, host: str, port: int, *, flag: str = "") -> PageListener:
    local = ipaddress.ip_address(host).is_loopback
    return PageListener(
        application=build_application(site, EverythingAllowed(), local=local), host=host, port=port, flag=flag
    )


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


def _tls_settings(options: Options) -> TlsSettings:
    secure, authentication = options.secure_serving, options.authentication
    return TlsSettings(
        certificate=secure.tls_cert_file,
        key=secure.tls_private_key_file,
        directory=secure.cert_dir,
        named=tuple(
            NamedPair(certificate=certificate, key=key, names=names)
            for certificate, key, names in secure.tls_sni_cert_key
        ),
        min_version=secure.tls_min_version,
        cipher_suites=secure.tls_cipher_suites,
        curves=secure.tls_curve_preferences,
        clients=authentication.client_ca_file,
        proxies=authentication.requestheader_client_ca_file,
    )
