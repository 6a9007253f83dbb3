"""Objects whose controllers do not work."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem
from kcm.protocols.objects import Object
from tests.actors.explanation.scenario import Scenario, Scene

KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")


def _controller(kind: str) -> str:
    return f"{kind.lower()}-controller"


def _manager(scene: Scene) -> ControllerSystem:
    system = scene.stage.system
    assert system is not None
    return system


def disabled(scene: Scene) -> tuple[str, str]:
    kind = scene.chance.choice(KINDS)
    _manager(scene).disable(_controller(kind))
    scene.run(5.0)
    return scene.pod_owner("idle", kind=kind)


def paused(scene: Scene) -> tuple[str, str]:
    kind = scene.chance.choice(KINDS)
    _manager(scene).pause(_controller(kind))
    scene.run(5.0)
    return scene.pod_owner("idle", kind=kind)


def disabled_below(scene: Scene) -> tuple[str, str]:
    _manager(scene).disable("replicaset-controller")
    scene.run(5.0)
    return scene.pod_owner("idle", kind="Deployment")


def scaled_while_paused(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("scaled", kind="Deployment")
    scene.run(10.0)
    _manager(scene).pause("deployment-controller")
    scene.run(2.0)
    scene.merge(kind, name, {"spec": {"replicas": 5}})
    return kind, name


def collector_disabled(scene: Scene) -> tuple[str, str]:
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent"}, "data": {}}
    scene.apply(config)
    _manager(scene).disable("garbage-collector-controller")
    scene.run(5.0)
    scene.delete("configmap", "parent", policy="Foreground")
    return "configmap", "parent"


def namespaces_disabled(scene: Scene) -> tuple[str, str]:
    _manager(scene).disable("namespace-controller")
    scene.run(5.0)
    scene.delete("namespace", scene.namespace)
    return "namespace", scene.namespace


def slow_client(scene: Scene) -> tuple[str, str]:
    _manager(scene).change("clients", "replicaset-controller", "rate", {"qps": 0.01, "burst": 1})
    scene.run(2.0)
    return scene.pod_owner("slow", kind="ReplicaSet", replicas=6)


def braked(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("scaled", kind="ReplicaSet", replicas=3)
    scene.run(15.0)
    _manager(scene).change("brake", "", "engage", {})
    scene.run(2.0)
    scene.merge(kind, name, {"spec": {"replicas": 1}})
    return kind, name


def zone_paused(scene: Scene) -> tuple[str, str]:
    """Silence one node of three, whose zone is paused: the root is the node, the zone follows."""
    _manager(scene).change("zones", "hollow:zone-a", "pause", {})
    scene.run(2.0)
    silent = {"metadata": {"annotations": {"hollow.kcm.dev/silent": "true"}}}
    scene.merge("node", "hollow-node-0", silent)
    return "node", "hollow-node-0"


def terminating_namespace(scene: Scene) -> tuple[str, str]:
    """Scale a workload in a namespace that is being deleted, while its controller is disabled."""
    kind, name = scene.pod_owner("scaled", kind="ReplicaSet")
    scene.run(10.0)
    _manager(scene).disable("namespace-controller")
    scene.run(5.0)
    scene.delete("namespace", scene.namespace)
    scene.merge(kind, name, {"spec": {"replicas": scene.chance.randint(2, 5)}})
    return kind, name


SCENARIOS = (
    Scenario(name="controller is disabled", code="controller-disabled", act=disabled, alone=True),
    Scenario(name="controller is paused", code="controller-paused", act=paused, alone=True),
    Scenario(name="controller of a dependent is disabled", code="controller-disabled", act=disabled_below, alone=True),
    Scenario(name="scaled while its controller pauses", code="controller-paused", act=scaled_while_paused, alone=True),
    Scenario(name="garbage collector is disabled", code="finalizer-controller", act=collector_disabled, alone=True),
    Scenario(name="rate limit of the controller is used up", code="rate-limited", act=slow_client, alone=True),
    Scenario(name="storm brake holds deletions back", code="storm-brake", act=braked, alone=True),
    Scenario(
        name="evictions of the zone are paused",
        code="node-lost",
        further=("eviction-rate",),
        act=zone_paused,
        wait=90.0,
        alone=True,
    ),
    Scenario(
        name="namespace of a larger workload is being deleted",
        code="namespace-terminating",
        act=terminating_namespace,
        alone=True,
    ),
    Scenario(name="namespace controller is disabled", code="controller-disabled", act=namespaces_disabled, alone=True),
)
