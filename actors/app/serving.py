"""What the command serves, and where: HTTPS by default, plain HTTP when it is asked for."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from actors.options import Options
from actors.options.configz import CONFIGZ_KEY, OWN_KEY, configuration, flag_values, own_configuration
from runtime.logs.configuration import LogControl
from runtime.metrics.registry import Metrics
from runtime.process.bounded_connections import Bounds
from runtime.process.version import Version
from runtime.scheduling.clock import Clock
from runtime.serving.authentication import ByCertificate, ProxyHeaders
from runtime.serving.authorization import EverythingAllowed, PathsAllowed
from runtime.serving.health import HealthChecks
from runtime.serving.server import Listener, ServerThread, connections_of
from runtime.serving.site import Site, build_application
from runtime.serving.tls import NamedPair, ServingTls, TlsSettings

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOPBACK = "127.0.0.1"


def build_server(
    options: Options,
    *,
    health: HealthChecks,
    metrics: Metrics,
    control: LogControl,
    version: Version,
    clock: Clock,
    log: FilteringBoundLogger,
    descriptors: int,
    embeds_cluster: bool,
) -> ServerThread | None:
    """A server to start and stop; None when nothing is to be served. Raises TlsError.

    descriptors: how many this process may have. embeds_cluster: then HTTPS is for this host alone, and on another port
    where its own is taken, unless the command line says where.
    """
    site = Site(
        health=health,
        metrics=metrics,
        configuration=lambda: {CONFIGZ_KEY: configuration(options), OWN_KEY: own_configuration(options)},
        flags=lambda: flag_values(options),
        set_verbosity=control.set_verbosity,
        version=version,
        profiling=options.debugging.profiling,
        clock=clock,
        log=log,
        started=clock.now(),
        flagz=options.feature_gates["ComponentFlagz"],
        statusz=options.feature_gates["ComponentStatusz"],
    )
    listeners = []
    secure, plain = options.secure_serving, options.plain_http
    if secure.port:
        tls = ServingTls(_tls_settings(options), clock=clock, log=log)
        allowed = PathsAllowed(options.authorization.always_allow_paths)
        known = ByCertificate(clients=tls.clients, proxies=tls.proxies, headers=_proxy_headers(options), now=clock.now)
        listeners.append(
            Listener(
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
        host, port = plain
        local = ipaddress.ip_address(host).is_loopback
        application = build_application(site, EverythingAllowed(), local=local)
        listeners.append(Listener(application=application, host=host, port=port, flag="--port"))
    if not listeners:
        return None
    return ServerThread(listeners, log=log, bounds=Bounds(most=connections_of(descriptors)))


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


def _proxy_headers(options: Options) -> ProxyHeaders:
    chosen = options.authentication
    return ProxyHeaders(
        names=chosen.requestheader_allowed_names,
        username=chosen.requestheader_username_headers,
        group=chosen.requestheader_group_headers,
    )
