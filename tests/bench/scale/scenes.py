"""Measurements of `bin/run-bench scale` in a large cluster; see run.py."""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.quantities import parse_quantity
from tests.bench.http_client import Access, Client, HttpRequest
from tests.bench.processes import ApiConnection, Cluster, Process, resident_of
from tests.bench.scale.heartbeats import ready_condition
from tests.bench.scale.population import APPS, Population, deployment, template
from tests.bench.workloads import Collection, must

Figures = dict[str, float]

CROWD, TENTH, PROBE = "crowd", "tenth", "probe"  # namespaces, each with a Deployment of the same name
PROBE_PODS = 10
EVICTION_RATE = 0.5  # --node-eviction-rate, nodes a second
IDLE = 60.0  # seconds over which CPU is measured
SAMPLE = 3.0  # seconds between two looks at the CPU time of a manager that settles
CALM = 0.8  # cores: a manager that needs less has settled; on a loaded machine it gets less than it needs
SETTLED_WITHIN = 1800.0
ROLLED_WITHIN = 3600.0  # seconds; 10,000 pods behind a quota take kube-apiserver on two cores some minutes
CHANGES, PAUSE = 100, 0.05  # pods that are changed twice, and seconds between two changes
OUTAGE_WITHIN = 1800.0  # seconds until the nodes of a silent zone are tainted
OBSERVED = 60.0  # seconds of an outage over which the rate of evictions is measured
PROBE_EVERY = 5.0
RECOVERED_WITHIN = 1800.0
PAGE = 1000
WRITERS = 8  # connections of the benchmark's own writes


@dataclass(frozen=True, slots=True)
class Stage:
    """A manager on a large cluster. heartbeats: the process of heartbeats.py."""

    cluster: Cluster
    api: ApiConnection
    manager: Process
    heartbeats: Process
    population: Population

    def wait_until_settled(self) -> None:
        """Wait until the manager needs little CPU in three samples. Raises TimeoutError."""
        calm, deadline = 0, time.monotonic() + SETTLED_WITHIN
        while calm < 3:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the manager has not settled after {SETTLED_WITHIN:.0f} s")
            before, began = self.manager.demand(), time.monotonic()
            time.sleep(SAMPLE)
            needed = (self.manager.demand() - before) / (time.monotonic() - began)
            calm = calm + 1 if needed < CALM else 0

    def cores(self, seconds: float) -> float:
        """Return the number of cores that the manager uses during the next `seconds`."""
        cpu, began = self.manager.cpu(), time.monotonic()
        time.sleep(seconds)
        return (self.manager.cpu() - cpu) / (time.monotonic() - began)

    def deployments(self, namespace: str) -> Collection:
        return Collection(self.api, namespace, f"{APPS}/namespaces/{{}}/deployments")


def first_act(api: ApiConnection, start: Callable[[], Process], number: int) -> tuple[Process, float]:
    """Start a manager, and return it with the seconds until it has created the first pod.

    number: of the start, which is part of the name of a new Deployment
    """
    name = f"first-{number}"
    collection = Collection(api, PROBE, f"{APPS}/namespaces/{{}}/deployments")
    collection.create(deployment(name, 1))
    process = start()
    try:
        with collection.reaching(
            lambda found: found["metadata"]["name"] == name and found["status"].get("replicas") == 1
        ):
            pass
    except BaseException:
        process.kill()
        raise
    return process, time.monotonic() - process.began


def make_nodes_ready(cluster: Cluster, api: ApiConnection) -> int:
    """Report nodes as ready that a manager took for lost, and their pods, as kubelets do. Return the number of nodes.

    On a busy machine a manager may see heartbeats too late. Those that follow do not correct the condition.
    """
    nodes = [node["metadata"]["name"] for node in _items(api, "/api/v1/nodes") if not _is_ready(node)]
    for name in nodes:
        _set_condition(api, f"/api/v1/nodes/{name}", ready_condition(datetime.now(UTC)))
    if nodes:
        make_pods_ready(cluster, api)
    return len(nodes)


def idle(stage: Stage) -> Figures:
    of_server = stage.cluster.cpu()
    percent = stage.cores(IDLE) * 100
    return {
        "resident_mb": stage.manager.resident(),
        "idle_cpu_percent": percent,
        "idle_server_cpu_percent": (stage.cluster.cpu() - of_server) / IDLE * 100,
        "server_mb": stage.cluster.resident(),
        **({"etcd_mb": resident_of(stage.cluster.pids[1])} if len(stage.cluster.pids) > 1 else {}),
    }


def changes(stage: Stage, namespace: str, *, resting: float) -> Figures:
    """Change pods behind a quota, a Service and a PodDisruptionBudget, one after the other.

    resting: cores that the manager uses without the changes
    """
    cpu, began = stage.manager.cpu(), time.monotonic()
    changed = change_pods(stage.api, namespace, pause=PAUSE, count=2 * CHANGES)
    time.sleep(SAMPLE)
    spent = stage.manager.cpu() - cpu - resting * (time.monotonic() - began)
    return {"cpu_ms_per_change": spent * 1000 / changed}


def change_pods(api: ApiConnection, namespace: str, *, pause: float, count: int) -> int:
    """Make pods unready and ready again, and return the number of changes, which is even.

    pause: seconds between two changes
    count: maximum number of changes
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = orjson.loads(must(api, "GET", path, {}, limit=str(count // 2)))["items"]
    for status in ("False", "True"):
        for pod in pods:
            _set_condition(api, f"{path}/{pod['metadata']['name']}", {"type": "Ready", "status": status})
            time.sleep(pause)
    return 2 * len(pods)


def rollout(stage: Stage, pods: int) -> Figures:
    """Roll all pods of one namespace at once."""
    steady = stage.manager.resident()
    stage.manager.forget_peak()
    cpu, of_server, began = stage.manager.cpu(), stage.cluster.cpu(), time.monotonic()
    roll(stage, CROWD, pods, image=f"i:{time.time_ns()}")
    took = time.monotonic() - began
    figures = {
        "seconds": took,
        "pods_per_second": pods / took,
        "cpu_ms_per_pod": (stage.manager.cpu() - cpu) * 1000 / pods,
        "server_cpu_ms_per_pod": (stage.cluster.cpu() - of_server) * 1000 / pods,
        "peak_mb": stage.manager.peak(),
        "peak_beside_steady": stage.manager.peak() / steady,
    }
    time.sleep(2 * SAMPLE)
    return {**figures, "resident_mb_afterwards": stage.manager.resident()}


def roll(stage: Stage, name: str, pods: int, *, image: str) -> None:
    """Change the template of a Deployment, and wait until all of its pods are available."""

    def is_rolled(found: Mapping[str, Any]) -> bool:
        status = found["status"]
        wanted = ("replicas", "updatedReplicas", "availableReplicas")
        return (
            found["metadata"]["name"] == name
            and found["spec"]["template"]["spec"]["containers"][0]["image"] == image
            and status.get("observedGeneration") == found["metadata"]["generation"]
            and all(status.get(figure) == pods for figure in wanted)
        )

    collection = stage.deployments(name)
    collection.patch(name, {"spec": {"template": template(name, image=image)}})
    with collection.reaching(is_rolled, within=ROLLED_WITHIN):
        pass


def probe(stage: Stage) -> float:
    """Roll a small Deployment, and return the seconds that it took."""
    began = time.monotonic()
    roll(stage, PROBE, PROBE_PODS, image=f"i:{time.time_ns()}")
    return time.monotonic() - began


@dataclass
class FarNodes:
    """Nodes of the zone that falls silent, as a watch shows them. Times are monotonic."""

    population: Population
    unreachable: set[str] = field(default_factory=set)  # NoSchedule
    evicted: dict[str, float] = field(default_factory=dict)  # NoExecute: when it was first seen
    others: set[str] = field(default_factory=set)  # nodes of other zones that are tainted

    def on_lines(self, lines: bytes) -> None:
        for line in lines.splitlines():
            node = orjson.loads(line)["object"]
            name = node["metadata"]["name"]
            taints = {
                taint["effect"]
                for taint in node["spec"].get("taints") or ()
                if taint["key"] == "node.kubernetes.io/unreachable"
            }
            is_far = node["metadata"].get("labels", {}).get("topology.kubernetes.io/zone") == "zone-far"
            if not is_far:
                (self.others.add if taints else self.others.discard)(name)
                continue
            (self.unreachable.add if taints else self.unreachable.discard)(name)
            if "NoExecute" in taints:
                self.evicted.setdefault(name, time.monotonic())
            else:
                self.evicted.pop(name, None)


def outage(stage: Stage) -> Figures:
    """Let a zone fall silent, and roll a small Deployment before and during the outage. The zone then returns."""
    far = stage.population.nodes - stage.population.near_nodes
    before = [probe(stage) for _ in range(5)]
    nodes = FarNodes(stage.population)
    during: list[float] = []
    with stage.api.watching("/api/v1/nodes", nodes.on_lines):
        began = time.monotonic()
        stage.heartbeats.send_signal(signal.SIGUSR1)
        try:
            _until(lambda: len(nodes.unreachable) > 0, "a silent node is tainted", within=OUTAGE_WITHIN)
            first, full = time.monotonic(), math.inf
            while time.monotonic() < full + OBSERVED:
                if time.monotonic() > began + OUTAGE_WITHIN:
                    raise TimeoutError(f"{len(nodes.unreachable)} of {far} nodes are tainted")
                if full == math.inf and len(nodes.unreachable) == far:
                    full = time.monotonic()
                during.append(probe(stage))
                time.sleep(PROBE_EVERY)
            # Until the whole zone is silent, the rate of a partial disruption applies.
            times = sorted(seen for seen in nodes.evicted.values() if seen >= full)
            figures = {
                "nodes": far,
                "seconds_to_first_taint": first - began,
                "seconds_to_all_taints": full - began,
                "nodes_evicted": len(times),
                "evictions_per_second": (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0,
                "rollout_before_seconds": statistics.median(before),
                "rollout_before_seconds_most": max(before),
                "rollout_during_seconds": statistics.median(during),
                "rollout_during_seconds_most": max(during),
                "peak_mb": stage.manager.peak(),
                "near_nodes_tainted": len(nodes.others),
            }
        finally:
            stage.heartbeats.send_signal(signal.SIGUSR2)
        _until(lambda: not nodes.unreachable and not nodes.evicted, "the taints are removed", within=RECOVERED_WITHIN)
    make_pods_ready(stage.cluster, stage.api)
    return figures


def make_pods_ready(cluster: Cluster, api: ApiConnection) -> None:
    """Report the pods on the returned nodes as ready again, as their kubelets do."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [
        {"type": type, "status": "True", "lastTransitionTime": stamp} for type in ("Ready", "ContainersReady")
    ]
    body = orjson.dumps({"status": {"conditions": conditions}})
    paths = [
        f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        for pod in pods_of(api)
        if not _is_ready(pod)
    ]
    client = Client(Access.read(cluster.kubeconfig), connections=WRITERS)
    client.send([HttpRequest("PATCH", path, body, PatchType.STRATEGIC) for path in paths])


def lost(stage: Stage) -> Iterator[str]:
    """Yield a line for each object that does not have what its spec and the existing pods require.

    First wait until all Deployments are complete.
    """
    _until(lambda: not _incomplete(stage), "all Deployments are available", within=RECOVERED_WITHIN)
    time.sleep(2 * SAMPLE)  # EndpointSlices and quotas follow
    by_set: Counter[str] = Counter()
    by_namespace: dict[str, set[str]] = {}
    for pod in pods_of(stage.api):
        meta = pod["metadata"]
        (owner,) = meta["ownerReferences"]
        by_set[owner["uid"]] += 1
        by_namespace.setdefault(meta["namespace"], set()).add(meta["uid"])
        if not _is_ready(pod) or not pod["spec"].get("nodeName"):
            yield f"pod {meta['namespace']}/{meta['name']} is not ready"
    for replica_set in _items(stage.api, f"{APPS}/replicasets"):
        meta, wanted = replica_set["metadata"], replica_set["spec"]["replicas"]
        if by_set.pop(meta["uid"], 0) != wanted or replica_set["status"].get("readyReplicas", 0) != wanted:
            yield f"ReplicaSet {meta['namespace']}/{meta['name']} has not {wanted} pods"
    if by_set:
        yield f"{by_set.total()} pods have no ReplicaSet"
    for namespace in (CROWD, TENTH):
        pods = by_namespace[namespace]
        yield from _wrong_selections(stage.api, namespace, pods)


def _wrong_selections(api: ApiConnection, namespace: str, pods: set[str]) -> Iterator[str]:
    (quota,) = _items(api, f"/api/v1/namespaces/{namespace}/resourcequotas")
    if parse_quantity(quota["status"]["used"]["pods"]) != len(pods):
        yield f"the quota of {namespace} counts {quota['status']['used']['pods']} of {len(pods)} pods"
    (budget,) = _items(api, f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
    if not budget["status"]["expectedPods"] == budget["status"]["currentHealthy"] == len(pods):
        yield f"the budget of {namespace} has {budget['status']} with {len(pods)} pods"
    slices = list(_items(api, f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"))
    endpoints = Counter(endpoint["targetRef"]["uid"] for part in slices for endpoint in part["endpoints"] or ())
    ready = {
        endpoint["targetRef"]["uid"]
        for part in slices
        for endpoint in part["endpoints"] or ()
        if endpoint["conditions"].get("ready")
    }
    if ready != pods or endpoints.total() != len(pods):
        yield f"the Service of {namespace} has {endpoints.total()} endpoints, {len(ready & pods)} of {len(pods)} pods"


def _incomplete(stage: Stage) -> bool:
    return any(
        item["status"].get("availableReplicas", 0) != item["spec"]["replicas"]
        or item["status"].get("replicas") != item["spec"]["replicas"]
        or item["status"].get("observedGeneration") != item["metadata"]["generation"]
        for item in _items(stage.api, f"{APPS}/deployments")
    )


def pods_of(api: ApiConnection) -> Iterator[dict[str, Any]]:
    return _items(api, "/api/v1/pods")


def _items(api: ApiConnection, path: str) -> Iterator[dict[str, Any]]:
    """Read a collection page by page."""
    token = ""
    while True:
        query = {"limit": str(PAGE), **({"continue": token} if token else {})}
        page = orjson.loads(must(api, "GET", path, {}, **query))
        yield from page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return


def _is_ready(obj: Mapping[str, Any]) -> bool:
    """Report whether the condition Ready of a pod or node is true."""
    conditions = obj["status"].get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _set_condition(api: ApiConnection, path: str, condition: Mapping[str, str]) -> None:
    """Patch a condition of the status. path: of the object"""
    body = orjson.dumps({"status": {"conditions": [condition]}})
    response = api.request("PATCH", f"{path}/status", body, content_type=PatchType.STRATEGIC)
    if response.status != 200:
        raise RuntimeError(f"PATCH {path}/status: {response.status} {response.error} {response.body[:200]!r}")


def _until(condition: Callable[[], bool], description: str, *, within: float) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:.0f} s: {description}")
        time.sleep(1.0)
