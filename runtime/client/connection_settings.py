"""Which server, and who we are there, from what the command line and the environment say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcm.runtime.client.config import ClientConfig, ConfigError
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from kcm.runtime.client.in_cluster import SERVICE_ACCOUNT, in_cluster_config, is_in_cluster
from kcm.runtime.client.kubeconfig import Surroundings, read_kubeconfig
from kcm.runtime.client.server_url import proxy_from_environment, server_url
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock


def load_config(
    *,
    kubeconfig: str | None,
    master: str | None,
    environ: Mapping[str, str],
    clock: Clock,
    metrics: Metrics,
    context: str = "",
    service_account: Path = SERVICE_ACCOUNT,
) -> ClientConfig:
    """The file of --kubeconfig, with --master's URL before the file's; --master alone, anonymously; else the pod's own.

    "" is the same as None. context: of the file, in place of its current one. Like kube-controller-manager, and unlike
    kubectl, this does not look at KUBECONFIG or in the home directory. Raises ConfigError, one line.
    """
    if kubeconfig:
        return read_kubeconfig(
            kubeconfig,
            master=master or "",
            context=context,
            around=Surroundings(environ=environ, clock=clock, metrics=metrics),
        )
    if master:
        server = server_url(master, origin="--master", tls=False)
        return ClientConfig(
            server=server,
            origin="--master",
            credentials=FixedCredential(ANONYMOUS),
            proxy=proxy_from_environment(server, environ),
        )
    if not is_in_cluster(environ):
        raise ConfigError("neither --kubeconfig nor --master is given, and KUBERNETES_SERVICE_HOST is not set")
    return in_cluster_config(environ, service_account=service_account)
