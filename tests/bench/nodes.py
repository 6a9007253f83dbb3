"""Cost of the heartbeats of many nodes, and the delay until a manager taints silent ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from kcm.actors.controllers.nodes import node_lifecycle
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.commands import PatchType
from kcm.protocols.nodes import LEASE_NAMESPACE, NO_EXECUTE, UNREACHABLE
from kcm.protocols.resources import NODES
from kcm.protocols.times import parse_time
from tests.bench.processes import CONTROLLERS, ApiConnection, Cluster, Process, hollow_nodes, scratch

COUNT, ZONES = 1000, 3
GRACE, PERIOD = 20.0, 5.0  # --node-monitor-grace-period, --node-monitor-period
WINDOW = 30.0  # seconds over which CPU is measured
SILENT = tuple(
    f"hollow-node-{zone}" for zone in range(ZONES)
)  # one in each zone, because evictions are limited per zone
FLAGS = (
    f"--controllers={CONTROLLERS},node-lifecycle-controller,taint-eviction-controller",
    f"--node-monitor-grace-period={GRACE:.0f}s",
    f"--node-monitor-period={PERIOD:.0f}s",
)


def heartbeats(
    cluster: Cluster, api: ApiConnection, start: Callable[..., Process], *, nodes: int = COUNT, window: float = WINDOW
) -> dict[str, float]:
    """Start a manager, measure it and stop it.

    Returns
        cpu_percent: of one core, while all nodes send heartbeats
        resident_mb: at the end
        seconds_to_taint: maximum over one silent node in each zone, from its last renewal of its Lease to its NoExecute
            taint, minus the grace period
    """
    with hollow_nodes(cluster, nodes=nodes, zones=ZONES), scratch() as directory:
        _until(lambda: _ready(api) >= nodes, f"{nodes} nodes are ready", within=180.0)
        process = start(cluster, directory, *FLAGS)
        try:
            time.sleep(GRACE)
            cpu, began = process.cpu(), time.monotonic()
            time.sleep(window)
            percent = (process.cpu() - cpu) / (time.monotonic() - began) * 100
            _annotate(api, "true")
            renewed = {name: _renewed(api, name) for name in SILENT}
            delays = _delays_to_taint(api, renewed)
            return {
                "cpu_percent": percent,
                "resident_mb": process.resident(),
                "seconds_to_taint": max(delays.values()) - GRACE,
            }
        finally:
            _annotate(api, None)
            _until(lambda: not any(_is_tainted(api, name) for name in SILENT), "taints are removed", within=60.0)
            process.kill()


def simulated_nodes(*, nodes: int = 5000, seconds: float = 60.0) -> dict[str, float]:
    """Return the real seconds per virtual second while `nodes` nodes send heartbeats, by scene."""
    cluster = SimulatedCluster(log=structlog.wrap_logger(None, processors=[_drop]))
    cluster.hollow_nodes(nodes=nodes, zones=ZONES)
    cluster.manager(controllers=[node_lifecycle.SPEC])
    cluster.run_for(60.0)
    if (registered := len(cluster.list(NODES))) != nodes:
        raise RuntimeError(f"{registered} of {nodes} hollow nodes registered")
    began = time.perf_counter()
    cluster.run_for(seconds)
    return {f"{nodes} nodes heart-beating": (time.perf_counter() - began) / seconds}


def _delays_to_taint(api: ApiConnection, renewed: Mapping[str, float]) -> dict[str, float]:
    """Return by node the seconds from its last renewal until it is seen tainted. Polls ten times a second."""
    delays: dict[str, float] = {}

    def all_tainted() -> bool:
        for name in SILENT:
            if name not in delays and _is_tainted(api, name):
                delays[name] = time.time() - renewed[name]
        return len(delays) == len(SILENT)

    _until(all_tainted, "silent nodes are tainted", within=GRACE + 60.0)
    return delays


def _ready(api: ApiConnection) -> int:
    nodes = _request(api, "GET", "/api/v1/nodes").get("items", [])
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
        for node in nodes
    )


def _is_tainted(api: ApiConnection, name: str) -> bool:
    taints = _request(api, "GET", f"/api/v1/nodes/{name}")["spec"].get("taints") or ()
    return any(taint["key"] == UNREACHABLE and taint["effect"] == NO_EXECUTE for taint in taints)


def _renewed(api: ApiConnection, name: str) -> float:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{name}"
    return parse_time(_request(api, "GET", path)["spec"]["renewTime"])


def _annotate(api: ApiConnection, silent: str | None) -> None:
    body = orjson.dumps({"metadata": {"annotations": {"hollow.kcm.dev/silent": silent}}})
    for name in SILENT:
        _request(api, "PATCH", f"/api/v1/nodes/{name}", body)


def _request(api: ApiConnection, method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    """Send a request and return the decoded response. The body of a PATCH is a merge patch."""
    response = api.request(method, path, body, content_type=PatchType.MERGE)
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")
    decoded: dict[str, Any] = orjson.loads(response.body)
    return decoded


def _until(done: Callable[[], bool], description: str, *, within: float) -> None:
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:.0f} s: {description}")
        time.sleep(0.1)


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent
