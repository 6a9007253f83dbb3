"""All controllers that are on by default, on both sides: pods that are made, that live their whole life, that Services
select.

The real manager has some controllers that kcm has not yet. So it is measured twice: as it is by default, and with those
alone that kcm has too.
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

from kcm.actors.controllers.built_in import BUILT_IN
from tests.bench.processes import LIFTED, Cluster, Hand, Process, hollow_nodes, our_manager, real_manager, scratch
from tests.e2e.real_server import write_keys

NODES, ZONES = 20, 3  # hollow ones; each has room for 110 pods
SERVICES = 5
EVERY_POD = {"bench": "defaults"}  # a label
WITHIN = 300.0  # seconds
SETTLE = 5.0  # seconds for a manager to start before it is given work
NEEDS_A_CLOUD = ("node-route-controller", "cloud-node-lifecycle-controller", "service-lb-controller")

# (resource, its kind, how many, pods of each)
LARGE = ("replicasets", "ReplicaSet", 1, 1000)
SMALL = ("deployments", "Deployment", 100, 10)
WORKLOADS: Mapping[str, tuple[str, str, int, int]] = {"1 ReplicaSet of 1000": LARGE, "100 Deployments of 10": SMALL}


@dataclass(frozen=True, slots=True)
class Load:
    """nodes: there are some, and pods are waited for until they are ready. services: that select all pods."""

    name: str
    nodes: bool = False
    services: int = 0


MADE = Load("made")
LIVED = Load("whole life", nodes=True)
SERVED = Load(f"whole life, {SERVICES} Services", nodes=True, services=SERVICES)


def contestants(start: Callable[..., Process]) -> Iterator[tuple[str, Callable[..., Process], str]]:
    """Who is measured, how it is started, and with which controllers."""
    if start is our_manager:
        yield "kcm", start, "*"
    elif start is real_manager:
        yield "kube-controller-manager", start, "*"
        ours = [spec.name for spec in BUILT_IN if spec.on_by_default and spec.name not in NEEDS_A_CLOUD]
        yield "the same, with kcm's", start, ",".join(ours)


def measure(
    cluster: Cluster, hand: Hand, start: Callable[..., Process], load: Load, namespace: Callable[[], str]
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Workload, who, and figures. namespace: makes a new one."""
    for workload, (plural, kind, count, pods_each) in WORKLOADS.items():
        for who, starting, controllers in contestants(start):
            with _at_work(cluster, hand, starting, controllers, load) as process:
                one = _Run(hand, namespace(), plural=plural, count=count, pods_each=pods_each)
                yield f"{workload}, {load.name}", who, one.figures(process, kind, load)


@contextmanager
def _at_work(
    cluster: Cluster, hand: Hand, start: Callable[..., Process], controllers: str, load: Load
) -> Iterator[Process]:
    """A manager past its start; with nodes that are ready, where the load needs some."""
    with scratch() as directory:
        process = start(cluster, directory, *LIFTED, *_keys(directory), controllers=controllers)
        try:
            if load.nodes:
                with hollow_nodes(cluster, nodes=NODES, zones=ZONES):
                    _until(lambda: _usable_nodes(hand) == NODES, f"{NODES} nodes are ready")
                    time.sleep(SETTLE)
                    yield process
                _ok(hand.ask("DELETE", "/api/v1/nodes"))
            else:
                time.sleep(SETTLE)
                yield process
        finally:
            process.kill()


def _keys(directory: Path) -> list[str]:
    """Flags of the controllers of accounts and certificates, for both managers."""
    write_keys(directory)
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    return [
        f"--root-ca-file={certificate}",
        f"--service-account-private-key-file={directory / 'sa.key'}",
        f"--cluster-signing-cert-file={certificate}",
        f"--cluster-signing-key-file={key}",
    ]


class _Run:
    """One workload in a namespace of its own. plural: its resource."""

    def __init__(self, hand: Hand, namespace: str, *, plural: str, count: int, pods_each: int) -> None:
        self._hand, self._namespace, self._count, self._each = hand, namespace, count, pods_each
        self._path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
        self._pods = count * pods_each

    def figures(self, process: Process, kind: str, load: Load) -> dict[str, float]:
        """seconds_to_delete: from the deletion of the workloads until the last pod is gone."""
        for number in range(load.services):
            self._post(f"/api/v1/namespaces/{self._namespace}/services", _service(f"front-{number}"))
        counted = "readyReplicas" if load.nodes else "replicas"
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
        cpu, began = process.cpu(), time.monotonic()
        with (
            _reached(self._hand, self._path, lambda item: item.get("status", {}).get(counted, 0), self._pods),
            _reached(self._hand, slices, _ready_endpoints, load.services * self._pods),
        ):
            for number in range(self._count):
                self._post(self._path, _workload(kind, f"w{number}", self._each))
        took, spent = time.monotonic() - began, process.cpu() - cpu
        found = {
            "pods_per_second": self._pods / took,
            "cpu_ms_per_pod": spent * 1000 / self._pods,
            "resident_mb": process.resident(),
        }
        if load.nodes:
            found["seconds_to_delete"] = self._delete()
        return found

    def _post(self, path: str, body: dict[str, Any]) -> None:
        _ok(self._hand.ask("POST", path, orjson.dumps(body)))

    def _delete(self) -> float:
        began, pods = time.monotonic(), f"/api/v1/namespaces/{self._namespace}/pods"
        _ok(self._hand.ask("DELETE", self._path, query={"propagationPolicy": "Background"}))
        _until(lambda: not _items(self._hand, pods, limit="1"), "all pods are gone")
        return time.monotonic() - began


@contextmanager
def _reached(hand: Hand, path: str, count: Callable[[dict[str, Any]], int], wanted: int) -> Iterator[None]:
    """At its end, waits until the objects there come to the number that is wanted, all together."""
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
    with hand.watching(path, on_lines):
        yield
        if not reached.wait(WITHIN):
            raise TimeoutError(f"{sum(seen.values())} of {wanted} at {path} after {WITHIN:.0f} s")


def _ready_endpoints(slice_: dict[str, Any]) -> int:
    return sum(bool(one.get("conditions", {}).get("ready")) for one in slice_.get("endpoints") or ())


def _workload(kind: str, name: str, replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name, **EVERY_POD}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": EVERY_POD, "ports": [{"port": 80}]}}


def _usable_nodes(hand: Hand) -> int:
    return sum(
        not node["spec"].get("taints")
        and any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
        for node in _items(hand, "/api/v1/nodes")
    )


def _items(hand: Hand, path: str, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = orjson.loads(_ok(hand.ask("GET", path, query=query)))["items"]
    return items


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN:.0f} s: {what}")
        time.sleep(0.2)


def _ok(response: Any) -> bytes:
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{response.status} {response.error} {response.body[:200]!r}")
    body: bytes = response.body
    return body
