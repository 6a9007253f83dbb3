"""Connection of run-kcm to its cluster: configuration, identities of the controllers, and the wait for the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from kcm.actors.app.connection import SERVER_WAIT, connect, wait_for_server
from kcm.actors.app.local_cluster import CONTEXT, LocalCluster
from kcm.actors.command.run_setup import Launch
from kcm.actors.options.parsing import PROGRAM
from kcm.runtime.apiserver.process.launch import MANAGER
from kcm.runtime.client.config import with_fixed_authority
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.metrics.registry import Metrics


class ClusterConnection(NamedTuple):
    """Connection to the API server of the cluster."""

    transport: HttpTransport
    server: str  # URL
    authority: (
        bytes  # PEM of the certificate authority that the configuration contains; b"" if it names a file or has none
    )


def connect_to_cluster(
    launch: Launch, closing: ExitStack, *, local: LocalCluster | None, metrics: Metrics
) -> ClusterConnection:
    """Connect to the embedded cluster or to the given one, and wait until its server responds.

    Raises ConfigError, and ServerUnavailableError if the server does not respond in time.
    """
    options = launch.options
    load = partial(
        load_config,
        master=options.client.master,
        context=CONTEXT if local is not None else "",
        environ=launch.environ,
        clock=launch.clock,
        metrics=metrics,
    )
    config = load(kubeconfig=str(local.server.kubeconfig) if local is not None else options.client.kubeconfig)
    installed_clients = frozenset(spec.client or spec.name for spec in launch.program.installed.specs)
    accounts, others = accounts_of(launch), {}
    if local is not None and accounts:
        # Our own account has no more rights than upstream's. Installed controllers have no role, and neither have
        # requests for people, so both use the administrator's credentials of the kubeconfig.
        others = dict.fromkeys((*installed_clients, OWN_CLIENT), config.credentials)
        accounts -= installed_clients
        config = replace(config, credentials=load(kubeconfig=str(local.server.kubeconfig_of(MANAGER))).credentials)
    authority = config.ca.data if config.ca is not None else b""
    if not options.feature_gates["ClientsAllowCARotation"]:
        config = with_fixed_authority(config)
    transport = connect(
        config,
        clock=launch.clock,
        metrics=metrics,
        log=launch.log,
        accounts=accounts,
        others=others,
        program=launch.program.component,
        programs={client: (PROGRAM, client) for client in installed_clients},
    )
    closing.callback(transport.close, timeout=2.0)
    wait_for_server(
        transport,
        config,
        clock=launch.clock,
        stopping=launch.stopping,
        waiting=partial(show_wait, launch, config.server),
    )
    return ClusterConnection(transport, config.server, authority)


def connect_to_clusters(
    launch: Launch, closing: ExitStack, clusters: Iterable[str], *, metrics: Metrics
) -> Mapping[str, HttpTransport]:
    """Connect to several clusters, each by its context. No server is waited for: one must not hold up the others.

    Raises ConfigError, for example for a missing context.
    """
    from kcm.actors.app.cluster_flags import context_of  # few programs work on several clusters

    options = launch.options
    transports: dict[str, HttpTransport] = {}
    for cluster in clusters:
        config = load_config(
            kubeconfig=options.client.kubeconfig,
            master=None,
            context=context_of(cluster, options),
            environ=launch.environ,
            clock=launch.clock,
            metrics=metrics,
        )
        if not options.feature_gates["ClientsAllowCARotation"]:
            config = with_fixed_authority(config)
        transports[cluster] = connect(
            config,
            clock=launch.clock,
            metrics=metrics,
            log=launch.log.bind(cluster=cluster),
            accounts=accounts_of(launch),
            program=launch.program.component,
        )
        closing.callback(transports[cluster].close, timeout=2.0)
        launch.log.info("working on cluster", v=1, cluster=cluster, server=config.server)
    return transports


def accounts_of(launch: Launch) -> frozenset[str]:
    """Return the clients that act as service accounts, with --use-service-account-credentials."""
    if not launch.options.cloud.use_service_account_credentials:
        return frozenset()
    return frozenset(spec.client or spec.name for spec in launch.program.controllers if not spec.has_root_credentials)


def show_wait(launch: Launch, server: str, why: str, left: float) -> None:
    """Show on the terminal, and log once, that the server does not respond yet. left: seconds until the wait fails."""
    launch.line.show(f"waiting up to {left:.0f} s more for the API server: {why}")
    if left == SERVER_WAIT:
        launch.log.warning("waiting for the API server", server=server, seconds=SERVER_WAIT, error=why)
