"""CPU and memory of three replicas that share the groups of controllers, beside a single manager under the same load.

The load is paced: every second it creates a Service, a Deployment with a PodDisruptionBudget, a StatefulSet, a
DaemonSet on few nodes and a Job, and deletes those that were created 15 s before. Hollow nodes in another process run
the pods.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson

from tests.bench.processes import (
    RAISED_LIMITS,
    ApiConnection,
    Cluster,
    embedded_cluster,
    hollow_nodes,
    our_manager,
    scratch,
)
from tests.bench.report import Report

NODES = 6
LABEL = "bench-daemons"
EVERY = 1.0  # seconds between two units of the load
LIVES = 15  # units that exist at the same time
ALONE_WARM = 25.0  # seconds of load before one manager is measured
SHARED_WARM = 150.0  # the same for replicas, in which the groups are moved until the measured costs are even
MEASURED = 60.0
FLAGS = (*RAISED_LIMITS, "--controllers=*", "--leader-elect=true")
NAMESPACE = "bench"


def replicas(report: Report, rounds: int, measure_noise: Callable[[], None]) -> None:
    """Measure one manager, then three replicas, in each round."""
    for _ in range(rounds):
        with measured(1, ALONE_WARM) as alone:
            ((cpu, memory, _),) = alone
        report.add("replicas", "one manager", cpu_percent=100 * cpu, memory_mb=memory)
        with measured(3, SHARED_WARM, "--leader-elect-groups=auto") as shared:
            for share, megabytes, place in sorted(shared, reverse=True):
                report.add(
                    "replicas",
                    f"replica {place} of three",
                    cpu_percent=100 * share,
                    cpu_beside_one=share / cpu,
                    memory_mb=megabytes,
                )
        measure_noise()


@contextmanager
def measured(count: int, warm: float, *flags: str) -> Iterator[Sequence[tuple[float, float, int]]]:
    """Run managers under the load, and yield for each: cores that it used, MB of memory, and its place by CPU."""
    with embedded_cluster() as cluster, ExitStack() as closing:
        closing.enter_context(hollow_nodes(cluster, nodes=NODES, zones=2))
        load = Load(cluster)
        closing.callback(load.close)
        processes = []
        for _ in range(count):
            directory = closing.enter_context(scratch())
            processes.append(our_manager(cluster, directory, *FLAGS, *flags))
            closing.callback(processes[-1].kill)
        load.start()
        time.sleep(warm)
        before, began, units = [process.cpu() for process in processes], time.monotonic(), load.units
        time.sleep(MEASURED)
        seconds = time.monotonic() - began
        used = [(process.cpu() - was) / seconds for process, was in zip(processes, before, strict=True)]
        load.must_keep_up(units, seconds)
        order = sorted(range(count), key=lambda number: -used[number])
        yield [(used[number], processes[number].resident(), place + 1) for place, number in enumerate(order)]


class Load:
    """Objects that are created and deleted at a fixed rate."""

    def __init__(self, cluster: Cluster) -> None:
        self.units = 0  # created so far
        self._api = ApiConnection(cluster)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        quota = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "10000", "services": "10000"}}}
        self._send("POST", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas", quota)
        for number in range(2):
            body = orjson.dumps({"metadata": {"labels": {LABEL: "yes"}}})
            self._api.request(
                "PATCH", f"/api/v1/nodes/hollow-node-{number}", body, content_type="application/merge-patch+json"
            )
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._api.close()

    def must_keep_up(self, units: int, seconds: float) -> None:
        """Raise RuntimeError if the load was created too slowly to compare it. units: at the beginning."""
        if self.units - units < 0.9 * seconds / EVERY:
            raise RuntimeError(f"only {self.units - units} units in {seconds:.0f} s: the machine is too busy")

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stopped.wait(max(0.0, began + self.units * EVERY - time.monotonic())):
            for path, body in unit(self.units):
                self._send("POST", path, body)
            if self.units >= LIVES:
                for path, body in unit(self.units - LIVES):
                    self._api.request("DELETE", f"{path}/{body['metadata']['name']}")
            self.units += 1

    def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        response = self._api.request(method, path, orjson.dumps(body))
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {response.body[:300]!r}")


def unit(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the collection and the object of each object of a unit of the load."""
    core, apps = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/apps/v1/namespaces/{NAMESPACE}"
    batch, policy = f"/apis/batch/v1/namespaces/{NAMESPACE}", f"/apis/policy/v1/namespaces/{NAMESPACE}"

    def workload(kind: str, **spec: Any) -> dict[str, Any]:
        labels = {"app": f"{kind}-{number}"}
        pod = {"containers": [{"name": "c", "image": "i"}], **spec.pop("pod", {})}
        template = {"metadata": {"labels": labels}, "spec": pod}
        selector = {} if kind == "job" else {"selector": {"matchLabels": labels}}
        return {"metadata": {"name": f"{kind}-{number}"}, "spec": {**selector, "template": template, **spec}}

    selected = {"app": f"web-{number}"}
    yield (
        f"{core}/services",
        {"metadata": {"name": f"web-{number}"}, "spec": {"selector": selected, "ports": [{"port": 80}]}},
    )
    yield f"{apps}/deployments", workload("web", replicas=4)
    yield (
        f"{policy}/poddisruptionbudgets",
        {
            "metadata": {"name": f"web-{number}"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": selected}},
        },
    )
    yield (
        f"{apps}/statefulsets",
        workload("set", replicas=3, serviceName="none", podManagementPolicy="Parallel"),
    )
    yield f"{apps}/daemonsets", workload("daemon", pod={"nodeSelector": {LABEL: "yes"}})
    yield f"{batch}/jobs", workload("job", parallelism=3, completions=3, pod={"restartPolicy": "Never"})
