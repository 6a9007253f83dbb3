"""Pods of a node whose kubelet is played by the scenario, because hollow kubelets do not fail in these ways."""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import EVENTS, NODES
from kcm.protocols.times import format_time
from tests.actors.explanation.scenario import Scenario, Scene

# Without its kubelet, the node would soon count as lost.
FLAGS = ("--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",)
NODE = "real-node"


def _node(scene: Scene, name: str = NODE, *further: Object) -> None:
    if scene.cluster.get(NODES, name) is None:
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}, *further]
        scene.create(NODES, name, {"status": {"conditions": conditions}})


def _pod(scene: Scene, name: str, **template: Any) -> Object:
    _node(scene)
    scene.pod_owner(name, kind="Pod", nodeName=NODE, **template)
    return scene.get("pod", name)


def _status(scene: Scene, name: str, *, phase: str = "Running", reason: str = "", **container: Any) -> None:
    status: Object = {"phase": phase, "startTime": format_time(scene.cluster.clock.now())}
    if reason:
        status["reason"] = reason
    status["conditions"] = [{"type": type, "status": "False"} for type in ("Ready", "ContainersReady")]
    if container:
        waiting = {"name": "main", "image": "nginx:1.27", "imageID": "", "ready": False, "restartCount": 0, **container}
        status["containerStatuses"] = [waiting]
    scene.merge("pod", name, {"status": status}, subresource="status")


def _event(scene: Scene, pod: Object, reason: str, message: str) -> None:
    now = format_time(scene.cluster.clock.now())
    involved = {"kind": "Pod", "namespace": scene.namespace, "name": pod["metadata"]["name"], "uid": uid_of(pod)}
    body = {"involvedObject": involved, "reason": reason, "message": message, "type": "Warning", "lastTimestamp": now}
    scene.create(EVENTS, f"{pod['metadata']['name']}.{reason.lower()}", body)


def missing_volume_source(scene: Scene) -> tuple[str, str]:
    kind = scene.chance.choice(("configMap", "secret"))
    source = {"configMap": {"name": "absent"}} if kind == "configMap" else {"secret": {"secretName": "absent"}}
    pod = _pod(scene, "web", volumes=[{"name": "settings", **source}])
    _status(scene, "web", phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})
    _event(scene, pod, "FailedMount", f'MountVolume.SetUp failed for volume "settings" : {kind} "absent" not found')
    return "Pod", "web"


def missing_environment(scene: Scene) -> tuple[str, str]:
    field = scene.chance.choice(("configMapRef", "secretRef"))
    _pod(scene, "env", container={"envFrom": [{field: {"name": "absent"}}]})
    waiting = {"reason": "CreateContainerConfigError", "message": f'{field[:-3].lower()} "absent" not found'}
    _status(scene, "env", phase="Pending", state={"waiting": waiting})
    return "Pod", "env"


def out_of_memory(scene: Scene) -> tuple[str, str]:
    _pod(scene, "large", container={"resources": {"limits": {"memory": "64Mi"}}})
    now = format_time(scene.cluster.clock.now())
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": now, "finishedAt": now}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    restarts = scene.chance.randint(3, 9)
    _status(scene, "large", state={"waiting": waiting}, lastState={"terminated": ended}, restartCount=restarts)
    return "Pod", "large"


def cannot_start(scene: Scene) -> tuple[str, str]:
    _pod(scene, "broken", container={"command": ["absent"]})
    message = 'exec: "absent": executable file not found in $PATH'
    reason = scene.chance.choice(("RunContainerError", "CreateContainerError"))
    _status(scene, "broken", state={"waiting": {"reason": reason, "message": message}})
    return "Pod", "broken"


def sandbox(scene: Scene) -> tuple[str, str]:
    pod = _pod(scene, "network")
    _status(scene, "network", phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})
    _event(scene, pod, "FailedCreatePodSandBox", "Failed to create pod sandbox: cni plugin not initialized")
    return "Pod", "network"


def silent(scene: Scene) -> tuple[str, str]:
    _pod(scene, "unseen")
    return "Pod", "unseen"


def not_stopped(scene: Scene) -> tuple[str, str]:
    _pod(scene, "stays", terminationGracePeriodSeconds=scene.chance.randint(1, 10))
    _status(scene, "stays", state={"running": {"startedAt": format_time(scene.cluster.clock.now())}}, ready=True)
    scene.delete("pod", "stays")
    return "Pod", "stays"


def evicted(scene: Scene) -> tuple[str, str]:
    _pod(scene, "evicted")
    _status(scene, "evicted", phase="Failed", reason="Evicted")
    return "Pod", "evicted"


def short_of_disk(scene: Scene) -> tuple[str, str]:
    type_ = scene.chance.choice(("DiskPressure", "MemoryPressure", "PIDPressure"))
    _node(scene, "full-node", {"type": type_, "status": "True", "message": "kubelet has too little left"})
    return "Node", "full-node"


def no_route(scene: Scene) -> tuple[str, str]:
    message = "RouteController failed to create a route"
    _node(scene, "far-node", {"type": "NetworkUnavailable", "status": "True", "message": message})
    return "Node", "far-node"


def _scenario(name: str, code: str, act: Any, wait: float = 100.0) -> Scenario:
    return Scenario(name=name, code=code, act=act, wait=wait, flags=FLAGS)


SCENARIOS = (
    _scenario("source of a volume does not exist", "config-missing", missing_volume_source),
    _scenario("source of the environment does not exist", "config-missing", missing_environment),
    _scenario("container exceeds its memory", "out-of-memory", out_of_memory),
    _scenario("container cannot be started", "container-cannot-start", cannot_start),
    _scenario("network of the pod cannot be set up", "container-cannot-start", sandbox),
    _scenario("kubelet does not start the pod", "kubelet-silent", silent),
    _scenario("kubelet does not stop the pod", "kubelet-does-not-stop-pod", not_stopped),
    _scenario("kubelet evicted the pod", "pod-evicted", evicted),
    _scenario("node is short of a resource", "node-pressure", short_of_disk),
    _scenario("network of a node is not configured", "node-network", no_route),
)
