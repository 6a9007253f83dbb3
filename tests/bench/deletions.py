"""Duration of deletions: a namespace with more than a thousand objects, and a Deployment of a thousand pods.

The pods are not bound to nodes and so have no grace period: only the work of the managers is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from tests.bench.processes import RAISED_LIMITS, ApiConnection, Cluster, Process, scratch

CONTROLLERS = "deployment,replicaset,namespace,garbagecollector"
PODS, CONFIGMAPS, SERVICES = 1000, 100, 10
CONCURRENCY = 16  # of the benchmark's own requests
SETTLE = 15.0  # seconds for a manager to discover all resources; upstream's garbage collector does it every 30 s
TIMEOUT = 180.0
POLL_INTERVAL = 0.05
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
    cluster: Cluster, api: ApiConnection, start: Callable[..., Process], namespace: Callable[[], str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each deletion, and its figures. `namespace` creates a new namespace."""
    if api.request("GET", f"{CRDS}/things.{GROUP}").status == 404:
        _must(api, "POST", CRDS, CRD)
        _until(lambda: api.request("GET", f"/apis/{GROUP}/v1/things").status == 200)
    with scratch() as directory:
        process = start(cluster, directory, *RAISED_LIMITS, controllers=CONTROLLERS)
        try:
            time.sleep(SETTLE)
            name = namespace()
            _fill(api, name)
            path = f"/api/v1/namespaces/{name}"
            yield f"a namespace with {PODS} pods", _deletion(api, process, path, {}, lambda: _is_deleted(api, path))
            for policy in ("Background", "Foreground"):
                name = namespace()
                pods = f"/api/v1/namespaces/{name}/pods"
                path = f"/apis/apps/v1/namespaces/{name}/deployments"
                _must(api, "POST", path, DEPLOYMENT)
                _until(lambda pods=pods: _number(api, pods) == PODS)
                path += "/web"
                description = f"a Deployment of {PODS}, {policy.lower()}"
                yield (
                    description,
                    _deletion(
                        api,
                        process,
                        path,
                        {"propagationPolicy": policy},
                        lambda path=path, pods=pods: _is_deleted(api, path) and _number(api, pods) == 0,
                    ),
                )
        finally:
            process.kill()


def _deletion(
    api: ApiConnection, process: Process, path: str, options: Mapping[str, Any], done: Callable[[], bool]
) -> dict[str, float]:
    cpu, began = process.cpu(), time.monotonic()
    _must(api, "DELETE", path, options)
    _until(done)
    return {"seconds": time.monotonic() - began, "cpu_seconds": process.cpu() - cpu}


def _fill(api: ApiConnection, namespace: str) -> None:
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
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(lambda path_and_body: _must(api, "POST", *path_and_body), bodies))


def _is_deleted(api: ApiConnection, path: str) -> bool:
    return api.request("GET", path).status == 404


def _number(api: ApiConnection, path: str) -> int:
    """Return the number of objects, from a list of one and its remainingItemCount."""
    page = orjson.loads(api.request("GET", path, query={"limit": "1"}).body)
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)


def _must(api: ApiConnection, method: str, path: str, body: Mapping[str, Any]) -> None:
    response = api.request(method, path, orjson.dumps(body))
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {TIMEOUT:.0f} s")
        time.sleep(POLL_INTERVAL)
