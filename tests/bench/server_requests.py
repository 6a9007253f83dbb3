"""`bin/run-bench requests`: the embedded server and the real one are sent the same requests over HTTPS, in turns.

Both check tokens of one service account, which may all by a ClusterRoleBinding, and have all admission plugins on that
kube-apiserver has by default. Beside requests a second the CPU of the server's processes is shown (of the real one's
etcd too): it is what remains comparable where the client or other programs take the cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import orjson

from tests.bench.http_client import Access, Client, Play, Played, Watchers
from tests.bench.only_writes import pod
from tests.bench.processes import Cluster, Hand, embedded_cluster, has_assets, real_cluster
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
    """Those that there are, with all default admission plugins, at the same time."""
    with ExitStack() as stack:
        found = [stack.enter_context(embedded_cluster(disabled=()))]
        if has_assets():
            found.append(stack.enter_context(real_cluster(disabled=())))
        yield {cluster.name: cluster for cluster in found}


def access_by_roles(cluster: Cluster) -> Access:
    """As a service account, whose rights roles say."""
    hand, rbac = Hand(cluster), "/apis/rbac.authorization.k8s.io/v1"
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    try:
        _must(hand, accounts, {"metadata": {"name": "bench"}})
        _must(hand, f"{rbac}/clusterroles", ROLE)
        _must(hand, f"{rbac}/clusterrolebindings", BINDING)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36000}}
        token = orjson.loads(_must(hand, f"{accounts}/bench/token", asked))["status"]["token"]
    finally:
        hand.close()
    return Access(Access.read(cluster.kubeconfig).server, token)


def new_namespace(cluster: Cluster, name: str) -> None:
    """With the account that pods run as, as no controller creates it here."""
    hand = Hand(cluster)
    try:
        _must(hand, "/api/v1/namespaces", {"metadata": {"name": name}})
        _must(hand, f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    finally:
        hand.close()


def _must(hand: Hand, path: str, obj: dict[str, object]) -> bytes:
    response = hand.ask("POST", path, orjson.dumps(obj))
    if response.status not in (200, 201):
        raise RuntimeError(f"POST {path}: {response.status} {response.error} {response.body[:300]!r}")
    return response.body


def deployment(name: str, image: str) -> bytes:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    return orjson.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


class Round:
    """All kinds of requests to one server, in a namespace of its own."""

    def __init__(self, cluster: Cluster, access: Access, namespace: str, report: Report) -> None:
        self._cluster, self._access, self._report = cluster, access, report
        self._client = Client(access, connections=CONNECTIONS)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._names: list[str] = []

    def play(self) -> None:
        self._measure("create", [Play("POST", self._pods, pod(number)) for number in range(WRITES)])
        stored = orjson.loads(self._client.read(self._pods))["items"]
        self._names = [one["metadata"]["name"] for one in stored]
        self._measure("update", [self._update(one) for one in stored])
        query = "?fieldManager=bench&force=true"
        for what, image in (("apply, new", "i:1"), ("apply, changed", "i:2")):
            names = [f"d{number:05}" for number in range(WRITES)]
            bodies = [(name, deployment(name, image)) for name in names]
            plays = [Play("PATCH", f"{self._deployments}/{name}{query}", body, APPLY) for name, body in bodies]
            self._measure(what, plays)
        self._measure("get", [self._get(number) for number in range(GETS)])
        self._measure(f"list of {WRITES}", [Play("GET", self._pods)] * LISTS)
        self._fan_out()

    def _update(self, stored: dict[str, dict[str, object]]) -> Play:
        labels = {"labels": {"app": "only-writes", "round": "two"}}
        body = {**stored, "apiVersion": "v1", "kind": "Pod", "metadata": {**stored["metadata"], **labels}}
        return Play("PUT", f"{self._pods}/{stored['metadata']['name']}", orjson.dumps(body))

    def _get(self, number: int) -> Play:
        return Play("GET", f"{self._pods}/{self._names[number % len(self._names)]}")

    def _measure(self, what: str, plays: list[Play]) -> None:
        cpu, began = self._cluster.cpu(), time.monotonic()
        played = self._client.play(plays)
        self._add(what, played, time.monotonic() - began, self._cluster.cpu() - cpu)

    def _fan_out(self) -> None:
        """From the first change until each of the watches has all of them."""
        changes = [self._label(number) for number in range(CHANGES)]
        with Watchers(self._access, f"{self._pods}?watch=true", count=WATCHING) as watchers:
            watchers.wait_for(WRITES, within=120.0)  # what is there comes first
            cpu, began = self._cluster.cpu(), time.monotonic()
            played = self._client.play(changes)
            watchers.wait_for(WRITES + CHANGES, within=120.0)
            took, cpu = time.monotonic() - began, self._cluster.cpu() - cpu
        self._add(f"patch, {WATCHING} watching", played, took, cpu)

    def _label(self, number: int) -> Play:
        body = orjson.dumps({"metadata": {"labels": {"seen": f"n{number}"}}})
        return Play("PATCH", f"{self._pods}/{self._names[number]}", body, "application/merge-patch+json")

    def _add(self, what: str, played: Played, took: float, cpu: float) -> None:
        requests = len(played.latencies)
        self._report.add(
            f"requests: {what}",
            self._cluster.name,
            per_second=requests / took,
            p50_ms=played.percentile(0.5),
            p99_ms=played.percentile(0.99),
            server_cpu_ms=cpu * 1000 / requests,
        )


def requests(report: Report, rounds: int, listen: Callable[[], None]) -> None:
    """listen: called between rounds, for the noise of the machine."""
    with servers() as found:
        users = {name: access_by_roles(cluster) for name, cluster in found.items()}
        for name, cluster in found.items():
            report.add("requests: empty", name, resident_mb=cluster.resident())
            new_namespace(cluster, "warm")
            Round(cluster, users[name], "warm", Report(quiet=True)).play()
        for number in range(rounds):
            plays = [partial(_round, cluster, users[name], number, report) for name, cluster in found.items()]
            for play in plays if number % 2 == 0 else reversed(plays):
                play()
            listen()


def _round(cluster: Cluster, access: Access, number: int, report: Report) -> None:
    namespace = f"bench-{number}"
    new_namespace(cluster, namespace)
    Round(cluster, access, namespace, report).play()
