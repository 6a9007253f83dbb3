"""Objects that are being deleted and stay."""

from __future__ import annotations

from kcm.protocols.objects import Object
from tests.actors.explanation.scenario import Scenario, Scene, resource_of


def _config(name: str, **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {}}


def finalizer(scene: Scene) -> tuple[str, str]:
    scene.apply(_config("kept", finalizers=["example.com/backup"]))
    scene.delete("configmap", "kept")
    return "configmap", "kept"


def namespace_finalizer(scene: Scene) -> tuple[str, str]:
    name = f"{scene.namespace}-other"
    scene.stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    scene.run(5.0)
    scene.stage.apply(_config("kept", namespace=name, finalizers=["example.com/backup"]))
    scene.delete("namespace", name)
    return "namespace", name


def foreground(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("parent", kind="ReplicaSet", replicas=2)
    scene.run(10.0)
    pod = next(
        pod
        for pod in scene.cluster.list(resource_of("pod"), scene.namespace)
        if pod["metadata"]["name"].startswith(name)
    )
    scene.merge("pod", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/drain"]}})
    scene.delete(kind, name, policy="Foreground")
    return kind, name


def claim_in_use(scene: Scene) -> tuple[str, str]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scene.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "used"}, "spec": claim})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]
    scene.pod_owner("user", kind="Pod", volumes=volumes)
    scene.run(20.0)
    scene.delete("pvc", "used")
    return "pvc", "used"


def node_is_lost(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("lost", kind="Pod")
    scene.run(10.0)
    pod = scene.cluster.get(resource_of("pod"), scene.key("lost"))
    assert pod is not None
    silent = {"metadata": {"annotations": {"hollow.kcm.dev/silent": "true"}}}
    scene.merge("node", pod["spec"]["nodeName"], silent)
    scene.run(60.0)
    scene.delete("pod", "lost")
    return "pod", "lost"


SCENARIOS = (
    Scenario(name="finalizer of another program", code="finalizer", act=finalizer),
    Scenario(
        name="namespace with a finalizer in it",
        code="finalizer",
        further=("namespace-not-empty",),
        act=namespace_finalizer,
    ),
    Scenario(
        name="foreground deletion waits for a pod",
        code="finalizer",
        further=("foreground-deletion",),
        act=foreground,
    ),
    Scenario(name="claim is used by a pod", code="in-use", act=claim_in_use),
    Scenario(name="node of the pod is lost", code="node-lost", act=node_is_lost, alone=True),
)
