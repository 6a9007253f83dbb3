"""Health conditions of a manager whose API server is unreachable (deaf), or that may write too seldom (starved)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.partition_proxy import PartitionProxy
from tests.e2e.programs import Manager, ending, run_kcm, until

pytestmark = pytest.mark.slow

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONTROLLERS = "--controllers=deployment,namespace"
DEPLOYMENT, NAMESPACE = "deployment-controller", "namespace-controller"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        yield server
    finally:
        server.stop()


def conditions(manager: Manager) -> dict[str, str]:
    """Return the condition of each check of /healthz?verbose that fails, by the name of the check."""
    page = manager.get("/healthz?verbose")[1]
    return dict(re.findall(r"^\[-\](\S+) failed: (\w+)", page, re.MULTILINE))


@contextmanager
def running(output: Path, *flags: str) -> Iterator[Manager]:
    """Run a manager with two controllers, and wait until both have started and all checks pass."""
    manager = run_kcm(output, CONTROLLERS, "--leader-elect=false", *flags)

    def started() -> bool:  # the pages are served before the controllers start
        log = manager.program.text()
        names = (DEPLOYMENT, NAMESPACE)
        return all(f'"Caches are synced" controller="{name}"' in log for name in names) and manager.healthy()

    with ending(manager.program):
        until(started, "the manager works", why=manager.program.text)
        assert conditions(manager) == {}
        yield manager


def proxied(server: EmbeddedServer, proxy: PartitionProxy, kubeconfig: Path) -> Path:
    """Write a kubeconfig that reaches the server through the proxy."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = re.sub(r":\d+$", f":{proxy.port}", cluster["server"])
    if authority := cluster.get("certificate-authority"):
        cluster["certificate-authority"] = str((server.kubeconfig.parent / authority).resolve())
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


def test_a_controller_whose_watches_are_silent_is_deaf_until_they_are_renewed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    port = int(server.url.rpartition(":")[2])
    with PartitionProxy.serving(port) as proxy:
        kubeconfig = proxied(server, proxy, tmp_path / "proxied")
        flags = (f"--kubeconfig={kubeconfig}", "--watch-silence-limit=4s", "--health-deaf-after=10s")
        with running(tmp_path / "kcm.log", *flags) as manager:
            proxy.cut()
            until(lambda: conditions(manager).get(DEPLOYMENT) == "deaf", "the partition is reported")
            proxy.heal()
            until(lambda: not conditions(manager), "the watches are renewed", why=manager.program.text)


def test_a_controller_that_waits_for_its_turn_to_write_is_starved_while_others_are_healthy(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    flags = (
        f"--kubeconfig={server.kubeconfig}",
        "--kube-api-qps=0.2",
        "--kube-api-burst=1",
        "--concurrent-deployment-syncs=1",
        "--health-starved-after=3s",
    )
    with running(tmp_path / "kcm.log", *flags) as manager:
        api, labels = Api(server.kubeconfig), {"app": "web"}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pods}
        for number in range(8):
            api.request("POST", DEPLOYMENTS, {"metadata": {"name": f"web-{number}"}, "spec": spec})
        until(lambda: conditions(manager).get(DEPLOYMENT) == "starved", "the queue is reported")
        assert NAMESPACE not in conditions(manager)
