"""Stores of an embedded API server with many objects, which are copies of objects that controllers have created.

A manager, a hollow node and a scheduler create one Deployment, its ReplicaSet and its pod, in a namespace of their own.
The copies are written into the database of the stopped server: 150,000 pods take seconds instead of a quarter of an
hour. A manager that starts on them has nothing to correct.
"""

from __future__ import annotations

import math
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kcm.runtime.apiserver.process.launch import STORE
from tests.bench.defaults import with_defaults
from tests.bench.kubelets import node_name
from tests.bench.processes import (
    RAISED_LIMITS,
    ApiConnection,
    Cluster,
    embedded_cluster,
    hollow_nodes,
    our_manager,
    scratch,
)

APP, NAMESPACE, NODE, ZONE = "prototype-app", "prototype-ns", "hollow-node-0", "zone-a"
ZONES = 5  # the nodes of the last zone have the highest numbers, so that pods are bound to the others by number
PODS_EACH = 50  # of a Deployment
APPS = "/apis/apps/v1"
SETTLE = 3.0  # seconds in which the manager writes the last statuses
TIMEOUT = 60.0
READY_WITHIN = 600.0  # seconds for a server to read its store
FIRST_ADDRESS = 10 << 24  # 10.0.0.0
# An outage is visible within seconds: pods tolerate the taint of a lost node for 2 s.
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for taint in ("unreachable", "not-ready")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Numbers of objects.

    pods: in Deployments of PODS_EACH pods, spread over the namespaces
    crowds: pods by namespace, each in one Deployment with the name of the namespace
    """

    nodes: int
    pods: int
    namespaces: int
    crowds: Mapping[str, int] = field(default_factory=dict)

    @property
    def near_nodes(self) -> int:
        """Number of nodes outside of the last zone."""
        return self.nodes - self.nodes // ZONES

    def zone_of(self, node: int) -> str:
        near = self.near_nodes
        return "zone-far" if node >= near else f"zone-{node * (ZONES - 1) // near}"


def template(app: str, *, image: str = "i:1") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "10m"}}}],
            "terminationGracePeriodSeconds": 0,  # the server removes deleted pods itself
            "tolerations": TOLERATIONS,
        },
    }


def deployment(name: str, replicas: int) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return {"metadata": {"name": name}, "spec": spec}


@contextmanager
def server(directory: Path) -> Iterator[Cluster]:
    """Run a server on a directory, with all default admission plugins."""
    with embedded_cluster(disabled=(), directory=directory, ready_within=READY_WITHIN) as cluster:
        yield cluster


def make_prototype(directory: Path) -> None:
    """Let a manager and a hollow node create one of each object in a new server directory."""
    with server(directory) as cluster, scratch() as logs, hollow_nodes(cluster, nodes=1, zones=1):
        manager = with_defaults(our_manager)(cluster, logs, *RAISED_LIMITS)
        api = ApiConnection(cluster)
        try:
            _must(api, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
            _until(lambda: api.request("GET", accounts).status == 200, "the namespace has its service account")
            deployments = f"{APPS}/namespaces/{NAMESPACE}/deployments"
            _must(api, "POST", deployments, deployment(APP, 1))
            path = f"{deployments}/{APP}"
            _until(lambda: _must(api, "GET", path)["status"].get("availableReplicas") == 1, "the pod is available")
            time.sleep(SETTLE)
        finally:
            api.close()
            manager.kill()


def populate(prototype: Path, directory: Path, population: Population) -> None:
    """Create the directory of a server with the objects of a population. prototype: see make_prototype."""
    shutil.copytree(prototype, directory, ignore=shutil.ignore_patterns("*.sock"))
    with closing(sqlite3.connect(directory / STORE, isolation_level=None)) as connection:
        copies = _Copies(connection)
        connection.execute("BEGIN")
        copies.add_all(population)
        connection.execute("COMMIT")


class _Copies:
    """Rows of a store that replace those of the prototype."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (self._revision,) = connection.execute("SELECT revision FROM newest").fetchone()
        self._uids = self._addresses = 0
        self._rows: list[tuple[str, str, int, bytes]] = []
        self._node, self._csi_node = self._take("nodes", NODE), self._take("csinodes.storage.k8s.io", NODE)
        self._lease = self._take("leases.coordination.k8s.io", f"kube-node-lease/{NODE}")
        self._namespace = self._take("namespaces", NAMESPACE)
        self._account = self._take("serviceaccounts", f"{NAMESPACE}/default")
        self._authority = self._take("configmaps", f"{NAMESPACE}/kube-root-ca.crt")
        self._deployment = self._take("deployments.apps", f"{NAMESPACE}/{APP}")
        self._replica_set = self._take("replicasets.apps", f"{NAMESPACE}/{APP}-%")
        self._pod = self._take("pods", f"{NAMESPACE}/{APP}-%")
        connection.execute("DELETE FROM objects WHERE key LIKE ?", (f"{NAMESPACE}/%",))

    def _take(self, storage: str, key: str) -> bytes | None:
        """Remove an object from the store and return it; None if there is none. key: a pattern of LIKE."""
        where = "FROM objects WHERE storage = ? AND key LIKE ?"
        row = self._connection.execute(f"SELECT body {where}", (storage, key)).fetchone()
        self._connection.execute(f"DELETE {where}", (storage, key))
        return None if row is None else bytes(row[0])

    def add_all(self, population: Population) -> None:
        for number in range(population.nodes):
            self._add_node(node_name(number), population.zone_of(number))
        deployments = population.pods // PODS_EACH
        for number in range(population.namespaces):
            namespace = f"ns-{number:05}"
            self._add_namespace(namespace)
            for app in range(number, deployments, population.namespaces):
                self._add_deployment(namespace, f"app-{app:05}", PODS_EACH, population.nodes)
        for name, pods in population.crowds.items():
            self._add_namespace(name)
            self._add_deployment(name, name, pods, population.nodes)
        self._write()
        self._connection.execute("UPDATE newest SET revision = ?", (self._revision,))

    def _add_node(self, name: str, zone: str) -> None:
        node = _present(self._node, "the node")
        uid = self._new_uid()
        names = ((NODE, name), (_uid(node), uid))
        self._add("nodes", name, node, *names, (f'"{ZONE}"', f'"{zone}"'))
        self._add("leases.coordination.k8s.io", f"kube-node-lease/{name}", _present(self._lease, "the Lease"), *names)
        if self._csi_node is not None:
            self._add("csinodes.storage.k8s.io", name, self._csi_node, *names)

    def _add_namespace(self, name: str) -> None:
        names = (NAMESPACE, name)
        self._add("namespaces", name, _present(self._namespace, "the namespace"), names)
        self._add("serviceaccounts", f"{name}/default", _present(self._account, "the service account"), names)
        self._add("configmaps", f"{name}/kube-root-ca.crt", _present(self._authority, "the root certificate"), names)

    def _add_deployment(self, namespace: str, name: str, pods: int, nodes: int) -> None:
        deployment_body, set_body = _present(self._deployment, "the Deployment"), _present(self._replica_set, "its set")
        pod_body = _present(self._pod, "its pod")
        set_name, pod_name = _name(set_body), _name(pod_body)
        new_set = set_name.replace(APP, name)
        uids = ((_uid(deployment_body), self._new_uid()), (_uid(set_body), self._new_uid()))
        names = ((NAMESPACE, namespace), (APP, name), *uids)
        deployments = _scaled(deployment_body, pods)
        self._add("deployments.apps", f"{namespace}/{name}", deployments, *names)
        self._add("replicasets.apps", f"{namespace}/{new_set}", _scaled(set_body, pods), *names)
        pod_body = _replaced(pod_body, ((pod_name, "POD-NAME"), *names))
        address = orjson.loads(pod_body)["status"]["podIP"]
        for _ in range(pods):
            self._addresses += 1
            number = self._addresses
            new_name = f"{new_set}-{number:06}"
            self._add(
                "pods",
                f"{namespace}/{new_name}",
                pod_body,
                ("POD-NAME", new_name),
                (f'"{NODE}"', f'"{node_name(number % nodes)}"'),
                (f'"{address}"', f'"{_address(number)}"'),
            )

    def _add(self, storage: str, key: str, body: bytes, *names: tuple[str, str]) -> None:
        """Add a copy, with a new uid unless `names` contains that of the body. names: replaced texts."""
        self._revision += 1
        if _uid(body) not in dict(names):
            names = (*names, (_uid(body), self._new_uid()))
        body = _replaced(body, names)
        body = re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":"%d"' % self._revision, body, count=1)
        self._rows.append((storage, key, self._revision, body))
        if len(self._rows) == 10_000:
            self._write()

    def _write(self) -> None:
        self._connection.executemany("INSERT INTO objects VALUES (?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def _new_uid(self) -> str:
        self._uids += 1
        return f"{self._uids:08x}-0000-4000-8000-000000000000"


def _replaced(body: bytes, names: tuple[tuple[str, str], ...]) -> bytes:
    for old, new in names:
        body = body.replace(old.encode(), new.encode())
    return body


def _scaled(body: bytes, pods: int) -> bytes:
    """Return a Deployment or ReplicaSet of one pod with the numbers of `pods` pods."""
    obj = orjson.loads(body)
    obj["spec"]["replicas"] = pods
    obj["status"] |= {name: pods for name, value in obj["status"].items() if name.endswith("eplicas") and value == 1}
    annotations = obj["metadata"].get("annotations") or {}
    for name, value in (("desired-replicas", pods), ("max-replicas", pods + math.ceil(pods / 4))):
        if f"deployment.kubernetes.io/{name}" in annotations:
            annotations[f"deployment.kubernetes.io/{name}"] = str(value)
    return orjson.dumps(obj)


def _name(body: bytes) -> str:
    return str(orjson.loads(body)["metadata"]["name"])


def _uid(body: bytes) -> str:
    found = re.search(rb'"uid":"([^"]+)"', body)
    assert found is not None
    return found[1].decode()


def _address(number: int) -> str:
    value = FIRST_ADDRESS + number
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _present(body: bytes | None, description: str) -> bytes:
    if body is None:
        raise LookupError(f"the prototype does not contain {description}")
    return body


def _must(api: ApiConnection, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    response = api.request(method, path, orjson.dumps(body) if body is not None else b"")
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")
    answer: dict[str, Any] = orjson.loads(response.body)
    return answer


def _until(condition: Any, description: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {TIMEOUT:.0f} s: {description}")
        time.sleep(0.1)
