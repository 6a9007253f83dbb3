"""Cost of many controllers that watch pods: of controllers that no change matches, and of a pod's whole life."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import structlog

from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.actors.reconciliation.derived import new_table
from kcm.protocols.codec import encode
from kcm.protocols.messages.commands import PatchType
from kcm.protocols.messages.watches import EVERYTHING, Interest, Streamed, Subscribe
from kcm.protocols.resources import PODS
from kcm.protocols.watch_lines import INITIAL_EVENTS_END
from kcm.runtime.client.api import Request, Response
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec
from tests.bench.processes import RAISED_LIMITS, ApiConnection, Cluster, Process, hollow_nodes
from tests.bench.watchers import watchers

ROOT = Path(__file__).resolve().parents[2]
WATCHERS = (0, 12, 24)  # numbers of additional controllers that watch pods
PODS_TOTAL = 600
LIVES = 400
BURST = 500
NODES = 10


def manager_with_watchers(cluster: Cluster, directory: Path, count: int, *, everything: bool = False) -> Process:
    """Start kcm with `count` additional controllers, which are installed like controllers of other packages."""
    installed = directory / "bench_watchers-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-watchers\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[kcm.controllers]\nwatchers = tests.bench.watchers:WATCHERS\n")
    environment = [f"PYTHONPATH={directory}:{ROOT}", f"KCM_BENCH_WATCHERS={count}"]
    if everything:
        environment.append("KCM_BENCH_EVERYTHING=1")
    names = ",".join(["replicaset", *(spec.name for spec in watchers(count, everything=everything))])
    flags = [f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--secure-port=0", f"--controllers={names}"]
    argv = ["env", *environment, sys.executable, "-P", "-m", "kcm.actors.command", *flags, *RAISED_LIMITS]
    return Process(argv, log=directory / "ours.log")


def burst(watching: int, *, interest: Interest) -> dict[str, float]:
    """Measure an informer alone, in one thread: BURST changes of pods in one chunk of its watch.

    watching: number of subscribers with `interest`, which matches no change, beside one that receives all changes

    Returns `frames`, the messages to the subscriber that receives all changes, and `microseconds_per_event`, the CPU
    time of the informer and of its messages to the subscribers.
    """
    world = World(log=structlog.wrap_logger(None, processors=[_drop]))
    system = world.system()
    frames: dict[str, int] = {}

    def count(_sender: str, to: str, _frame: bytes) -> None:
        frames[to] = frames.get(to, 0) + 1

    informer = partial(
        Informer, table=new_table(PODS), transport=_SilentTransport(), limits=InformerLimits(), outage=Outage(), seed=1
    )
    system.spawn(ActorSpec(name="informer", build=informer))
    for number in range(watching + 1):
        system.spawn(ActorSpec(name=f"subscriber-{number}", build=_Sink))
        subscribed = EVERYTHING if number == 0 else interest
        system.tell("informer", Subscribe(f"subscriber-{number}", (subscribed,)))
    world.run_for(0)
    stream = system.incarnation("informer") * 1_000_000 + 1
    end = {"metadata": {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}}
    system.deliver("informer", encode(Streamed(stream, _line("BOOKMARK", end))), sender="server")
    world.run_for(0)
    system.taps.append(count)
    lines = b"".join(_line("ADDED", _pod(number)) for number in range(2, BURST + 2))
    began = time.process_time()
    system.deliver("informer", encode(Streamed(stream, lines)), sender="server")
    world.run_for(0)
    took = time.process_time() - began
    return {"frames": frames["subscriber-0"], "microseconds_per_event": took * 1e6 / BURST}


def whole_lives(cluster: Cluster, api: ApiConnection, process: Process, namespace: str, body: dict[str, Any]) -> float:
    """Return the CPU time in ms per pod for LIVES pods that are created, bound, started, ready and deleted.

    body: ReplicaSet; its replicas are set here
    """
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    with hollow_nodes(cluster, nodes=NODES, zones=1):
        cpu = process.cpu()
        body["spec"]["replicas"] = LIVES
        _must(api.request("POST", path, orjson.dumps(body)))
        _wait(api, path, "readyReplicas", LIVES)
        scale_to_zero(api, namespace, body["metadata"]["name"])
        return (process.cpu() - cpu) * 1000 / LIVES


def scale_to_zero(api: ApiConnection, namespace: str, name: str) -> None:
    """Scale a ReplicaSet to 0, and wait until its namespace has no pods."""
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    patch = orjson.dumps({"spec": {"replicas": 0}})
    _must(api.request("PATCH", f"{path}/{name}", patch, content_type=PatchType.MERGE))
    _wait(api, path, "replicas", 0)
    deadline = time.monotonic() + 120.0
    pods = f"/api/v1/namespaces/{namespace}/pods"
    while orjson.loads(_must(api.request("GET", pods, query={"limit": "1"})).body)["items"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} still has pods after 120 s")
        time.sleep(0.2)


class _SilentTransport:
    """Transport that ignores all requests and delivers no events of watches."""

    def send(self, request: Request, **_: Any) -> None:
        pass

    def watch(self, request: Request, **_: Any) -> _SilentTransport:
        return self

    def cancel(self) -> None:
        pass


class _Sink(Actor):
    def receive(self, message: Any) -> None:
        pass


def _line(type: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": type, "object": obj}) + b"\n"


def _pod(version: int) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    container = {"name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "namespace": "default",
            "name": f"web-{version}",
            "uid": f"uid-{version}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container], "restartPolicy": "Always", "schedulerName": "default-scheduler"},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def _wait(api: ApiConnection, path: str, field: str, count: int, *, within: float = 180.0) -> None:
    reached = threading.Event()

    def on_lines(lines: bytes) -> None:
        for line in lines.splitlines():
            item = orjson.loads(line)["object"]
            status = item.get("status", {})
            if item["metadata"].get("generation") == status.get("observedGeneration") and status.get(field, 0) == count:
                reached.set()

    with api.watching(path, on_lines):
        if not reached.wait(within):
            raise TimeoutError(f"not {count} {field} within {within:.0f} s")


def _must(response: Response) -> Response:
    if not 200 <= response.status < 300:
        raise RuntimeError(f"{response.status} {response.error} {response.body[:200]!r}")
    return response


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent
