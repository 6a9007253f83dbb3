"""DaemonSets, StatefulSets, Jobs and CronJobs: how fast their pods come, live and are counted, and what that costs.

Nodes are objects alone; what a scheduler and kubelets do for pods is played (kubelets.py), for both managers alike.
Both ask the server as fast as they can, and run no other controller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.times import parse_time
from tests.bench.kubelets import node_name
from tests.bench.processes import LIFTED, Cluster, Hand, Process, players, scratch

Figures = Iterator[tuple[str, dict[str, float]]]
Start = Callable[..., Process]
AT_ONCE = 16  # requests of ours
SETTLE = 3.0  # seconds for a manager and the players to start before there is work
WITHIN = 300.0
PAGE = "200"  # pods deleted by one request
APPS, BATCH = "/apis/apps/v1", "/apis/batch/v1"
PLACE = "bench-place"  # a label of nodes
MINUTE = 60.0
LEAST_LEFT = 15.0  # seconds until CronJobs are due that are made now


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    nodes: int = 1000
    stateful: int = 500
    completions: int = 2000
    parallel: int = 200
    cron_jobs: int = 200


LARGE_JOB = Sizes(completions=10_000, parallel=500)


def daemon_set(
    cluster: Cluster, hand: Hand, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """A pod on each node: made; made and run; gone from half of the nodes and back as labels change; all replaced."""
    count = sizes.nodes
    _make_nodes(hand, count)
    with _at_work(cluster, start, "daemonset") as process:
        place = _Place(hand, namespace(), f"{APPS}/namespaces/{{}}/daemonsets")
        with _measured(cluster, process, "pod", count) as made, place.reaching(_is_placed(count)):
            place.create(_daemon_set("made"))
        yield f"DaemonSet on {count} nodes, made", made
        place.delete("made")

        place = _Place(hand, namespace(), f"{APPS}/namespaces/{{}}/daemonsets")
        with players(cluster, place.namespace, nodes=count):
            time.sleep(SETTLE)
            with _measured(cluster, process, "pod", count) as run, place.reaching(_is_available(count)):
                place.create(_daemon_set("run"))
            yield f"DaemonSet on {count} nodes, run", run
            half = range(count // 2)
            with _measured(cluster, process, "label", 2 * len(half)) as moved:
                with place.reaching(_is_placed(count - len(half))):
                    _label(hand, half, "there")
                with place.reaching(_is_available(count)):
                    _label(hand, half, "here")
            yield f"DaemonSet, labels of {len(half)} of {count} nodes, twice", moved
            with _measured(cluster, process, "pod", count) as replaced, place.reaching(_is_updated(count)):
                place.patch("run", {"spec": {"template": _template("run", image="j")}})
            yield f"DaemonSet on {count} nodes, rolling update", replaced
        place.delete("run")


def stateful_set(
    cluster: Cluster, hand: Hand, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """All pods at once, until they are ready and the status says so."""
    count = sizes.stateful
    place = _Place(hand, namespace(), f"{APPS}/namespaces/{{}}/statefulsets")
    with _at_work(cluster, start, "statefulset") as process, players(cluster, place.namespace, nodes=sizes.nodes):
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as ready, place.reaching(_is_ready(count)):
            place.create(_stateful_set("ready", count))
        yield f"parallel StatefulSet of {count}, ready", ready
        place.delete("ready")


def job(cluster: Cluster, hand: Hand, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()) -> Figures:
    """Until the Job is complete; each pod succeeds as soon as it has run."""
    count = sizes.completions
    place = _Place(hand, namespace(), f"{BATCH}/namespaces/{{}}/jobs")
    with (
        _at_work(cluster, start, "job") as process,
        players(cluster, place.namespace, nodes=sizes.nodes, ends=True),
    ):
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as done, place.reaching(_is_complete):
            place.create(_job("done", completions=count, parallelism=sizes.parallel))
        yield f"Job of {count}, {sizes.parallel} parallel", done
        place.delete("done")


def cron_jobs(
    cluster: Cluster, hand: Hand, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """seconds_after_due: until the last Job is there. CPU: also of their statuses."""
    count = sizes.cron_jobs
    place = _Place(hand, namespace(), f"{BATCH}/namespaces/{{}}/cronjobs")
    with _at_work(cluster, start, "cronjob") as process:
        time.sleep(max(0.0, LEAST_LEFT - (MINUTE - time.time() % MINUTE)))
        due = time.time() // MINUTE * MINUTE + MINUTE
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(place.create, [_cron_job(f"due-{i}") for i in range(count)]))
        if time.time() > due - 1.0:
            raise TimeoutError("the CronJobs were not made in time")
        time.sleep(due - 0.5 - time.time())
        jobs = _Place(hand, place.namespace, f"{BATCH}/namespaces/{{}}/jobs")
        with _measured(cluster, process, "job", count) as made, place.reaching(_was_started(due), wanted=count):
            with jobs.reaching(lambda _job: True, wanted=count):
                pass
            after = time.time() - due
        del made["jobs_per_second"]  # its time begins before they are due
        yield f"{count} CronJobs in the same minute", {"seconds_after_due": after, **made}
        place.delete()
        jobs.delete()


class _Place:
    """Objects of one resource in one namespace. path: the resource's, with {} for the namespace."""

    def __init__(self, hand: Hand, namespace: str, path: str) -> None:
        self._hand, self.namespace, self._path = hand, namespace, path.format(namespace)

    def create(self, body: Mapping[str, Any]) -> None:
        _must(self._hand, "POST", self._path, body)

    def patch(self, name: str, patch: Mapping[str, Any]) -> None:
        _must(self._hand, "PATCH", f"{self._path}/{name}", patch)

    def delete(self, name: str = "") -> None:
        """One or all, and all pods of the namespace: they are nothing to the next measurement."""
        body = {"propagationPolicy": "Background"}
        _must(self._hand, "DELETE", f"{self._path}/{name}".rstrip("/"), body)
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        while orjson.loads(_must(self._hand, "GET", pods, {}, limit="1"))["items"]:
            _must(self._hand, "DELETE", pods, body, limit=PAGE)  # of thousands a request would take too long

    @contextmanager
    def reaching(self, holds: Callable[[Mapping[str, Any]], bool], *, wanted: int = 1) -> Iterator[None]:
        """At its end, waits until this holds of so many objects. A watch tells, which costs the server little."""
        held: set[str] = set()
        last: Mapping[str, Any] = {}
        reached = threading.Event()

        def on_lines(lines: bytes) -> None:
            nonlocal last
            for line in lines.splitlines():
                last = orjson.loads(line)["object"]
                if holds(last):
                    held.add(last["metadata"]["name"])
                else:
                    held.discard(last["metadata"]["name"])
            if len(held) >= wanted:
                reached.set()

        yield
        with self._hand.watching(self._path, on_lines):
            if not reached.wait(WITHIN):
                raise TimeoutError(
                    f"{len(held)} of {wanted} at {self._path} after {WITHIN:.0f} s: {last.get('status')}"
                )


@contextmanager
def _at_work(cluster: Cluster, start: Start, controller: str) -> Iterator[Process]:
    with scratch() as directory:
        process = start(cluster, directory, *LIFTED, controllers=controller)
        try:
            time.sleep(SETTLE)
            yield process
        finally:
            process.kill()


@contextmanager
def _measured(cluster: Cluster, process: Process, one: str, count: int) -> Iterator[dict[str, float]]:
    """Filled at its end. one: what is counted."""
    figures: dict[str, float] = {}
    cpu, of_server, began = process.cpu(), cluster.cpu(), time.monotonic()
    yield figures
    figures[f"{one}s_per_second"] = count / (time.monotonic() - began)
    figures[f"cpu_ms_per_{one}"] = (process.cpu() - cpu) * 1000 / count
    figures[f"server_cpu_ms_per_{one}"] = (cluster.cpu() - of_server) * 1000 / count
    figures["peak_mb"] = process.peak()


def _make_nodes(hand: Hand, count: int) -> None:
    """Once for a server. It taints new ones as not ready, which nobody here would take back."""

    def make(number: int) -> None:
        labels = {PLACE: "here"}
        _must(hand, "POST", "/api/v1/nodes", {"metadata": {"name": node_name(number), "labels": labels}})
        _must(hand, "PATCH", f"/api/v1/nodes/{node_name(number)}", {"spec": {"taints": None}})

    if hand.ask("GET", f"/api/v1/nodes/{node_name(0)}").status == 404:
        _at_once(make, range(count))


def _label(hand: Hand, nodes: Iterable[int], place: str) -> None:
    patch = {"metadata": {"labels": {PLACE: place}}}
    _at_once(lambda number: _must(hand, "PATCH", f"/api/v1/nodes/{node_name(number)}", patch), nodes)


def _at_once(do: Callable[[int], None], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(do, numbers))


def _template(app: str, *, image: str = "i", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def _daemon_set(name: str) -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name, nodeSelector={PLACE: "here"}),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
    }
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def _stateful_set(name: str, replicas: int) -> dict[str, Any]:
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name),
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def _job_spec(name: str, **spec: Any) -> dict[str, Any]:
    return {"template": _template(name, restartPolicy="Never"), **spec}


def _job(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": _job_spec(name, **spec)}


def _cron_job(name: str) -> dict[str, Any]:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": _job_spec(name)}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def _is_placed(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberMisscheduled": 0}
    return lambda daemon_set: _says(daemon_set, numbers)


def _is_available(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberAvailable": count}
    return lambda daemon_set: _says(daemon_set, numbers)


def _is_updated(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"desiredNumberScheduled": count, "updatedNumberScheduled": count, "numberAvailable": count}
    return lambda daemon_set: _says(daemon_set, numbers)


def _is_ready(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"replicas": count, "readyReplicas": count, "availableReplicas": count}
    return lambda stateful_set: _says(stateful_set, numbers)


def _says(workload: Mapping[str, Any], numbers: Mapping[str, int]) -> bool:
    """Whether its status is of its last spec, and has these numbers."""
    status = workload.get("status") or {}
    if status.get("observedGeneration") != workload["metadata"]["generation"]:
        return False
    return all(status.get(name, 0) == number for name, number in numbers.items())


def _is_complete(job: Mapping[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)


def _was_started(due: float) -> Callable[[Mapping[str, Any]], bool]:
    def holds(cron_job: Mapping[str, Any]) -> bool:
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        return last is not None and parse_time(last) >= due

    return holds


def _must(hand: Hand, method: str, path: str, body: Mapping[str, Any], **query: str) -> bytes:
    """body: of a PATCH, to be merged; none of a GET."""
    content_type = PatchType.MERGE if method == "PATCH" else "application/json"
    sent = orjson.dumps(body) if method != "GET" else b""
    response = hand.ask(method, path, sent, query, content_type=content_type)
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")
    return response.body
