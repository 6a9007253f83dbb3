"""Volumes of a hollow cluster: attached, mounted, moved to another node, and released."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.storage import attach_detach
from kcm.actors.hollow import behaviour
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.domain_settings import ATTACHMENTS_SETTING
from kcm.protocols.csi import attached_names, in_use_names
from kcm.protocols.nodes import OUT_OF_SERVICE_TAINT
from kcm.protocols.objects import Object, finalizers_of, name_of
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFULSETS,
    VOLUME_ATTACHMENTS,
)

CONTROLLERS = ATTACHMENTS_SETTING.controllers
OUT_OF_SERVICE = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture
def attaching(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster whose pods wait until their volumes are attached."""
    cluster.manager(controllers=CONTROLLERS)
    cluster.hollow_nodes(nodes=3, zones=1, volumes=True, attach=True)
    cluster.run_for(5)
    return cluster


def stateful_set(replicas: int = 1, **annotations: str) -> Object:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    container = {"name": "db", "image": "db", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}, "annotations": annotations},
                "spec": {"containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def pod_of(cluster: SimulatedCluster, name: str = "db-0") -> Object:
    return cluster.get(PODS, f"default/{name}") or {}


def phase(cluster: SimulatedCluster, name: str = "db-0") -> str:
    return (pod_of(cluster, name).get("status") or {}).get("phase") or ""


def waits_for(cluster: SimulatedCluster, name: str = "db-0") -> str:
    statuses = (pod_of(cluster, name).get("status") or {}).get("containerStatuses") or [{}]
    return ((statuses[0].get("state") or {}).get("waiting") or {}).get("reason") or ""


def annotate(cluster: SimulatedCluster, resource: Any, name: str, **annotations: str | None) -> None:
    cluster.merge(resource, name, {"metadata": {"annotations": annotations}})


def events(cluster: SimulatedCluster, reason: str) -> list[str]:
    return [event["message"] for event in cluster.list(EVENTS) if event["reason"] == reason]


def running(cluster: SimulatedCluster) -> Callable[[], bool]:
    return lambda: phase(cluster) == "Running"


def test_nodes_register_their_drivers(attaching: SimulatedCluster) -> None:
    (driver,) = attaching.list(CSI_DRIVERS)
    assert (name_of(driver), driver["spec"]["attachRequired"]) == (behaviour.DRIVER, True)
    nodes = attaching.list(CSI_NODES)
    assert [name_of(node) for node in nodes] == [f"hollow-node-{number}" for number in range(3)]
    assert nodes[0]["spec"]["drivers"] == [
        {"name": behaviour.DRIVER, "nodeID": "hollow-node-0", "topologyKeys": ["topology.kubernetes.io/zone"]}
    ]
    node = attaching.get(NODES, "hollow-node-0")
    assert node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"] == '{"hollow.kcm.dev":"hollow-node-0"}'
    annotate(attaching, NODES, "hollow-node-0", **{behaviour.ATTACH_LIMIT: "2", behaviour.CSI_DRIVERS: "a.io=5, b.io"})
    attaching.run_for(2)
    drivers = attaching.get(CSI_NODES, "hollow-node-0")["spec"]["drivers"]
    assert [(driver["name"], driver.get("allocatable")) for driver in drivers] == [
        (behaviour.DRIVER, {"count": 2}),
        ("a.io", {"count": 5}),
        ("b.io", None),
    ]


def test_pod_runs_once_its_volume_is_attached(attaching: SimulatedCluster) -> None:
    annotate(attaching, NODES, "hollow-node-0", **{behaviour.ATTACH_SECONDS: "7"})
    annotate(attaching, NODES, "hollow-node-1", **{behaviour.ATTACH_SECONDS: "7"})
    annotate(attaching, NODES, "hollow-node-2", **{behaviour.ATTACH_SECONDS: "7"})
    attaching.create(STATEFULSETS, stateful_set())
    attaching.run_for(5)
    pod = pod_of(attaching)
    assert (phase(attaching), waits_for(attaching)) == ("Pending", "ContainerCreating")
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert conditions["PodReadyToStartContainers"] == "False"
    node = attaching.get(NODES, pod["spec"]["nodeName"])
    (volume,) = attaching.list(PERSISTENT_VOLUMES)
    name = f"kubernetes.io/csi/{behaviour.DRIVER}^{name_of(volume)}"
    assert (in_use_names(node), attached_names(node)) == ((name,), frozenset())
    (attachment,) = attaching.list(VOLUME_ATTACHMENTS)
    assert finalizers_of(attachment) == ("external-attacher/hollow-kcm-dev",)
    assert "external-attacher/hollow-kcm-dev" in finalizers_of(volume)
    attaching.run_for(6)
    assert phase(attaching) == "Running"
    assert attached_names(attaching.get(NODES, pod["spec"]["nodeName"])) == {name}
    assert events(attaching, "FailedMount") == []


def test_volume_is_released_after_its_pod(attaching: SimulatedCluster) -> None:
    attaching.create(STATEFULSETS, stateful_set())
    assert attaching.run_until(running(attaching))
    node = pod_of(attaching)["spec"]["nodeName"]
    attaching.merge(STATEFULSETS, "default/db", {"spec": {"replicas": 0}})
    assert attaching.run_until(lambda: not attaching.list(VOLUME_ATTACHMENTS))
    assert in_use_names(attaching.get(NODES, node)) == ()
    attaching.delete(PERSISTENT_VOLUME_CLAIMS, "default/data-db-0")
    assert attaching.run_until(lambda: not attaching.list(PERSISTENT_VOLUMES))


def test_volume_moves_from_a_node_that_is_out_of_service(attaching: SimulatedCluster) -> None:
    attaching.create(STATEFULSETS, stateful_set())
    assert attaching.run_until(running(attaching))
    (volume,) = attaching.list(PERSISTENT_VOLUMES)
    lost = pod_of(attaching)["spec"]["nodeName"]
    annotate(attaching, NODES, lost, **{behaviour.SILENT: "true"})
    attaching.run_for(120)
    assert pod_of(attaching)["spec"]["nodeName"] == lost
    taints = attaching.get(NODES, lost)["spec"].get("taints") or []
    attaching.merge(NODES, lost, {"spec": {"taints": [*taints, OUT_OF_SERVICE]}})

    def moved() -> bool:
        node = (pod_of(attaching).get("spec") or {}).get("nodeName", lost)
        return node != lost and phase(attaching) == "Running"

    assert attaching.run_until(moved, within=400)
    (attachment,) = attaching.list(VOLUME_ATTACHMENTS)
    assert attachment["spec"]["nodeName"] == pod_of(attaching)["spec"]["nodeName"]
    assert attachment["spec"]["source"]["persistentVolumeName"] == name_of(volume)
    annotate(attaching, NODES, lost, **{behaviour.SILENT: None})
    attaching.run_for(60)
    assert in_use_names(attaching.get(NODES, lost)) == ()


def test_volume_moves_from_a_lost_node_by_force(cluster: SimulatedCluster) -> None:
    """The node is silent, its pod is deleted by force, and the controller detaches the volume after six minutes."""
    cluster.manager()
    cluster.hollow_nodes(nodes=3, zones=1, volumes=True, attach=True)
    cluster.create(STATEFULSETS, stateful_set())
    assert cluster.run_until(running(cluster))
    lost = pod_of(cluster)["spec"]["nodeName"]
    annotate(cluster, NODES, lost, **{behaviour.SILENT: "true"})
    cluster.run_for(120)
    cluster.delete(PODS, "default/db-0", grace_seconds=0)
    cluster.run_for(200)
    assert pod_of(cluster)["spec"]["nodeName"] != lost
    assert (phase(cluster), waits_for(cluster)) == ("Pending", "ContainerCreating")
    assert any(text.startswith("Multi-Attach error for volume") for text in events(cluster, "FailedAttachVolume"))
    assert cluster.run_until(running(cluster), within=400)
    (attachment,) = cluster.list(VOLUME_ATTACHMENTS)
    assert attachment["spec"]["nodeName"] == pod_of(cluster)["spec"]["nodeName"]


def test_pods_run_without_an_attach_detach_controller(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[spec for spec in CONTROLLERS if spec is not attach_detach.SPEC])
    cluster.hollow_nodes(nodes=3, zones=1, volumes=True)
    cluster.create(STATEFULSETS, stateful_set(2))
    assert cluster.run_until(lambda: phase(cluster, "db-1") == "Running")
    assert [driver["spec"]["attachRequired"] for driver in cluster.list(CSI_DRIVERS)] == [False]
    assert (cluster.list(VOLUME_ATTACHMENTS), in_use_names(cluster.list(NODES)[0])) == ([], ())


def test_failed_attachments_are_reported_and_retried(attaching: SimulatedCluster) -> None:
    for number in range(3):
        annotate(attaching, NODES, f"hollow-node-{number}", **{behaviour.ATTACH_ERROR: "no disk"})
    attaching.create(STATEFULSETS, stateful_set())
    attaching.run_for(10)
    (attachment,) = attaching.list(VOLUME_ATTACHMENTS)
    assert attachment["status"]["attachError"]["message"] == "rpc error: code = Internal desc = no disk"
    assert phase(attaching) == "Pending"
    for number in range(3):
        annotate(attaching, NODES, f"hollow-node-{number}", **{behaviour.ATTACH_ERROR: None})
    assert attaching.run_until(running(attaching))
    (attachment,) = attaching.list(VOLUME_ATTACHMENTS)
    assert attachment["status"] == {"attached": True}


def test_failed_detachments_are_reported_and_retried(attaching: SimulatedCluster) -> None:
    attaching.create(STATEFULSETS, stateful_set())
    assert attaching.run_until(running(attaching))
    (volume,) = attaching.list(PERSISTENT_VOLUMES)
    annotate(attaching, PERSISTENT_VOLUMES, name_of(volume), **{behaviour.DETACH_ERROR: "busy"})
    attaching.merge(STATEFULSETS, "default/db", {"spec": {"replicas": 0}})
    attaching.run_for(10)
    (attachment,) = attaching.list(VOLUME_ATTACHMENTS)
    assert attachment["status"]["detachError"]["message"] == "rpc error: code = Internal desc = busy"
    annotate(attaching, PERSISTENT_VOLUMES, name_of(volume), **{behaviour.DETACH_ERROR: None})
    assert attaching.run_until(lambda: not attaching.list(VOLUME_ATTACHMENTS))


def test_failed_mounts_cause_events_and_are_retried(attaching: SimulatedCluster) -> None:
    for number in range(3):
        annotate(attaching, NODES, f"hollow-node-{number}", **{behaviour.MOUNT_ERROR: "no such device"})
    attaching.create(STATEFULSETS, stateful_set())
    attaching.run_for(10)
    (volume,) = attaching.list(PERSISTENT_VOLUMES)
    why = "rpc error: code = Internal desc = no such device"
    text = f'MountVolume.MountDevice failed for volume "{name_of(volume)}" : {why}'
    assert set(events(attaching, "FailedMount")) == {text}
    assert (phase(attaching), waits_for(attaching)) == ("Pending", "ContainerCreating")
    for number in range(3):
        annotate(attaching, NODES, f"hollow-node-{number}", **{behaviour.MOUNT_ERROR: None})
    assert attaching.run_until(running(attaching), within=10)
