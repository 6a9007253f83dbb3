"""Objects that are being deleted and wait for controllers, for their own contents, or for an API."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario, Scene
from tests.actors.explanation.scenarios.batch import job_spec
from tests.actors.explanation.scenarios.server import THINGS, api_service, define_things
from tests.actors.explanation.scenarios.storage import claim, user


def _disable(scene: Scene, *controllers: str) -> None:
    system = scene.stage.system
    assert system is not None
    for controller in controllers:
        system.disable(controller)
    scene.run(5.0)


def namespace_without_api(scene: Scene) -> tuple[str, str]:
    api_service(scene)
    name = f"{scene.namespace}-other"
    scene.stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    scene.run(5.0)
    scene.delete("namespace", name)
    return "Namespace", name


def bound_volume(scene: Scene) -> tuple[str, str]:
    claim(scene)
    scene.run(10.0)
    name = scene.get("pvc", "data")["spec"]["volumeName"]
    scene.delete("pv", name)
    return "PersistentVolume", name


def unprotected_claim(scene: Scene) -> tuple[str, str]:
    claim(scene)
    scene.run(10.0)
    _disable(scene, "persistentvolumeclaim-protection-controller")
    scene.delete("pvc", "data")
    return "PersistentVolumeClaim", "data"


def tracked_pod(scene: Scene) -> tuple[str, str]:
    spec = job_spec("tracked", ["sleep", "infinity"])
    scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "tracked"}, "spec": spec})
    scene.run(10.0)
    _disable(scene, "job-controller")
    pods = [pod["metadata"]["name"] for pod in scene.pods() if pod["metadata"]["name"].startswith("tracked")]
    scene.delete("pod", pods[0])
    return "Pod", pods[0]


def kept_instance(scene: Scene) -> tuple[str, str]:
    define_things(scene)
    scene.create(THINGS, "kept", {"spec": {}}, finalizers=["example.com/backup"])
    scene.run(1.0)
    scene.delete("crd", "things.example.com")
    return "CustomResourceDefinition", "things.example.com"


def replaced_on_lost_node(scene: Scene) -> tuple[str, str]:
    """Silence the node of a StatefulSet's pod, which is deleted, and is not replaced before its node is back."""
    scene.pod_owner("db", kind="StatefulSet", replicas=1, tolerations=[])
    scene.run(10.0)
    node = scene.get("pod", "db-0")["spec"]["nodeName"]
    scene.merge("node", node, {"metadata": {"annotations": {"hollow.kcm.dev/silent": "true"}}})
    scene.run(60.0)
    scene.delete("pod", "db-0")
    return "StatefulSet", "db"


def claim_of_stopping_pod(scene: Scene) -> tuple[str, str]:
    """Delete a claim whose pod is being deleted, but has a finalizer."""
    claim(scene)
    user(scene, "web")
    scene.run(20.0)
    scene.merge("pod", "web", {"metadata": {"finalizers": ["example.com/drain"]}})
    scene.delete("pvc", "data")
    scene.delete("pod", "web")
    return "PersistentVolumeClaim", "data"


SCENARIOS = (
    Scenario(
        name="API of the contents of a namespace is down",
        code="namespace-discovery|api-service-unavailable",
        act=namespace_without_api,
        alone=True,
    ),
    Scenario(name="volume is bound to a claim", code="in-use", act=bound_volume),
    Scenario(
        name="controller of claim protection is disabled",
        code="finalizer-controller",
        act=unprotected_claim,
        alone=True,
    ),
    Scenario(name="job controller does not release the pod", code="finalizer-controller", act=tracked_pod, alone=True),
    Scenario(
        name="definition has an object with a finalizer",
        code="finalizer",
        further=("instances-remain",),
        act=kept_instance,
        alone=True,
    ),
    Scenario(name="pod on a lost node is not replaced", code="node-lost", act=replaced_on_lost_node, alone=True),
    Scenario(name="claim is used by a pod with a finalizer", code="finalizer", act=claim_of_stopping_pod),
)
