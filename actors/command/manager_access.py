"""Access of users to the pages of a manager with an embedded cluster.

The embedded API server reviews tokens and access, so its users and roles apply to the pages as well. A kubeconfig
beside that of the cluster names the manager's secure port, with the token of the administrator, for `run-kcm ctl` and
for `kubectl --kubeconfig=.kcm/manager-kubeconfig get --raw /controllers`. It is removed at the end of the run.
"""

from __future__ import annotations

import base64
from contextlib import ExitStack, suppress
from pathlib import Path

import orjson

from kcm.actors.command.embedded_directory import MANAGER_KUBECONFIG
from kcm.actors.command.run_setup import Launch, ServedPages
from kcm.runtime.apiserver.process.launch import CONTEXT
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.files import write_private
from kcm.runtime.serving.certificates import served_certificate


def let_users_in(
    launch: Launch, closing: ExitStack, pages: ServedPages, *, kubeconfig: Path, transport: HttpTransport
) -> None:
    """Let the embedded API server review requests for pages, and write the kubeconfig of the manager.

    kubeconfig: of the embedded cluster.
    """
    if pages.late is not None:
        pages.late.connect(transport)
    url = next((url for url in pages.urls if url.startswith("https://")), "")
    if not url:
        return
    path = kubeconfig.parent / MANAGER_KUBECONFIG
    try:
        config = load_config(
            kubeconfig=str(kubeconfig),
            master=None,
            context=CONTEXT,
            environ=launch.environ,
            clock=launch.clock,
            metrics=Metrics(),
        )
        token = config.credentials.load().authorization.removeprefix("Bearer ")
        write_private(path, manager_kubeconfig(url, token, served_certificate(url)))
    except (OSError, ConfigError) as err:
        launch.log.warning("kubeconfig of the manager not written", file=str(path), error=str(err))
        return
    closing.callback(_remove, path)


def manager_kubeconfig(url: str, token: str, certificate: str) -> bytes:
    """Return a kubeconfig, in JSON, which is also YAML.

    certificate: of the server, in PEM, which clients trust; it is self-signed unless flags name another.
    """
    authority = base64.b64encode(certificate.encode()).decode()
    entries = {
        "clusters": {"cluster": {"server": url, "certificate-authority-data": authority}},
        "users": {"user": {"token": token}},
        "contexts": {"context": {"cluster": CONTEXT, "user": CONTEXT}},
    }
    lists = {field: [{"name": CONTEXT, **entry}] for field, entry in entries.items()}
    return orjson.dumps({"apiVersion": "v1", "kind": "Config", **lists, "current-context": CONTEXT})


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
