"""Servers of metrics, health and debug pages: as flags configure them, or at one address."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kcm.actors.app.delegation import Delegation
from kcm.actors.options import Options
from kcm.actors.options.configz import CONFIGZ_KEY, OWN_KEY, configuration, flag_values, own_configuration
from kcm.runtime.http.server.bounded_connections import ConnectionLimits
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.authentication import ByCertificate, CertificateOrToken, PageAuthenticator
from kcm.runtime.serving.authorization import EverythingAllowed, PathsAllowed
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.profiling import Profiler
from kcm.runtime.serving.server import PageListener, ServerThread, connections_of
from kcm.runtime.serving.site import Site, build_application
from kcm.runtime.serving.tls import NamedPair, ServingTls, TlsSettings

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.serving.console.pages import Console, LinkKey

LOOPBACK = "127.0.0.1"


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
        listeners.append(_opened_by_link(site, key, options))
    if not listeners:
        return None
    return ServerThread(listeners, log=log, bounds=ConnectionLimits(most=connections_of(descriptors)))


def build_plain_server(
    options: Options,
    host: str,
    port: int,
    *,
    health: HealthChecks,
    debug: DebugPages,
    metrics: Metrics,
    version: Version,
    clock: Clock,
    log: FilteringBoundLogger,
    console: Console | None = None,
    key: LinkKey | None = None,
) -> ServerThread:
    """Return a server of metrics and health over plain HTTP for everybody, which is not started yet.

    debug: controls of controllers and their debug pages, only for clients with the key.
    key: opens the console by a second listener, see build_server.
    """
    site = _site(
        options,
        health=health,
        metrics=metrics,
        set_verbosity=None,
        version=version,
        profiling=False,
        clock=clock,
        log=log,
    )
    listeners = [_plain(site, host, port)]
    if key is not None:
        listeners.append(_opened_by_link(replace(site, console=console, debug=debug), key, options))
    return ServerThread(listeners, log=log)


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


def _opened_by_link(site: Site, key: LinkKey, options: Options) -> PageListener:
    allowed = PathsAllowed(options.authorization.always_allow_paths)
    application = build_application(site, allowed, authenticator=key, local=True)
    return PageListener(
        application=application, host=LOOPBACK, port=options.diagnosis.console_port, flag="--console-port"
    )


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
