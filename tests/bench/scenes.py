"""Scenes for `bin/run-bench counts`: small pieces of work of the hot path that are the same in every run.

The actors are those of a real manager. Their server is a minimal fake whose work is not counted. Everything runs in one
thread, on virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.workloads import statefulset
from kcm.actors.controllers.workloads.replicaset import SPEC
from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.reconciliation.derived import new_table
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.codec import encode
from kcm.protocols.messages.watches import EVERYTHING, Streamed, Subscribe
from kcm.protocols.resources import DEPLOYMENTS, PODS, STATEFULSETS
from kcm.protocols.watch_lines import INITIAL_EVENTS_END
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request, Response
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec
from tests.bench import http_scenes
from tests.bench.scene import Scene

PODS_PATH = "/api/v1/namespaces/default/pods"
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "uid-web",
    "controller": True,
    "blockOwnerDeletion": True,
}
CONTAINER = {
    "name": "c",
    "image": "registry.example/web:1",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


EVENTS, KEYS, CREATED, STATUSES, REQUESTS, RESTING, LISTED, SYNCS = 100, 20, 64, 10, 50, 60, 200, 5


# Fakes. The functions of this file are not counted.


class FakeServer:
    """Server of ReplicaSets and pods. `respond` stores the objects that it was sent, and sends them to the watches."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {"pods": {}, "replicasets": {}}
        self._requests: list[tuple[Request, Callable[[Response], None]]] = []
        self._watches: list[tuple[str, Callable[[bytes], None]]] = []

    trouble = None  # see kcm.runtime.client.api.Breakable

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self._requests.append((request, on_response))

    def watch(self, request: Request, *, client: str, on_lines: Any, on_end: Any) -> FakeServer:
        plural = request.path.rpartition("/")[2]
        self._watches.append((plural, on_lines))
        end = {"metadata": {"resourceVersion": str(self.version), "annotations": {INITIAL_EVENTS_END: "true"}}}
        known = [line("ADDED", obj) for obj in self.objects.get(plural, {}).values()]
        on_lines(b"".join([*known, line("BOOKMARK", end)]))
        return self

    def cancel(self) -> None:
        pass

    def put(self, plural: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Store an object and send it to the watches."""
        self.version += 1
        known = self.objects[plural].get(obj["metadata"]["name"])
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[plural][obj["metadata"]["name"]] = obj
        text = line("MODIFIED" if known else "ADDED", obj)
        for watched, on_lines in self._watches:
            if watched == plural:
                on_lines(text)
        return obj

    def respond(self) -> int:
        """Process the pending requests, and return their number. Each response precedes its watch event."""
        requests, self._requests = self._requests, []
        for request, on_response in requests:
            plural = next((plural for plural in self.objects if f"/{plural}" in request.path), "")
            if not plural:  # an event
                on_response(Response(status=201, body=request.body))
                continue
            obj = orjson.loads(request.body)
            if request.method == "POST":
                obj = pod(obj["metadata"]["name"])
            obj["metadata"]["resourceVersion"] = str(self.version + 1)
            on_response(Response(status=200, body=orjson.dumps(obj)))
            self.put(plural, obj)
        return len(requests)


def line(type: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": type, "object": obj}) + b"\n"


def pod(name: str, *, ready: bool = False) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending", "qosClass": "Burstable"}
    if ready:
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "qosClass": "Burstable", "conditions": [condition]}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-",
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "containers": [CONTAINER],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Exists"}],
        },
        "status": status,
    }


def replica_set(replicas: int, *, created: int) -> dict[str, Any]:
    """Return a ReplicaSet whose status contains `created` pods."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    status = {"replicas": created, "fullyLabeledReplicas": created, "observedGeneration": 1, "terminatingReplicas": 0}
    meta = {"name": "web", "namespace": "default", "uid": "uid-web", "resourceVersion": "1", "generation": 1}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec, "status": status}


class Manager:
    """A manager with the ReplicaSet controller, and a ReplicaSet with `pods` pods."""

    def __init__(self, pods: int) -> None:
        self.world = World(log=quiet_log())
        process = self.world.process("manager")
        self.server = FakeServer()
        for number in range(pods):
            self.server.put("pods", pod(f"web-{number:05}"))
        self.server.put("replicasets", replica_set(pods, created=pods))
        options = Options()
        self.system = ControllerSystem(
            transport=self.server,  # type: ignore[arg-type]
            log=quiet_log(),
            controllers=[SPEC],
            options=replace(options, client_limits=replace(options.client_limits, qps=-1.0)),
            clock=process.clock,
            spawner=process,
            seed=1,
        )
        self.system.start()
        self.settle(1.0)

    def settle(self, seconds: float = 0.0) -> None:
        """Run for `seconds` of virtual time, and then until no request is pending."""
        self.world.run_for(seconds)
        while self.server.respond():
            self.world.run_for(0)


class Sink(Actor):
    """Actor that ignores all messages."""

    def receive(self, message: Any) -> None:
        pass


class SilentTransport:
    """Transport that ignores all requests and delivers no events of watches."""

    def send(self, request: Request, **_: Any) -> None:
        pass

    def watch(self, request: Request, **_: Any) -> SilentTransport:
        return self

    def cancel(self) -> None:
        pass


# The scenes.


def events(*, burst: int) -> Scene:
    """Pods change, and an informer updates its table and one subscriber. The watch delivers `burst` lines at a time."""
    world = World(log=quiet_log())
    system = world.system()
    informer = partial(
        Informer, table=new_table(PODS), transport=SilentTransport(), limits=InformerLimits(), outage=Outage(), seed=1
    )
    system.spawn(ActorSpec(name="informer", build=informer))
    system.spawn(ActorSpec(name="subscriber", build=Sink))
    system.tell("informer", Subscribe("subscriber", (EVERYTHING,)))
    world.run_for(0)
    stream = system.incarnation("informer") * 1_000_000 + 1
    names = [f"web-{number:05}" for number in range(EVENTS)]
    known = [line("ADDED", pod(name)) for name in names]
    end = {"metadata": {"resourceVersion": "1", "annotations": {INITIAL_EVENTS_END: "true"}}}
    system.deliver("informer", encode(Streamed(stream, b"".join([*known, line("BOOKMARK", end)]))), sender="server")
    world.run_for(0)
    version = 1

    def act() -> None:
        nonlocal version
        for first in range(0, EVENTS, burst):
            lines = []
            for name in names[first : first + burst]:
                version += 1
                changed = pod(name, ready=version % 2 == 0)
                changed["metadata"]["resourceVersion"] = str(version)
                lines.append(line("MODIFIED", changed))
            system.deliver("informer", encode(Streamed(stream, b"".join(lines))), sender="server")
            world.run_for(0)

    return Scene(act=act, units=EVENTS, system=system)


def nothing_to_do() -> Scene:
    """A ReplicaSet of 20 pods is reconciled without a change."""
    manager = Manager(20)

    def act() -> None:
        for _ in range(KEYS):
            manager.system.enqueue(SPEC.name, "default/web")
            manager.settle()

    return Scene(act=act, units=KEYS, system=manager.system.actors)


def pods_are_created() -> Scene:
    """A ReplicaSet is scaled up: commands, their outcomes, recorded events, watch events of the pods, and the updated
    status. One unit is one pod.
    """
    manager = Manager(0)
    replicas = 0

    def act() -> None:
        nonlocal replicas
        replicas += CREATED
        changed = replica_set(replicas, created=replicas - CREATED)
        manager.server.put("replicasets", changed)
        manager.settle()
        existing = len(manager.server.objects["pods"])
        if existing != replicas:
            raise RuntimeError(f"{existing} pods of {replicas}")

    return Scene(act=act, units=CREATED, system=manager.system.actors)


def status_is_written() -> Scene:
    """One of 20 pods becomes ready or unready: its watch event, a reconciliation, the status, and the set's event."""
    manager = Manager(20)
    ready = False

    def act() -> None:
        nonlocal ready
        ready = not ready
        for number in range(STATUSES):
            manager.server.put("pods", pod(f"web-{number:05}", ready=ready))
            manager.settle()
        reported = manager.server.objects["replicasets"]["web"]["status"].get("readyReplicas", 0)
        if reported != (STATUSES if ready else 0):
            raise RuntimeError(f"the status contains {reported} ready pods")

    return Scene(act=act, units=STATUSES, system=manager.system.actors)


def large_set_is_synced() -> Scene:
    """A StatefulSet of 200 pods with claims is synced without a change. One unit is one pod in one sync."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.hollow_nodes()
    manager = cluster.manager(controllers=[statefulset.SPEC])
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": storage}
    spec = {"podManagementPolicy": "Parallel", "serviceName": "db", "volumeClaimTemplates": [claim]}
    cluster.create(STATEFULSETS, workload(STATEFULSETS, "db", LISTED, "v0", **spec))
    cluster.run_for(60.0)
    (known,) = cluster.list(STATEFULSETS)
    if known["status"].get("readyReplicas") != LISTED:
        raise RuntimeError(f"the status is {known['status']}")

    def act() -> None:
        for _ in range(SYNCS):
            manager.enqueue(statefulset.SPEC.name, "default/db")
            cluster.run_for(0.0)

    return Scene(act=act, units=LISTED * SYNCS, system=manager.actors)


def controller_starts() -> Scene:
    """The ReplicaSet controller restarts with a set of 200 pods, and reads all of them. One unit is one pod."""
    manager = Manager(LISTED)

    def act() -> None:
        manager.system.restart(controller_name(SPEC.name))
        manager.settle(1.0)

    return Scene(act=act, units=LISTED, system=manager.system.actors)


class _FixedClock:
    def now(self) -> float:
        return 1.8e9


class _Core:
    """Embedded API server without HTTP, with a ReplicaSet that owns the pods: orphans would be garbage-collected."""

    def __init__(self) -> None:
        self.server = ApiServer(store=MemoryStore(), clock=_FixedClock())  # type: ignore[arg-type]
        owner = replica_set(1, created=0)
        owner["metadata"] = {"name": "web"}
        path = "/apis/apps/v1/namespaces/default/replicasets"
        response = self.must(Request(method="POST", path=path, body=orjson.dumps(owner)))
        self._uid = orjson.loads(response.body)["metadata"]["uid"]

    def must(self, request: Request) -> Response:
        response = self.server.handle(request)
        if response.status not in (200, 201):
            raise RuntimeError(response.body.decode())
        return response

    def create(self, number: int) -> Request:
        body = pod(f"web-{number:05}")
        del body["status"]
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del body["metadata"][field]
        body["metadata"]["ownerReferences"] = [{**OWNER, "uid": self._uid}]
        return Request(method="POST", path=PODS_PATH, body=orjson.dumps(body))


def server_creates() -> Scene:
    """The embedded API server creates pods, without HTTP."""
    core = _Core()
    created = 0

    def act() -> None:
        nonlocal created
        for number in range(created, created + REQUESTS):
            core.must(core.create(number))
        created += REQUESTS

    return Scene(act=act, units=REQUESTS)


def server_gets() -> Scene:
    """The embedded API server returns a pod, without HTTP."""
    core = _Core()
    core.must(core.create(0))
    get = Request(method="GET", path=f"{PODS_PATH}/web-00000")

    def act() -> None:
        for _ in range(REQUESTS):
            core.must(get)

    return Scene(act=act, units=REQUESTS)


def rest() -> Scene:
    """A whole cluster is idle for RESTING simulated seconds: all controllers, 3 nodes, 3 pods."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.hollow_nodes()
    manager = cluster.manager()
    cluster.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", 3, "v0"))
    cluster.run_for(60.0)

    def act() -> None:
        cluster.run_for(RESTING)

    return Scene(act=act, units=RESTING, system=manager.actors, whole=True)


SCENES: dict[str, Callable[[], Scene]] = {
    "a watch event": partial(events, burst=1),
    "a watch event in a burst": partial(events, burst=100),
    "a reconciliation that decides nothing": nothing_to_do,
    "a pod created": pods_are_created,
    "a status written": status_is_written,
    "a pod in a sync of a StatefulSet": large_set_is_synced,
    "a pod at a controller's start": controller_starts,
    "a create in the server's core": server_creates,
    "a get in the server's core": server_gets,
    "a pod created over HTTP": http_scenes.creates,
    "a Deployment applied over HTTP": http_scenes.applies,
    "a get over HTTP": http_scenes.gets,
    "a simulated second at rest": rest,
}
