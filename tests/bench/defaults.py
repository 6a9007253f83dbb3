"""All controllers that are on by default, on both sides, with three loads: pods that are created; that also run and are
deleted; and that Services select as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.bench.processes import (
    RAISED_LIMITS,
    ApiConnection,
    Cluster,
    Process,
    hollow_nodes,
    scratch,
)
from tests.e2e.real_server import write_keys

NODES, ZONES = 20, 3  # hollow nodes; each has room for 110 pods
SERVICES = 5
EVERY_POD = {"bench": "defaults"}  # label of every pod
TIMEOUT = 300.0  # seconds
SETTLE = 5.0  # seconds for a manager to start before workloads are created

# (resource, kind, number of objects, pods of each)
LARGE = ("replicasets", "ReplicaSet", 1, 1000)
SMALL = ("deployments", "Deployment", 100, 10)
WORKLOADS: Mapping[str, tuple[str, str, int, int]] = {"1 ReplicaSet of 1000": LARGE, "100 Deployments of 10": SMALL}


@dataclass(frozen=True, slots=True)
class Load:
    """Objects in the cluster beside the workloads."""

    name: str
    nodes: bool = False  # hollow nodes, so that pods become ready
    services: int = 0  # number of Services that select all pods


CREATED = Load("made")
WHOLE_LIFE = Load("whole life", nodes=True)
WITH_SERVICES = Load(f"whole life, {SERVICES} Services", nodes=True, services=SERVICES)


def with_defaults(start: Callable[..., Process]) -> Callable[..., Process]:
    """Return a function that starts the same manager with all controllers that are on by default."""

    def start_all(cluster: Cluster, directory: Path, *flags: str) -> Process:
        return start(cluster, directory, *_keys(directory), *flags, controllers="*")

    return start_all


def measure(
    cluster: Cluster, api: ApiConnection, start: Callable[..., Process], load: Load, namespace: Callable[[], str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of a workload and figures. `namespace` creates a new namespace."""
    for workload, (plural, kind, count, pods_each) in WORKLOADS.items():
        with _running(cluster, api, with_defaults(start), load) as process:
            run = _Run(api, namespace(), plural=plural, count=count, pods_each=pods_each)
            yield f"{workload}, {load.name}", run.figures(process, kind, load)


@contextmanager
def _running(cluster: Cluster, api: ApiConnection, start: Callable[..., Process], load: Load) -> Iterator[Process]:
    """Yield a manager that has started, in a cluster with ready nodes if the load needs them."""
    with scratch() as directory:
        process = start(cluster, directory, *RAISED_LIMITS)
        try:
            if load.nodes:
                with hollow_nodes(cluster, nodes=NODES, zones=ZONES):
                    _until(lambda: _usable_nodes(api) == NODES, f"{NODES} nodes are ready")
                    time.sleep(SETTLE)
                    yield process
                _ok(api.request("DELETE", "/api/v1/nodes"))
            else:
                time.sleep(SETTLE)
                yield process
        finally:
            process.kill()


def _keys(directory: Path) -> list[str]:
    """Return the flags that the controllers of accounts and certificates need in both managers."""
    write_keys(directory)
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    return [
        f"--root-ca-file={certificate}",
        f"--service-account-private-key-file={directory / 'sa.key'}",
        f"--cluster-signing-cert-file={certificate}",
        f"--cluster-signing-key-file={key}",
    ]


class _Run:
    """One workload in its own namespace."""

    def __init__(self, api: ApiConnection, namespace: str, *, plural: str, count: int, pods_each: int) -> None:
        self._api, self._namespace, self._count, self._each = api, namespace, count, pods_each
        self._path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
        self._pods = count * pods_each

    def figures(self, process: Process, kind: str, load: Load) -> dict[str, float]:
        """Create the workloads and return the figures. `seconds_to_delete` is the time until no pod is left."""
        for number in range(load.services):
            self._post(f"/api/v1/namespaces/{self._namespace}/services", _service(f"front-{number}"))
        counted = "readyReplicas" if load.nodes else "replicas"
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
        cpu, began = process.cpu(), time.monotonic()
        with (
            _reached(self._api, self._path, lambda item: item.get("status", {}).get(counted, 0), self._pods),
            _reached(self._api, slices, _ready_endpoints, load.services * self._pods),
        ):
            for number in range(self._count):
                self._post(self._path, _workload(kind, f"w{number}", self._each))
        took, spent = time.monotonic() - began, process.cpu() - cpu
        figures = {
            "pods_per_second": self._pods / took,
            "cpu_ms_per_pod": spent * 1000 / self._pods,
            "resident_mb": process.resident(),
        }
        if load.nodes:
            figures["seconds_to_delete"] = self._delete()
        return figures

    def _post(self, path: str, body: dict[str, Any]) -> None:
        _ok(self._api.request("POST", path, orjson.dumps(body)))

    def _delete(self) -> float:
        began, pods = time.monotonic(), f"/api/v1/namespaces/{self._namespace}/pods"
        _ok(self._api.request("DELETE", self._path, query={"propagationPolicy": "Background"}))
        _until(lambda: not _items(self._api, pods, limit="1"), "all pods are deleted")
        return time.monotonic() - began


@contextmanager
def _reached(api: ApiConnection, path: str, count: Callable[[dict[str, Any]], int], wanted: int) -> Iterator[None]:
    """On exit, wait until the sum of `count` over the objects of the collection is `wanted`."""
    seen: dict[str, int] = {}
    reached = threading.Event()

    def on_lines(lines: bytes) -> None:
        for line in lines.splitlines():
            event = orjson.loads(line)
            item = event["object"]
            seen[item["metadata"]["name"]] = 0 if event["type"] == "DELETED" else count(item)
        if sum(seen.values()) == wanted:
            reached.set()

    if wanted == 0:
        yield
        return
    with api.watching(path, on_lines):
        yield
        if not reached.wait(TIMEOUT):
            raise TimeoutError(f"{sum(seen.values())} of {wanted} at {path} after {TIMEOUT:.0f} s")


def _ready_endpoints(slice_: dict[str, Any]) -> int:
    return sum(bool(endpoint.get("conditions", {}).get("ready")) for endpoint in slice_.get("endpoints") or ())


def _workload(kind: str, name: str, replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name, **EVERY_POD}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": EVERY_POD, "ports": [{"port": 80}]}}


def _usable_nodes(api: ApiConnection) -> int:
    return sum(
        not node["spec"].get("taints")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        for node in _items(api, "/api/v1/nodes")
    )


def _items(api: ApiConnection, path: str, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = orjson.loads(_ok(api.request("GET", path, query=query)))["items"]
    return items


def _until(condition: Callable[[], bool], description: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {TIMEOUT:.0f} s: {description}")
        time.sleep(0.2)


def _ok(response: Any) -> bytes:
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{response.status} {response.error} {response.body[:200]!r}")
    body: bytes = response.body
    return body
