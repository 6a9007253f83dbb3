"""Pods that wait for volumes elsewhere, for preempted pods, or for nodes that do not respond."""

from __future__ import annotations

from kcm.actors.explanation.kinds import PRIORITY_CLASSES
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES
from tests.actors.explanation.scenario import Scenario, Scene
from tests.actors.explanation.scenarios.storage import claim, user, volume

HOLLOW = "hollow.kcm.dev"
SILENT = {"metadata": {"annotations": {f"{HOLLOW}/silent": "true"}}}


def elsewhere(scene: Scene) -> tuple[str, str]:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    name = f"{scene.namespace}-ssd"
    volume(scene, name, nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    claim(scene, storageClassName="", volumeName=name)
    return user(scene, "web", kind=scene.chance.choice(("Pod", "Deployment")))


def too_many(scene: Scene) -> tuple[str, str]:
    for node in scene.cluster.list(NODES):
        scene.merge("node", node["metadata"]["name"], {"metadata": {"annotations": {f"{HOLLOW}/attach-limit": "1"}}})
    scene.run(10.0)
    for number in range(4):
        claim(scene, f"data-{number}")
        user(scene, f"web-{number}", f"data-{number}")
        scene.run(5.0)
    return "Pod", "web-3"


def preempts(scene: Scene) -> tuple[str, str]:
    for name, value in (("low", 1), ("high", 1000)):
        scene.create(PRIORITY_CLASSES, f"{scene.namespace}-{name}", {"value": value})
    requests: Object = {"resources": {"requests": {"cpu": "3"}}}
    scene.pod_owner(
        "low",
        kind="ReplicaSet",
        replicas=40,
        container=requests,
        priorityClassName=f"{scene.namespace}-low",
        terminationGracePeriodSeconds=1000,
        annotations={f"{HOLLOW}/terminate-after-seconds": "900"},
    )
    scene.run(40.0)
    return scene.pod_owner("high", kind="Pod", container=requests, priorityClassName=f"{scene.namespace}-high")


def selected_and_tainted(scene: Scene) -> tuple[str, str]:
    node = scene.cluster.list(NODES)[0]["metadata"]["name"]
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    scene.merge("node", node, {"metadata": {"labels": {"disk": "ssd"}}, "spec": {"taints": [taint]}})
    scene.run(2.0)
    return scene.pod_owner("web", kind=scene.chance.choice(("Pod", "StatefulSet")), nodeSelector={"disk": "ssd"})


def silent_node(scene: Scene) -> tuple[str, str]:
    node = scene.cluster.list(NODES)[0]["metadata"]["name"]
    scene.merge("node", node, SILENT)
    return "Node", node


def all_silent(scene: Scene) -> tuple[str, str]:
    found = scene.pod_owner("web", kind="Deployment", replicas=2)
    scene.run(20.0)
    for node in scene.cluster.list(NODES):
        scene.merge("node", node["metadata"]["name"], SILENT)
    return found


def silent_zones(scene: Scene) -> tuple[str, str]:
    names = [node["metadata"]["name"] for node in scene.cluster.list(NODES)]
    for name in names:
        scene.merge("node", name, SILENT)
    return "Node", scene.chance.choice(names)


def unready_node(scene: Scene) -> tuple[str, str]:
    node = scene.cluster.list(NODES)[0]["metadata"]["name"]
    scene.merge("node", node, {"metadata": {"annotations": {f"{HOLLOW}/ready": "false"}}})
    return "Node", node


def cordoned(scene: Scene) -> tuple[str, str]:
    node = scene.cluster.list(NODES)[-1]["metadata"]["name"]
    scene.merge("node", node, {"spec": {"unschedulable": True}})
    return "Node", node


def ordered(scene: Scene) -> tuple[str, str]:
    """Create a StatefulSet whose first pod does not become ready, so that there are no others."""
    annotations = {f"{HOLLOW}/ready": "false"}
    probe = {"readinessProbe": {"httpGet": {"port": 80}}}
    return scene.pod_owner("web", kind="StatefulSet", replicas=3, container=probe, annotations=annotations)


def failing_daemons(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("agent", kind="DaemonSet", annotations={f"{HOLLOW}/reject": "true"})


SCENARIOS = (
    Scenario(name="volume is on other nodes", code="volume-not-reachable", act=elsewhere),
    Scenario(name="nodes cannot attach more volumes", code="too-many-volumes", act=too_many, alone=True),
    Scenario(name="pods of lower priority are being stopped", code="preempting", act=preempts, alone=True),
    Scenario(
        name="only node that is selected is tainted", code="untolerated-taint", act=selected_and_tainted, alone=True
    ),
    Scenario(name="node is silent", code="node-lost", act=silent_node, wait=90.0, alone=True),
    Scenario(name="all nodes are silent", code="node-lost", act=all_silent, wait=200.0, alone=True),
    Scenario(
        name="node is silent as all others are",
        code="node-lost",
        further=("zone-disruption",),
        act=silent_zones,
        wait=90.0,
        alone=True,
    ),
    Scenario(name="kubelet reports that it is not ready", code="node-not-ready", act=unready_node, alone=True),
    Scenario(name="node is cordoned", code="node-cordoned", act=cordoned, alone=True),
    Scenario(
        name="first pod of a stateful set is not ready",
        code="readiness-probe",
        further=("ordered-pods",),
        act=ordered,
    ),
    Scenario(
        name="kubelet rejects the pods of a daemon set",
        code="pod-rejected|failing-pods-backoff",
        act=failing_daemons,
    ),
)
