"""`bin/run-bench requests`: the same requests over HTTPS to the embedded server and to kube-apiserver.

Both authenticate the token of a service account, authorize it by a ClusterRoleBinding, and have kube-apiserver's
default admission plugins enabled. The CPU time of the server's processes (including etcd) is measured beside the rate:
it remains comparable when the client or other programs use the cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import orjson

from tests.bench.http_client import Access, Client, HttpRequest, Responses, Watchers
from tests.bench.pod_writer import pod
from tests.bench.processes import ApiConnection, Cluster, embedded_cluster, has_assets, real_cluster
from tests.bench.report import Report

CONNECTIONS = 16
WRITES, GETS, LISTS = 600, 2000, 300  # requests in a round; a list contains the pods of the round
WATCHING, CHANGES = 50, 200
APPLY = "application/apply-patch+yaml"
BINDING = {
    "metadata": {"name": "bench"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
    "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "kube-system"}],
}
ROLE = {"metadata": {"name": "bench"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}


@contextmanager
def servers() -> Iterator[dict[str, Cluster]]:
    """Start the embedded server, and kube-apiserver if available, with all default admission plugins enabled."""
    with ExitStack() as stack:
        clusters = [stack.enter_context(embedded_cluster(disabled=()))]
        if has_assets():
            clusters.append(stack.enter_context(real_cluster(disabled=())))
        yield {cluster.name: cluster for cluster in clusters}


def access_by_roles(cluster: Cluster) -> Access:
    """Create a service account that a ClusterRole allows everything, and return the access with its token."""
    api, rbac = ApiConnection(cluster), "/apis/rbac.authorization.k8s.io/v1"
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    try:
        _must(api, accounts, {"metadata": {"name": "bench"}})
        _must(api, f"{rbac}/clusterroles", ROLE)
        _must(api, f"{rbac}/clusterrolebindings", BINDING)
        token_request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 36000},
        }
        token = orjson.loads(_must(api, f"{accounts}/bench/token", token_request))["status"]["token"]
    finally:
        api.close()
    return Access(Access.read(cluster.kubeconfig).server, token)


def new_namespace(cluster: Cluster, name: str) -> None:
    """Create a namespace, and its default service account, which no controller creates here."""
    api = ApiConnection(cluster)
    try:
        _must(api, "/api/v1/namespaces", {"metadata": {"name": name}})
        _must(api, f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    finally:
        api.close()


def _must(api: ApiConnection, path: str, obj: dict[str, object]) -> bytes:
    response = api.request("POST", path, orjson.dumps(obj))
    if response.status not in (200, 201):
        raise RuntimeError(f"POST {path}: {response.status} {response.error} {response.body[:300]!r}")
    return response.body


def deployment(name: str, image: str) -> bytes:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    return orjson.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


class Round:
    """Sends all kinds of requests to one server, in a new namespace."""

    def __init__(self, cluster: Cluster, access: Access, namespace: str, report: Report) -> None:
        self._cluster, self._access, self._report = cluster, access, report
        self._client = Client(access, connections=CONNECTIONS)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._names: list[str] = []

    def run(self) -> None:
        self._measure("create", [HttpRequest("POST", self._pods, pod(number)) for number in range(WRITES)])
        stored = orjson.loads(self._client.read(self._pods))["items"]
        self._names = [item["metadata"]["name"] for item in stored]
        self._measure("update", [self._update(item) for item in stored])
        query = "?fieldManager=bench&force=true"
        for name, image in (("apply, new", "i:1"), ("apply, changed", "i:2")):
            bodies = {f"d{number:05}": deployment(f"d{number:05}", image) for number in range(WRITES)}
            self._measure(
                name,
                [
                    HttpRequest("PATCH", f"{self._deployments}/{deployment_name}{query}", body, APPLY)
                    for deployment_name, body in bodies.items()
                ],
            )
        self._measure("get", [self._get(number) for number in range(GETS)])
        self._measure(f"list of {WRITES}", [HttpRequest("GET", self._pods)] * LISTS)
        self._fan_out()

    def _update(self, stored: dict[str, dict[str, object]]) -> HttpRequest:
        labels = {"labels": {"app": "only-writes", "round": "two"}}
        body = {**stored, "apiVersion": "v1", "kind": "Pod", "metadata": {**stored["metadata"], **labels}}
        return HttpRequest("PUT", f"{self._pods}/{stored['metadata']['name']}", orjson.dumps(body))

    def _get(self, number: int) -> HttpRequest:
        return HttpRequest("GET", f"{self._pods}/{self._names[number % len(self._names)]}")

    def _measure(self, name: str, requests: list[HttpRequest]) -> None:
        cpu, began = self._cluster.cpu(), time.monotonic()
        responses = self._client.send(requests)
        self._add(name, responses, time.monotonic() - began, self._cluster.cpu() - cpu)

    def _fan_out(self) -> None:
        """Measure from the first change until every watch has received all changes."""
        changes = [self._label(number) for number in range(CHANGES)]
        with Watchers(self._access, f"{self._pods}?watch=true", count=WATCHING) as watchers:
            watchers.wait_for(WRITES, within=120.0)  # the existing objects come first
            cpu, began = self._cluster.cpu(), time.monotonic()
            responses = self._client.send(changes)
            watchers.wait_for(WRITES + CHANGES, within=120.0)
            took, cpu = time.monotonic() - began, self._cluster.cpu() - cpu
        self._add(f"patch, {WATCHING} watching", responses, took, cpu)

    def _label(self, number: int) -> HttpRequest:
        body = orjson.dumps({"metadata": {"labels": {"seen": f"n{number}"}}})
        return HttpRequest("PATCH", f"{self._pods}/{self._names[number]}", body, "application/merge-patch+json")

    def _add(self, name: str, responses: Responses, took: float, cpu: float) -> None:
        requests = len(responses.latencies)
        self._report.add(
            f"requests: {name}",
            self._cluster.name,
            per_second=requests / took,
            p50_ms=responses.percentile(0.5),
            p99_ms=responses.percentile(0.99),
            server_cpu_ms=cpu * 1000 / requests,
        )


def requests(report: Report, rounds: int, measure_noise: Callable[[], None]) -> None:
    """Run the benchmark. `measure_noise` is called between rounds."""
    with servers() as clusters:
        users = {name: access_by_roles(cluster) for name, cluster in clusters.items()}
        for name, cluster in clusters.items():
            report.add("requests: empty", name, resident_mb=cluster.resident())
            new_namespace(cluster, "warm")
            Round(cluster, users[name], "warm", Report(quiet=True)).run()
        for number in range(rounds):
            runs = [partial(_round, cluster, users[name], number, report) for name, cluster in clusters.items()]
            for run in runs if number % 2 == 0 else reversed(runs):
                run()
            measure_noise()


def _round(cluster: Cluster, access: Access, number: int, report: Report) -> None:
    namespace = f"bench-{number}"
    new_namespace(cluster, namespace)
    Round(cluster, access, namespace, report).run()
