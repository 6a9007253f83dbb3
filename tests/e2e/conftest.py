"""Clusters that tests share: the embedded cluster, and kube-apiserver if its binaries are present."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest

from tests.e2e.forks import Forks, forking
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import CONTROLLERS, OF_SERVICES, Manager, hollow_nodes, managing
from tests.e2e.real_server import RealServer, assets_or_skip, real_server
from tests.support.work_units import OWN_CLUSTER, unit_of

NEEDS_KUBECTL = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

MORE = (
    "job-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "namespace-controller",
    "resourcequota-controller",
    "ttl-after-finished-controller",
    "statefulset-controller",
    "daemonset-controller",
)

InNamespace = Callable[[str], Kubectl]
HERE = f"{Path(__file__).parent}{os.sep}"


@dataclass(frozen=True)
class Site:
    """Cluster with a running kcm."""

    kubeconfig: Path
    manager: Manager

    def namespace(self, name: str) -> Kubectl:
        return in_namespace(self.kubeconfig, name)


def in_namespace(kubeconfig: Path, name: str) -> Kubectl:
    """Create the namespace; return kubectl for it."""
    api = Api(kubeconfig)
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return Kubectl(api, name)


def is_here(item: pytest.Item) -> bool:
    return str(item.path).startswith(HERE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_here(item):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(NEEDS_KUBECTL)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))


class OwnCluster:
    """Cluster of `bin/run-kcm --apply examples/nginx-rc.yml`, in a new directory. Its autoscaler syncs every second.

    It is started when a test needs it, and ends after the last test in a row that may need it, because an idle cluster
    costs CPU time: three processes until the end of the run.
    """

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._running: tuple[Site, ExitStack] | None = None

    def site(self) -> Site:
        if self._running is None:
            directory = self._factory.mktemp("own")
            autoscaling = "--horizontal-pod-autoscaler-sync-period=1s"
            flags = (f"--embedded-dir={directory / 'kcm'}", "--apply=examples/nginx-rc.yml", autoscaling)
            stack = ExitStack()
            manager = stack.enter_context(managing(directory / "kcm.log", *flags))
            self._running = Site(directory / "kcm" / "kubeconfig", manager), stack
        return self._running[0]

    def end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running[1].close()


OWN = pytest.StashKey[OwnCluster]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    in_use = nextitem is not None and is_here(nextitem)
    if nextitem is not None and hasattr(item.config, "workerinput"):  # of xdist: the files that share it are in a row
        in_use = unit_of(nextitem.nodeid) == OWN_CLUSTER
    if not in_use and (own := item.session.stash.get(OWN, None)) is not None:
        own.end()


@pytest.fixture(scope="module")
def own_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Cluster that the end-to-end tests of a worker share."""
    assert unit_of(request.node.nodeid) == OWN_CLUSTER, "add the file to SHARING, so that one worker starts a cluster"
    return request.session.stash.setdefault(OWN, OwnCluster(tmp_path_factory)).site()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Run of the command that ends at once: `forks.run("--help")`."""
    with forking(tmp_path_factory.mktemp("forks")) as found:
        yield found


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Real kube-apiserver with hollow nodes, without a controller manager."""
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("real")
    with real_server(directory, assets) as server, hollow_nodes(server.kubeconfig, directory / "hollow.log"):
        yield server


@pytest.fixture(scope="module")
def on_real(real: RealServer) -> Iterator[Site]:
    """Real kube-apiserver with hollow nodes and kcm."""
    controllers = ",".join((*CONTROLLERS, *OF_SERVICES, *MORE))
    flags = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", f"--controllers={controllers}")
    with managing(real.directory / "kcm.log", *flags) as manager:
        yield Site(real.kubeconfig, manager)


@pytest.fixture(params=["own_cluster", pytest.param("on_real", marks=pytest.mark.cluster)])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The embedded and the real cluster, one after the other. Prints the manager's log of the test if it fails."""
    found: Site = request.getfixturevalue(request.param)
    before = len(found.manager.program.text())
    yield found
    print(found.manager.program.text()[before:])


@pytest.fixture
def kubectl(site: Site, request: pytest.FixtureRequest) -> Kubectl:
    """Access with kubectl to a namespace of the test."""
    return site.namespace(f"t{crc32(request.node.nodeid.encode())}")
