"""How long deletions take: a namespace with a thousand pods and more, and a Deployment of a thousand pods.

No pod is on a node, so that none has a grace period: what is measured is what the managers do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from tests.bench.processes import LIFTED, Cluster, Hand, Process, scratch

CONTROLLERS = "deployment,replicaset,namespace,garbagecollector"
PODS, CONFIGMAPS, SERVICES = 1000, 100, 10
AT_ONCE = 16  # requests of ours
SETTLE = 15.0  # seconds for a manager to have seen all resources; upstream's garbage collector looks every 30 s
WITHIN = 180.0
GLANCE = 0.05
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "bench.example.com"
CRD: Mapping[str, Any] = {
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def measure(
    cluster: Cluster, hand: Hand, start: Callable[..., Process], namespace: Callable[[], str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """What was deleted, and figures. namespace: makes a new one."""
    if hand.ask("GET", f"{CRDS}/things.{GROUP}").status == 404:
        _must(hand, "POST", CRDS, CRD)
        _until(lambda: hand.ask("GET", f"/apis/{GROUP}/v1/things").status == 200)
    with scratch() as directory:
        process = start(cluster, directory, *LIFTED, controllers=CONTROLLERS)
        try:
            time.sleep(SETTLE)
            name = namespace()
            _fill(hand, name)
            path = f"/api/v1/namespaces/{name}"
            yield f"a namespace with {PODS} pods", _deletion(hand, process, path, {}, lambda: _gone(hand, path))
            for policy in ("Background", "Foreground"):
                name = namespace()
                pods = f"/api/v1/namespaces/{name}/pods"
                path = f"/apis/apps/v1/namespaces/{name}/deployments"
                _must(hand, "POST", path, DEPLOYMENT)
                _until(lambda pods=pods: _number(hand, pods) == PODS)
                path += "/web"
                what = f"a Deployment of {PODS}, {policy.lower()}"
                yield (
                    what,
                    _deletion(
                        hand,
                        process,
                        path,
                        {"propagationPolicy": policy},
                        lambda path=path, pods=pods: _gone(hand, path) and _number(hand, pods) == 0,
                    ),
                )
        finally:
            process.kill()


def _deletion(
    hand: Hand, process: Process, path: str, options: Mapping[str, Any], done: Callable[[], bool]
) -> dict[str, float]:
    cpu, began = process.cpu(), time.monotonic()
    _must(hand, "DELETE", path, options)
    _until(done)
    return {"seconds": time.monotonic() - began, "cpu_seconds": process.cpu() - cpu}


def _fill(hand: Hand, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    spec = {"ports": [{"port": 80}]}
    bodies: list[tuple[str, Mapping[str, Any]]] = [
        *((f"{path}/pods", {"metadata": {"name": f"p{i}"}, "spec": TEMPLATE["spec"]}) for i in range(PODS)),
        *((f"{path}/configmaps", {"metadata": {"name": f"c{i}"}}) for i in range(CONFIGMAPS)),
        *((f"{path}/services", {"metadata": {"name": f"s{i}"}, "spec": spec}) for i in range(SERVICES)),
        (
            f"/apis/{GROUP}/v1/namespaces/{namespace}/things",
            {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "t"}},
        ),
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda one: _must(hand, "POST", *one), bodies))


def _gone(hand: Hand, path: str) -> bool:
    return hand.ask("GET", path).status == 404


def _number(hand: Hand, path: str) -> int:
    """One of the first page, and how many follow."""
    found = orjson.loads(hand.ask("GET", path, query={"limit": "1"}).body)
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0)


def _must(hand: Hand, method: str, path: str, body: Mapping[str, Any]) -> None:
    response = hand.ask(method, path, orjson.dumps(body))
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN:.0f} s")
        time.sleep(GLANCE)
