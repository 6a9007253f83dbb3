"""Benchmarks of a manager: rate of created pods, time to the first act, cost of an idle manager and of many nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson

from kcm.protocols.messages.watches import EVERYTHING, Interest
from tests.bench import deletions, workloads
from tests.bench.custom_resources import custom_resources
from tests.bench.defaults import CREATED, WHOLE_LIFE, WITH_SERVICES, Load, with_defaults
from tests.bench.defaults import measure as measure_defaults
from tests.bench.fan_out import PODS_TOTAL, WATCHERS, burst, manager_with_watchers, scale_to_zero, whole_lives
from tests.bench.nodes import heartbeats
from tests.bench.processes import RAISED_LIMITS, ApiConnection, Cluster, Process, our_manager, scratch
from tests.bench.report import Report
from tests.bench.selections import SELECTIONS, fill, measure_selection

Start = Callable[..., Process]
SETTLE = 3.0  # seconds for a manager to start before workloads are created
IDLE = 30.0  # seconds: three rounds of kcm's discovery, one of upstream's garbage collector


def template(app: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


KINDS = {"replicasets": "ReplicaSet", "deployments": "Deployment", "statefulsets": "StatefulSet"}


def workload(kind: str, name: str, replicas: int) -> bytes:
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name),
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return orjson.dumps({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


class Bench:
    """Cluster in which each measurement gets a new namespace, whose name is never reused."""

    def __init__(self, cluster: Cluster, report: Report, sizes: workloads.Sizes) -> None:
        self.cluster, self.report, self.sizes, self.api = cluster, report, sizes, ApiConnection(cluster)
        self._count = 0

    def namespace(self) -> str:
        self._count += 1
        name = f"bench-{os.getpid()}-{self._count}"
        self._must("POST", "/api/v1/namespaces", orjson.dumps({"metadata": {"name": name}}))
        return name

    def create(self, namespace: str, plural: str, body: bytes) -> None:
        self._must("POST", f"/apis/apps/v1/namespaces/{namespace}/{plural}", body)

    def wait_for(self, namespace: str, plural: str, replicas: int, *, within: float = 180.0) -> None:
        """Wait until the sum of status.replicas is `replicas`."""
        # By a watch: polling would cost the server CPU time.
        seen: dict[str, int] = {}
        reached = threading.Event()

        def on_lines(lines: bytes) -> None:
            for line in lines.splitlines():
                item = orjson.loads(line)["object"]
                seen[item["metadata"]["name"]] = item.get("status", {}).get("replicas", 0)
            if sum(seen.values()) == replicas:
                reached.set()

        path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
        with self.api.watching(path, on_lines):
            if not reached.wait(within):
                seen_now = sum(seen.values())
                raise TimeoutError(f"{seen_now} of {replicas} replicas after {within:.0f} s on {self.cluster.name}")

    def _must(self, method: str, path: str, body: bytes = b"") -> bytes:
        response = self.api.request(method, path, body)
        if not 200 <= response.status < 300:
            raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")
        return response.body


@contextmanager
def manager(start: Start, bench: Bench, *flags: str) -> Iterator[Process]:
    with scratch() as directory:
        process = start(bench.cluster, directory, *flags)
        try:
            time.sleep(SETTLE)
            yield process
        finally:
            process.kill()


def measure(
    bench: Bench, name: str, who: str, start: Start, sets: list[tuple[str, int]], plural: str, *flags: str
) -> None:
    """Create all sets at once, and measure until the last one has its replicas."""
    pods = sum(replicas for _, replicas in sets)
    kind = KINDS[plural]
    with manager(start, bench, *RAISED_LIMITS, *flags) as process:
        namespace = bench.namespace()
        cpu, of_server, began = process.cpu(), bench.cluster.cpu(), time.monotonic()
        for set_name, replicas in sets:
            bench.create(namespace, plural, workload(kind, set_name, replicas))
        bench.wait_for(namespace, plural, pods)
        took = time.monotonic() - began
        bench.report.add(
            name,
            f"{who} on {bench.cluster.name}",
            pods_per_second=pods / took,
            cpu_ms_per_pod=(process.cpu() - cpu) * 1000 / pods,
            server_cpu_ms_per_pod=(bench.cluster.cpu() - of_server) * 1000 / pods,
            resident_mb=process.resident(),
        )


def one_large(bench: Bench, who: str, start: Start) -> None:
    measure(bench, "1 ReplicaSet of 1000", who, start, [("large", 1000)], "replicasets")


def many_small(bench: Bench, who: str, start: Start) -> None:
    measure(bench, "100 Deployments of 10", who, start, [(f"d{i}", 10) for i in range(100)], "deployments")


def many_large(bench: Bench, who: str, start: Start) -> None:
    measure(bench, "10 ReplicaSets of 300", who, start, [(f"r{i}", 300) for i in range(10)], "replicasets")


def one_stateful(bench: Bench, who: str, start: Start) -> None:
    flags = "--controllers=statefulset"
    measure(bench, "1 parallel StatefulSet of 500", who, start, [("stateful", 500)], "statefulsets", flags)


def only_writes(bench: Bench, _who: str, start: Start) -> None:
    """Measure a client that only creates pods, on a warmed-up server: the upper bound for every manager."""
    if start is not our_manager:
        return
    for pods in (1000, 3000):
        namespace, of_server = bench.namespace(), bench.cluster.cpu()
        arguments = [str(bench.cluster.kubeconfig), namespace, str(pods)]
        figures = orjson.loads(subprocess.check_output([sys.executable, "-m", "tests.bench.pod_writer", *arguments]))
        bench.report.add(
            f"only {pods} writes",
            f"64 connections on {bench.cluster.name}",
            pods_per_second=pods / figures["seconds"],
            cpu_ms_per_pod=figures["cpu_seconds"] * 1000 / pods,
            server_cpu_ms_per_pod=(bench.cluster.cpu() - of_server) * 1000 / pods,
        )


def restart(bench: Bench, who: str, start: Start, *, title: str = "restart with 30,000 pods") -> None:
    """Start a manager in a cluster with 30,000 pods, and measure the time to its first act and its memory."""
    namespace = f"bench-{os.getpid()}-crowd"
    crowd = [(f"crowd-{i}", 500) for i in range(60)]
    if bench.api.request("GET", f"/api/v1/namespaces/{namespace}").status == 404:
        bench.api.request("POST", "/api/v1/namespaces", orjson.dumps({"metadata": {"name": namespace}}))
        with manager(our_manager, bench, *RAISED_LIMITS):
            for name, replicas in crowd:
                bench.create(namespace, "replicasets", workload("ReplicaSet", name, replicas))
            bench.wait_for(namespace, "replicasets", 30_000, within=600.0)
    fresh = bench.namespace()
    bench.create(fresh, "replicasets", workload("ReplicaSet", "first-act", 1))
    with scratch() as directory:
        process = start(bench.cluster, directory, *RAISED_LIMITS)
        try:
            bench.wait_for(fresh, "replicasets", 1)
            took, cpu = time.monotonic() - process.began, process.cpu()
            time.sleep(5.0)
            bench.report.add(
                title,
                f"{who} on {bench.cluster.name}",
                first_act_seconds=took,
                cpu_seconds=cpu,
                resident_mb=process.resident(),
            )
        finally:
            process.kill()


def idle(bench: Bench, who: str, start: Start, *, title: str = "idle") -> None:
    """Measure the time from launch to the first reconcile, and the CPU time and memory of an idle manager."""
    namespace = bench.namespace()
    bench.create(namespace, "replicasets", workload("ReplicaSet", "launch", 1))
    with scratch() as directory:
        process = start(bench.cluster, directory)
        try:
            bench.wait_for(namespace, "replicasets", 1)
            took, of_start = time.monotonic() - process.began, process.cpu()
            time.sleep(SETTLE)
            cpu, began = process.cpu(), time.monotonic()
            time.sleep(IDLE)
            percent = (process.cpu() - cpu) / (time.monotonic() - began) * 100
            bench.report.add(
                title,
                f"{who} on {bench.cluster.name}",
                launch_seconds=took,
                launch_cpu_seconds=of_start,
                idle_cpu_percent=percent,
                resident_mb=process.resident(),
            )
        finally:
            process.kill()


def nodes(bench: Bench, who: str, start: Start) -> None:
    """Measure the cost of 1000 nodes that send heartbeats every 10 s."""
    figures = heartbeats(bench.cluster, bench.api, start)
    bench.report.add("1000 nodes in 3 zones", f"{who} on {bench.cluster.name}", **figures)


def fan_out(bench: Bench, who: str, start: Start) -> None:
    """Measure the cost of additional watchers of pods that no change matches, and the cost of a pod's whole life.

    Only with kcm, because other managers cannot run additional controllers.
    """
    if start is not our_manager:
        return
    name = "fan-out"
    for count, everything in [*((count, False) for count in WATCHERS), (WATCHERS[-1], True)]:
        benchmark = f"{count} watchers of everything" if everything else f"{count} more watchers"
        interest = EVERYTHING if everything else Interest(owner_kinds=("Job",))
        for figure, value in burst(count, interest=interest).items():
            bench.report.add(name, benchmark, **{f"burst_{figure}": value})
        with scratch() as directory:
            process = manager_with_watchers(bench.cluster, directory, count, everything=everything)
            try:
                time.sleep(SETTLE)
                namespace, cpu = bench.namespace(), process.cpu()
                bench.create(namespace, "replicasets", workload("ReplicaSet", "fan", PODS_TOTAL))
                bench.wait_for(namespace, "replicasets", PODS_TOTAL)
                time.sleep(1.0)
                spent = (process.cpu() - cpu) * 1000 / PODS_TOTAL
                bench.report.add(name, f"{benchmark} on {bench.cluster.name}", cpu_ms_per_pod=spent)
                scale_to_zero(bench.api, namespace, "fan")  # the nodes have no room for the pods of all rounds
            finally:
                process.kill()
    with manager(start, bench, *RAISED_LIMITS, "--controllers=*") as process:
        body = orjson.loads(workload("ReplicaSet", "lives", 0))
        spent = whole_lives(bench.cluster, bench.api, process, bench.namespace(), body)
        bench.report.add(name, f"{who} on {bench.cluster.name}", cpu_ms_per_whole_life=spent)


def selections(bench: Bench, who: str, start: Start) -> None:
    """Measure the memory of tables of 10,000 ConfigMaps by what the watch selects. Only with kcm."""
    if start is not our_manager:
        return
    fill(bench.api)
    for selection in SELECTIONS:
        with scratch() as directory:
            figures = measure_selection(bench.cluster, directory, selection)
        bench.report.add("10,000 ConfigMaps of 4 kB", f"{selection} on {bench.cluster.name}", **figures)


def many_custom_resources(bench: Bench, _who: str, start: Start) -> None:
    """Measure a controller of 10,000 custom resources, written with kcm, kopf and controller-runtime."""
    if start is our_manager:
        custom_resources(bench.cluster, bench.api, bench.report)


def all_defaults(load: Load, bench: Bench, who: str, start: Start) -> None:
    for workload_name, figures in measure_defaults(bench.cluster, bench.api, start, load, bench.namespace):
        bench.report.add(workload_name, f"{who} on {bench.cluster.name}", **figures)


def idle_defaults(bench: Bench, who: str, start: Start) -> None:
    idle(bench, who, with_defaults(start), title="idle, all defaults")


def restart_defaults(bench: Bench, who: str, start: Start) -> None:
    restart(bench, who, with_defaults(start), title="restart with 30,000 pods, all defaults")


def all_deletions(bench: Bench, who: str, start: Start) -> None:
    """Measure the deletion of a namespace with its objects, and of a Deployment with its dependents."""
    for deletion, figures in deletions.measure(bench.cluster, bench.api, start, bench.namespace):
        bench.report.add(f"deletion: {deletion}", f"{who} on {bench.cluster.name}", **figures)


def of_workload(
    measure: Callable[..., workloads.Figures],
    bench: Bench,
    who: str,
    start: Start,
    *,
    sizes: workloads.Sizes | None = None,
) -> None:
    """Measure a workload. sizes: None for those of the command line."""
    for workload_name, figures in measure(bench.cluster, bench.api, start, bench.namespace, sizes or bench.sizes):
        bench.report.add(workload_name, f"{who} on {bench.cluster.name}", **figures)


BENCHES: dict[str, Callable[[Bench, str, Start], None]] = {
    "one-large": one_large,
    "many-small": many_small,
    "many-large": many_large,
    "stateful": one_stateful,
    "only-writes": only_writes,
    "restart": restart,
    "idle": idle,
    "nodes": nodes,
    "fan-out": fan_out,
    "selections": selections,
    "custom-resources": many_custom_resources,
    "defaults": partial(all_defaults, CREATED),
    "defaults-life": partial(all_defaults, WHOLE_LIFE),
    "defaults-services": partial(all_defaults, WITH_SERVICES),
    "defaults-idle": idle_defaults,
    "defaults-restart": restart_defaults,
    "deletions": all_deletions,
    "daemons": partial(of_workload, workloads.daemon_set),
    "stateful-ready": partial(of_workload, workloads.stateful_set),
    "attached-volumes": partial(of_workload, workloads.attached_volumes),
    "device-claims": partial(of_workload, workloads.device_claims),
    "job": partial(of_workload, workloads.job),
    "job-large": partial(of_workload, workloads.job, sizes=workloads.LARGE_JOB),
    "cronjobs": partial(of_workload, workloads.cron_jobs),
}
