"""Objects of a large cluster, which are copies of objects that controllers have created.

A manager, a hollow node and a scheduler create one Deployment, its ReplicaSet and its pod, in a namespace of their own.
The copies are written into the database of a stopped server: 150,000 pods take seconds instead of a quarter of an
hour. A manager that starts on them has nothing to correct. embedded_store.py and etcd_store.py contain the databases.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from tests.bench.defaults import with_defaults
from tests.bench.kubelets import node_name
from tests.bench.processes import RAISED_LIMITS, ApiConnection, Cluster, Process, hollow_nodes, scratch

APP, NAMESPACE, NODE, ZONE = "prototype-app", "prototype-ns", "hollow-node-0", "zone-a"
ZONES = 5  # the nodes of the last zone have the highest numbers, so that pods are bound to the others by number
PODS_EACH = 50  # of a Deployment
APPS = "/apis/apps/v1"
SETTLE = 3.0  # seconds in which the manager writes the last statuses
TIMEOUT = 60.0
READY_WITHIN = 900.0  # seconds for a server to read its store
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


class Copy(NamedTuple):
    """Object to store. storage: its resource with the group, as `pods` or `deployments.apps`."""

    storage: str
    key: str  # namespace/name, or the name
    body: bytes  # JSON


NODES, CSI_NODES, LEASES = "nodes", "csinodes.storage.k8s.io", "leases.coordination.k8s.io"
NAMESPACES, ACCOUNTS, CONFIG_MAPS = "namespaces", "serviceaccounts", "configmaps"
DEPLOYMENTS, REPLICA_SETS, PODS = "deployments.apps", "replicasets.apps", "pods"
# Copied objects: storage and first part of the key.
ORIGINALS: tuple[tuple[str, str], ...] = (
    (NODES, NODE),
    (CSI_NODES, NODE),
    (LEASES, f"kube-node-lease/{NODE}"),
    (NAMESPACES, NAMESPACE),
    (ACCOUNTS, f"{NAMESPACE}/default"),
    (CONFIG_MAPS, f"{NAMESPACE}/kube-root-ca.crt"),
    (DEPLOYMENTS, f"{NAMESPACE}/{APP}"),
    (REPLICA_SETS, f"{NAMESPACE}/{APP}-"),
    (PODS, f"{NAMESPACE}/{APP}-"),
)
OPTIONAL = (CSI_NODES,)


def create_prototype(cluster: Cluster, start: Callable[..., Process]) -> None:
    """Let a manager and a hollow node create one of each object on a new server. start: function for the manager."""
    with scratch() as logs, hollow_nodes(cluster, nodes=1, zones=1):
        manager = with_defaults(start)(cluster, logs, *RAISED_LIMITS)
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


def copies(originals: Mapping[str, bytes], population: Population) -> Iterator[Copy]:
    """Yield the objects of a population.

    originals: bodies by storage, see ORIGINALS. Raises LookupError if one is missing.
    """
    for storage, _ in ORIGINALS:
        if storage not in originals and storage not in OPTIONAL:
            raise LookupError(f"the prototype does not contain any of {storage}")
    return _Copies(originals).of(population)


class _Copies:
    """Copies with new names, uids and addresses."""

    def __init__(self, originals: Mapping[str, bytes]) -> None:
        self._originals = originals
        self._uids = self._addresses = 0

    def of(self, population: Population) -> Iterator[Copy]:
        for number in range(population.nodes):
            yield from self._node(node_name(number), population.zone_of(number))
        deployments = population.pods // PODS_EACH
        for number in range(population.namespaces):
            namespace = f"ns-{number:05}"
            yield from self._namespace(namespace)
            for app in range(number, deployments, population.namespaces):
                yield from self._deployment(namespace, f"app-{app:05}", PODS_EACH, population.nodes)
        for name, pods in population.crowds.items():
            yield from self._namespace(name)
            yield from self._deployment(name, name, pods, population.nodes)

    def _node(self, name: str, zone: str) -> Iterator[Copy]:
        node = self._originals[NODES]
        names = ((NODE, name), (_uid(node), self._new_uid()))
        yield self._copy(NODES, name, node, *names, (f'"{ZONE}"', f'"{zone}"'))
        yield self._copy(LEASES, f"kube-node-lease/{name}", self._originals[LEASES], *names)
        if CSI_NODES in self._originals:
            yield self._copy(CSI_NODES, name, self._originals[CSI_NODES], *names)

    def _namespace(self, name: str) -> Iterator[Copy]:
        names = (NAMESPACE, name)
        yield self._copy(NAMESPACES, name, self._originals[NAMESPACES], names)
        yield self._copy(ACCOUNTS, f"{name}/default", self._originals[ACCOUNTS], names)
        yield self._copy(CONFIG_MAPS, f"{name}/kube-root-ca.crt", self._originals[CONFIG_MAPS], names)

    def _deployment(self, namespace: str, name: str, pods: int, nodes: int) -> Iterator[Copy]:
        deployment_body, set_body = self._originals[DEPLOYMENTS], self._originals[REPLICA_SETS]
        pod_body = self._originals[PODS]
        set_name, pod_name = _name(set_body), _name(pod_body)
        new_set = set_name.replace(APP, name)
        uids = ((_uid(deployment_body), self._new_uid()), (_uid(set_body), self._new_uid()))
        names = ((NAMESPACE, namespace), (APP, name), *uids)
        yield self._copy(DEPLOYMENTS, f"{namespace}/{name}", _scaled(deployment_body, pods), *names)
        yield self._copy(REPLICA_SETS, f"{namespace}/{new_set}", _scaled(set_body, pods), *names)
        pod_body = _replaced(pod_body, ((pod_name, "POD-NAME"), *names))
        address = orjson.loads(pod_body)["status"]["podIP"]
        for _ in range(pods):
            self._addresses += 1
            number = self._addresses
            new_name = f"{new_set}-{number:06}"
            yield self._copy(
                PODS,
                f"{namespace}/{new_name}",
                pod_body,
                ("POD-NAME", new_name),
                (f'"{NODE}"', f'"{node_name(number % nodes)}"'),
                (f'"{address}"', f'"{_address(number)}"'),
            )

    def _copy(self, storage: str, key: str, body: bytes, *names: tuple[str, str]) -> Copy:
        """Return a copy, with a new uid unless `names` contains that of the body. names: replaced texts."""
        if _uid(body) not in dict(names):
            names = (*names, (_uid(body), self._new_uid()))
        return Copy(storage, key, _replaced(body, names))

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
