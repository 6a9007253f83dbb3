"""Pods whose containers do not run, or are not ready."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario, Scene, resource_of

HOLLOW = "hollow.kcm.dev"


def image_pull(scene: Scene) -> tuple[str, str]:
    image = scene.chance.choice(("nginx:404", "registry.invalid/shop:1", "shop/web:nonexistent"))
    return scene.pod_owner("image", container={"image": image})


def image_invalid(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("badname", container={"image": scene.chance.choice(("Nginx:1", "nginx::1", "a/B:c"))})


def image_never(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("never", container={"image": "nginx:404", "imagePullPolicy": "Never"})


def crash_loop(scene: Scene) -> tuple[str, str]:
    command = scene.chance.choice((["false"], ["sh", "-c", "sleep 1; exit 3"], ["sh", "-c", "exit 7"]))
    return scene.pod_owner("crashes", container={"command": command})


def liveness(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 2, "failureThreshold": 2}
    return scene.pod_owner(
        "hangs", container={"livenessProbe": probe}, annotations={f"{HOLLOW}/hang-after-seconds": "2"}
    )


def startup(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 3}
    return scene.pod_owner("slow", container={"startupProbe": probe}, annotations={f"{HOLLOW}/start-seconds": "1000"})


def readiness(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5}
    return scene.pod_owner("unready", container={"readinessProbe": probe}, annotations={f"{HOLLOW}/ready": "false"})


def readiness_gate(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("gate", readinessGates=[{"conditionType": "example.com/balanced"}])


def init_fails(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("init", initContainers=[{"name": "setup", "image": "busybox", "command": ["false"]}])


def init_hangs(scene: Scene) -> tuple[str, str]:
    command = ["sh", "-c", "sleep infinity"]
    return scene.pod_owner("waits", initContainers=[{"name": "setup", "image": "busybox", "command": command}])


def endless_helper(scene: Scene) -> tuple[str, str]:
    """Run a pod of which one container completes, and the other one does not end."""
    ends = {"name": "main", "image": "busybox", "command": ["sh", "-c", "sleep 5; exit 0"]}
    helper = {"name": "helper", "image": "busybox", "command": ["sleep", "infinity"]}
    return scene.pod_owner("helped", kind="Pod", restartPolicy="Never", containers=[ends, helper])


def rejected(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("rejected", kind="Pod", annotations={f"{HOLLOW}/reject": "true"})


def mount(scene: Scene) -> tuple[str, str]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scene.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})
    scene.run(10.0)
    bound = scene.cluster.get(resource_of("pvc"), scene.key("data"))
    assert bound is not None
    annotation = {"metadata": {"annotations": {f"{HOLLOW}/mount-error": "wrong fs type"}}}
    scene.cluster.merge(resource_of("pv"), bound["spec"]["volumeName"], annotation)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    return scene.pod_owner("mounts", kind="Pod", volumes=volumes, container={"volumeMounts": mounts})


def resize(scene: Scene) -> tuple[str, str]:
    """Request more in place than the node of the pod has."""
    _, name = scene.pod_owner("grows", kind="Pod", container={"resources": {"requests": {"cpu": "100m"}}})
    scene.run(15.0)
    container = {**scene.get("Pod", name)["spec"]["containers"][0], "resources": {"requests": {"cpu": "64"}}}
    scene.merge("Pod", name, {"spec": {"containers": [container]}}, subresource="resize")
    return "Pod", name


SCENARIOS = (
    Scenario(name="image cannot be pulled", code="image-pull", act=image_pull),
    Scenario(name="image name is invalid", code="image-invalid", act=image_invalid),
    Scenario(name="image must not be pulled", code="image-never-pull", act=image_never),
    Scenario(name="container crashes", code="crash-loop", act=crash_loop),
    Scenario(name="liveness probe fails", code="startup-probe", act=liveness),
    Scenario(name="startup probe fails", code="startup-probe", act=startup),
    Scenario(name="readiness probe fails", code="readiness-probe", act=readiness),
    Scenario(name="readiness gate is not met", code="readiness-gate", act=readiness_gate),
    Scenario(name="init container fails", code="crash-loop", act=init_fails),
    Scenario(name="init container does not end", code="init-container", act=init_hangs, wait=150.0),
    Scenario(
        name="container does not end with the others", code="container-does-not-end", act=endless_helper, wait=150.0
    ),
    Scenario(name="kubelet rejects the pod", code="pod-rejected", act=rejected),
    Scenario(name="volume cannot be mounted", code="volume-mount", act=mount),
    Scenario(name="pod is resized to more than its node has", code="resize-pending", act=resize),
)
