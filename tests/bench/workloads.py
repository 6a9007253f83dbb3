"""DaemonSets, StatefulSets, Jobs and CronJobs: rate and CPU cost of creating their pods and updating their statuses.

Nodes are only objects. kubelets.py simulates the scheduler and the kubelets, for both managers in the same way. Both
managers run with raised rate limits and without other controllers.
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
from tests.bench.processes import (
    RAISED_LIMITS,
    ApiConnection,
    Cluster,
    Process,
    hollow_nodes,
    scratch,
    simulated_kubelets,
)

Figures = Iterator[tuple[str, dict[str, float]]]
Start = Callable[..., Process]
CONCURRENCY = 16  # of the benchmark's own requests
SETTLE = 3.0  # seconds for a manager and the simulated kubelets to start before workloads are created
TIMEOUT = 900.0  # 500 pods with volumes take a busy machine several minutes
WATCHED = 30.0  # seconds after which a watch is repeated
GLANCE = 0.1
PAGE = "200"  # pods deleted by one request
APPS, BATCH = "/apis/apps/v1", "/apis/batch/v1"
NODE_LABEL = "bench-place"
ATTACHING = ",".join(
    (
        "statefulset-controller",
        "persistentvolume-binder-controller",
        "persistentvolume-attach-detach-controller",
        "persistentvolumeclaim-protection-controller",
        "node-lifecycle-controller",
    )
)
RESOURCES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLAIMING = "statefulset-controller,resourceclaim-controller,node-lifecycle-controller"
MINUTE = 60.0
MIN_LEAD = 15.0  # seconds between the creation of CronJobs and the minute in which they are due


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Numbers of objects in the scenarios."""

    nodes: int = 1000
    stateful: int = 500
    completions: int = 2000
    parallel: int = 200
    cron_jobs: int = 200
    hollow_nodes: int = 20


LARGE_JOB = Sizes(completions=10_000, parallel=500)


def daemon_set(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure a DaemonSet with a pod on each node: creation; creation until all run; change of labels, which removes
    the pods from half of the nodes and adds them again; rolling update.
    """
    count = sizes.nodes
    _ensure_nodes(api, count)
    with _running(cluster, start, "daemonset") as process:
        collection = Collection(api, namespace(), f"{APPS}/namespaces/{{}}/daemonsets")
        with _measured(cluster, process, "pod", count) as made, collection.reaching(_is_placed(count)):
            collection.create(_daemon_set("made"))
        yield f"DaemonSet on {count} nodes, made", made
        collection.delete("made")

        collection = Collection(api, namespace(), f"{APPS}/namespaces/{{}}/daemonsets")
        with simulated_kubelets(cluster, collection.namespace, nodes=count):
            time.sleep(SETTLE)
            with _measured(cluster, process, "pod", count) as run, collection.reaching(_is_available(count)):
                collection.create(_daemon_set("run"))
            yield f"DaemonSet on {count} nodes, run", run
            half = range(count // 2)
            with _measured(cluster, process, "label", 2 * len(half)) as moved:
                with collection.reaching(_is_placed(count - len(half))):
                    _label(api, half, "there")
                with collection.reaching(_is_available(count)):
                    _label(api, half, "here")
            yield f"DaemonSet, labels of {len(half)} of {count} nodes, twice", moved
            with _measured(cluster, process, "pod", count) as replaced, collection.reaching(_is_updated(count)):
                collection.patch("run", {"spec": {"template": _template("run", image="j")}})
            yield f"DaemonSet on {count} nodes, rolling update", replaced
        collection.delete("run")


def stateful_set(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure a StatefulSet that creates all pods at once, until its status reports them as ready."""
    count = sizes.stateful
    collection = Collection(api, namespace(), f"{APPS}/namespaces/{{}}/statefulsets")
    with (
        _running(cluster, start, "statefulset") as process,
        simulated_kubelets(cluster, collection.namespace, nodes=sizes.nodes),
    ):
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as ready, collection.reaching(_is_ready(count)):
            collection.create(_stateful_set("ready", count))
        yield f"parallel StatefulSet of {count}, ready", ready
        collection.delete("ready")


def attached_volumes(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure a StatefulSet with a claim for each pod: until all pods are ready with their volumes attached, and from
    scaling to zero until all volumes are detached. Nodes, scheduler, provisioner and attacher are hollow.
    """
    count = sizes.stateful
    collection = Collection(api, namespace(), f"{APPS}/namespaces/{{}}/statefulsets")
    attachments = Collection(api, collection.namespace, "/apis/storage.k8s.io/v1/volumeattachments")
    with (
        _running(cluster, start, ATTACHING) as process,
        hollow_nodes(cluster, nodes=sizes.hollow_nodes, zones=1, attach=True),
    ):
        _wait_for_nodes(api, sizes.hollow_nodes)
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as attached, collection.reaching(_is_ready(count)):
            collection.create(_stateful_set("attached", count, claims=True))
        yield f"StatefulSet of {count} with claims, attached and ready", attached
        with _measured(cluster, process, "pod", count) as detached:
            collection.patch("attached", {"spec": {"replicas": 0}})
            attachments.wait_until_empty()
        yield f"StatefulSet of {count} with claims, scaled to 0 and detached", detached
        collection.delete("attached")
        claims = f"/api/v1/namespaces/{collection.namespace}/persistentvolumeclaims"
        must(api, "DELETE", claims, {"propagationPolicy": "Background"})


def device_claims(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure a StatefulSet whose pods have a ResourceClaim each, from a template, until all pods are ready, and from
    scaling to zero until all claims are released. Nodes, their devices and the scheduler are hollow.
    """
    count = sizes.stateful
    collection = Collection(api, namespace(), f"{APPS}/namespaces/{{}}/statefulsets")
    of_group = f"{RESOURCES}/namespaces/{collection.namespace}"
    claims = Collection(api, collection.namespace, f"{of_group}/resourceclaims")
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    api.request("DELETE", f"{RESOURCES}/deviceclasses/{DRIVER}")
    must(api, "POST", f"{RESOURCES}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": selectors}})
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    must(api, "POST", f"{of_group}/resourceclaimtemplates", template)
    with (
        _running(cluster, start, CLAIMING) as process,
        hollow_nodes(cluster, nodes=sizes.hollow_nodes, zones=1, devices=True),
    ):
        _wait_for_nodes(api, sizes.hollow_nodes)
        devices = {"hollow.kcm.dev/devices": f"{DRIVER}={-(-count // sizes.hollow_nodes)}"}
        for number in range(sizes.hollow_nodes):
            must(api, "PATCH", f"/api/v1/nodes/hollow-node-{number}", {"metadata": {"annotations": devices}})
        slices = Collection(api, collection.namespace, f"{RESOURCES}/resourceslices")
        with slices.reaching(lambda _slice: True, wanted=sizes.hollow_nodes):
            pass
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as running, collection.reaching(_is_ready(count)):
            collection.create(_stateful_set("claiming", count, devices=True))
        yield f"StatefulSet of {count} with devices, ready", running
        with _measured(cluster, process, "pod", count) as released, claims.reaching(_is_released, wanted=count):
            collection.patch("claiming", {"spec": {"replicas": 0}})
        yield f"StatefulSet of {count} with devices, scaled to 0 and released", released
        collection.delete("claiming")
        must(api, "DELETE", f"{of_group}/resourceclaims", {})


def job(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure a Job until it is complete. Each pod succeeds as soon as it has run."""
    count = sizes.completions
    collection = Collection(api, namespace(), f"{BATCH}/namespaces/{{}}/jobs")
    with (
        _running(cluster, start, "job") as process,
        simulated_kubelets(cluster, collection.namespace, nodes=sizes.nodes, ends=True),
    ):
        time.sleep(SETTLE)
        with _measured(cluster, process, "pod", count) as done, collection.reaching(_is_complete):
            collection.create(_job("done", completions=count, parallelism=sizes.parallel))
        yield f"Job of {count}, {sizes.parallel} parallel", done
        collection.delete("done")


def cron_jobs(
    cluster: Cluster, api: ApiConnection, start: Start, namespace: Callable[[], str], sizes: Sizes = Sizes()
) -> Figures:
    """Measure CronJobs that are due in the same minute.

    `seconds_after_due` is the time until the last Job exists. The CPU time includes the updates of the statuses.
    """
    count = sizes.cron_jobs
    collection = Collection(api, namespace(), f"{BATCH}/namespaces/{{}}/cronjobs")
    with _running(cluster, start, "cronjob") as process:
        time.sleep(max(0.0, MIN_LEAD - (MINUTE - time.time() % MINUTE)))
        due = time.time() // MINUTE * MINUTE + MINUTE
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(collection.create, [_cron_job(f"due-{i}") for i in range(count)]))
        if time.time() > due - 1.0:
            raise TimeoutError("the CronJobs were not created in time")
        time.sleep(due - 0.5 - time.time())
        jobs = Collection(api, collection.namespace, f"{BATCH}/namespaces/{{}}/jobs")
        with _measured(cluster, process, "job", count) as made, collection.reaching(_was_started(due), wanted=count):
            with jobs.reaching(lambda _job: True, wanted=count):
                pass
            after = time.time() - due
        del made["jobs_per_second"]  # its period begins before they are due
        yield f"{count} CronJobs in the same minute", {"seconds_after_due": after, **made}
        collection.delete()
        jobs.delete()


class Collection:
    """Objects of one resource in one namespace. `path` is that of the collection, with {} for the namespace."""

    def __init__(self, api: ApiConnection, namespace: str, path: str) -> None:
        self._api, self.namespace, self._path = api, namespace, path.format(namespace)

    def create(self, body: Mapping[str, Any]) -> None:
        must(self._api, "POST", self._path, body)

    def patch(self, name: str, patch: Mapping[str, Any]) -> None:
        must(self._api, "PATCH", f"{self._path}/{name}", patch)

    def delete(self, name: str = "") -> None:
        """Delete one object, or all, and the pods of the namespace, so that they do not affect the next measurement."""
        body = {"propagationPolicy": "Background"}
        must(self._api, "DELETE", f"{self._path}/{name}".rstrip("/"), body)
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        while orjson.loads(must(self._api, "GET", pods, {}, limit="1"))["items"]:
            must(self._api, "DELETE", pods, body, limit=PAGE)  # deleting thousands in one request would time out

    def wait_until_empty(self) -> None:
        """Wait until the collection has no object."""
        deadline = time.monotonic() + TIMEOUT
        while orjson.loads(must(self._api, "GET", self._path, {}, limit="1"))["items"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._path} is not empty after {TIMEOUT:.0f} s")
            time.sleep(GLANCE)

    @contextmanager
    def reaching(
        self, condition: Callable[[Mapping[str, Any]], bool], *, wanted: int = 1, within: float = TIMEOUT
    ) -> Iterator[None]:
        """On exit, wait until `wanted` objects meet the condition. Uses a watch, which costs the server little.

        Raises TimeoutError after `within` seconds.
        """
        matching: set[str] = set()
        last: Mapping[str, Any] = {}
        reached = threading.Event()

        def on_lines(lines: bytes) -> None:
            nonlocal last
            for line in lines.splitlines():
                last = orjson.loads(line)["object"]
                if condition(last):
                    matching.add(last["metadata"]["name"])
                else:
                    matching.discard(last["metadata"]["name"])
            if len(matching) >= wanted:
                reached.set()

        yield
        deadline = time.monotonic() + within
        while not reached.is_set():  # a busy server may have ended the watch, so it is repeated
            with self._api.watching(self._path, on_lines):
                reached.wait(WATCHED)
            if time.monotonic() > deadline and not reached.is_set():
                raise TimeoutError(
                    f"{len(matching)} of {wanted} at {self._path} after {within:.0f} s: {last.get('status')}"
                )


@contextmanager
def _running(cluster: Cluster, start: Start, controller: str) -> Iterator[Process]:
    with scratch() as directory:
        process = start(cluster, directory, *RAISED_LIMITS, controllers=controller)
        try:
            time.sleep(SETTLE)
            yield process
        finally:
            process.kill()


@contextmanager
def _measured(cluster: Cluster, process: Process, unit: str, count: int) -> Iterator[dict[str, float]]:
    """Yield a dict that is filled on exit with the figures per `unit`, of which there are `count`."""
    figures: dict[str, float] = {}
    cpu, of_server, began = process.cpu(), cluster.cpu(), time.monotonic()
    yield figures
    figures[f"{unit}s_per_second"] = count / (time.monotonic() - began)
    figures[f"cpu_ms_per_{unit}"] = (process.cpu() - cpu) * 1000 / count
    figures[f"server_cpu_ms_per_{unit}"] = (cluster.cpu() - of_server) * 1000 / count
    figures["peak_mb"] = process.peak()


def _wait_for_nodes(api: ApiConnection, count: int) -> None:
    """Wait until the hollow nodes exist and are ready."""

    def is_ready(node: Mapping[str, Any]) -> bool:
        return not node["spec"].get("taints") and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions") or ()
        )

    with Collection(api, "", "/api/v1/nodes").reaching(is_ready, wanted=count):
        pass


def _ensure_nodes(api: ApiConnection, count: int) -> None:
    """Create the nodes if they do not exist."""

    def create(number: int) -> None:
        labels = {NODE_LABEL: "here"}
        must(api, "POST", "/api/v1/nodes", {"metadata": {"name": node_name(number), "labels": labels}})
        # The server taints new nodes as not ready, and no controller here removes the taint.
        must(api, "PATCH", f"/api/v1/nodes/{node_name(number)}", {"spec": {"taints": None}})

    if api.request("GET", f"/api/v1/nodes/{node_name(0)}").status == 404:
        _concurrently(create, range(count))


def _label(api: ApiConnection, nodes: Iterable[int], value: str) -> None:
    patch = {"metadata": {"labels": {NODE_LABEL: value}}}
    _concurrently(lambda number: must(api, "PATCH", f"/api/v1/nodes/{node_name(number)}", patch), nodes)


def _concurrently(do: Callable[[int], None], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(CONCURRENCY) as pool:
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
        "template": _template(name, nodeSelector={NODE_LABEL: "here"}),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
    }
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def _stateful_set(name: str, replicas: int, *, claims: bool = False, devices: bool = False) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name),
    }
    if claims:
        spec["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": {**storage, "storageClassName": "hollow"}}
        spec["volumeClaimTemplates"] = [claim]
    if devices:
        spec["template"]["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        spec["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
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
    return lambda daemon_set: _status_has(daemon_set, numbers)


def _is_available(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"desiredNumberScheduled": count, "currentNumberScheduled": count, "numberAvailable": count}
    return lambda daemon_set: _status_has(daemon_set, numbers)


def _is_updated(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"desiredNumberScheduled": count, "updatedNumberScheduled": count, "numberAvailable": count}
    return lambda daemon_set: _status_has(daemon_set, numbers)


def _is_ready(count: int) -> Callable[[Mapping[str, Any]], bool]:
    numbers = {"replicas": count, "readyReplicas": count, "availableReplicas": count}
    return lambda stateful_set: _status_has(stateful_set, numbers)


def _status_has(workload: Mapping[str, Any], numbers: Mapping[str, int]) -> bool:
    """Report whether the status belongs to the latest generation and has these numbers."""
    status = workload.get("status") or {}
    if status.get("observedGeneration") != workload["metadata"]["generation"]:
        return False
    return all(status.get(name, 0) == number for name, number in numbers.items())


def _is_released(claim: Mapping[str, Any]) -> bool:
    return not (claim.get("status") or {}).get("allocation")


def _is_complete(job: Mapping[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def _was_started(due: float) -> Callable[[Mapping[str, Any]], bool]:
    def was_started(cron_job: Mapping[str, Any]) -> bool:
        last = (cron_job.get("status") or {}).get("lastScheduleTime")
        return last is not None and parse_time(last) >= due

    return was_started


def must(api: ApiConnection, method: str, path: str, body: Mapping[str, Any], **query: str) -> bytes:
    """Send a request, and raise RuntimeError if it fails. `body`: a merge patch for PATCH; ignored for GET."""
    content_type = PatchType.MERGE if method == "PATCH" else "application/json"
    sent = orjson.dumps(body) if method != "GET" else b""
    response = api.request(method, path, sent, query, content_type=content_type)
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{method} {path}: {response.status} {response.error} {response.body[:200]!r}")
    return response.body
