"""Client settings from --kubeconfig, --master, or the service account of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcm.runtime.client.config import ClientConfig, ConfigError, Pem
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential, TokenFile
from kcm.runtime.client.kubeconfig import KubeconfigEnvironment, read_kubeconfig
from kcm.runtime.client.server_url import proxy_from_environment, server_url
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
    """Return the settings from the file of --kubeconfig, from --master alone, or from the pod's service account.

    --master replaces the file's URL; alone, it is used without credentials. As kube-controller-manager, and unlike
    kubectl, this ignores KUBECONFIG and the home directory. Raises ConfigError, one line.

    kubeconfig, master: "" is the same as None.
    context: of the file; "" for its current one.
    """
    if kubeconfig:
        return read_kubeconfig(
            kubeconfig,
            master=master or "",
            context=context,
            environment=KubeconfigEnvironment(environ=environ, clock=clock, metrics=metrics),
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


ORIGIN = "in-cluster"


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """Report whether the environment is that of a pod."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def in_cluster_config(environ: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> ClientConfig:
    """Return the settings of a pod. Raises ConfigError outside of one.

    service_account: directory with `token` and `ca.crt`.
    """
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        if not environ.get(name):
            raise ConfigError(f"{ORIGIN}: not in a cluster: {name} is not set")
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    bracketed = f"[{host}]" if ":" in host else host
    server = server_url(f"https://{bracketed}:{port}", origin=f"{ORIGIN}: KUBERNETES_SERVICE_HOST", tls=True)
    ca = Pem(origin=f"{ORIGIN}: ca.crt", path=str(service_account / "ca.crt"))
    ca.read()
    token = TokenFile(str(service_account / "token"), origin=f"{ORIGIN}: token")
    token.load()
    return ClientConfig(
        server=server, origin=ORIGIN, ca=ca, credentials=token, proxy=proxy_from_environment(server, environ)
    )
