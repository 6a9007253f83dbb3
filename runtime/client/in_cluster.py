"""A pod's own credentials: its service account's token and CA, and the API server's address in the environment.

Follows kubernetes v1.36 client-go/rest/config.go, InClusterConfig; a missing CA is an error here, not a log line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcm.runtime.client.config import ClientConfig, ConfigError, Pem
from kcm.runtime.client.credentials import TokenFile
from kcm.runtime.client.server_url import proxy_from_environment, server_url

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ORIGIN = "in-cluster"


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """True if the environment is that of a pod."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def in_cluster_config(environ: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> ClientConfig:
    """service_account: the directory that holds `token` and `ca.crt`. Raises ConfigError outside a pod."""
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
