"""A local cluster started by a program, with a system that has metrics of its own."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from kcm import (
    ControllerSpec,
    ControllerSystem,
    Key,
    LocalCluster,
    Queue,
    Reconciliation,
    Resource,
    Watch,
    api_transport,
)
from kcm.clusters import LaunchError
from kcm.commands import patch
from kcm.metrics import Family
from kcm.specs import ControllerContext, itself
from kcm.steps import must

NODES = Resource(version="v1", plural="nodes", kind="Node", namespaced=False)
PATIENCE = 40.0  # seconds that processes may take on a busy machine
GREETED = Family(name="greeted_nodes_total", kind="counter", help="Nodes that were greeted.", labels=("zone",))


class Greeter:
    """Reconciler that annotates each node once, and counts the nodes."""

    def __init__(self, context: ControllerContext, greeted: threading.Semaphore) -> None:
        self._nodes, self._metrics, self._greeted = context.tables[NODES], context.metrics, greeted

    def reconcile(self, key: Key) -> Reconciliation:
        node = self._nodes.get(key)
        if node is not None and "greeted" not in node["metadata"].get("annotations", {}):
            yield from must(patch(NODES, key, {"metadata": {"annotations": {"greeted": "yes"}}}))
            self._metrics.counter(GREETED, node["metadata"]["labels"]["topology.kubernetes.io/zone"]).inc()
            self._greeted.release()


def test_program_starts_a_cluster_with_nodes_and_renders_its_metrics(tmp_path: Path) -> None:
    greeted = threading.Semaphore(0)
    spec = ControllerSpec(
        name="greeter",
        queues=(Queue(watches=(Watch(NODES, to=itself),)),),
        build=lambda context: Greeter(context, greeted),
    )
    with LocalCluster.start(tmp_path / "new" / "cluster", nodes=2, zones=2) as cluster:
        with api_transport(cluster.kubeconfig) as transport:
            with ControllerSystem(transport=transport, controllers=[spec]) as system:
                assert greeted.acquire(timeout=PATIENCE)
                assert greeted.acquire(timeout=PATIENCE)
                text = system.metrics_text()
        assert cluster.trouble() is None
        pid = cluster.nodes.pid if cluster.nodes is not None else None
        with pytest.raises(LaunchError, match=r"did not start: .* is in use by process \d+"):
            LocalCluster.start(tmp_path / "new" / "cluster")
    assert "# TYPE greeted_nodes_total counter" in text
    assert 'greeted_nodes_total{zone="zone-a"} 1.0' in text
    assert 'greeted_nodes_total{zone="zone-b"} 1.0' in text
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_hollow_nodes_that_end_are_restarted(tmp_path: Path) -> None:
    with LocalCluster.start(tmp_path, nodes=1) as cluster:
        assert cluster.nodes is not None
        first = cluster.nodes.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        again, waiting = first, threading.Event()
        for _ in range(round(PATIENCE / 0.1)):
            again = cluster.nodes.pid or first
            if again != first:
                break
            waiting.wait(0.1)
        assert again != first
        assert cluster.checks()["hollow-cluster"]() is None


@pytest.mark.parametrize("wrong", [{"nodes": -1}, {"zones": 0}, {"port": 65536}], ids=str)
def test_invalid_numbers_raise_an_error(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="nodes is 0 or more, zones 1 or more, port 0 to 65535"):
        LocalCluster.start(tmp_path, **wrong)  # type: ignore[arg-type]


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(LaunchError, match="can be written by others"):
        LocalCluster.start(tmp_path)
