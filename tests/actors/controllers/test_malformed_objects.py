"""Objects with a field of another type, which a current server rejects, fail no actor and stop no other object.

The logged errors name the field: none is an accident of Python like "'int' object has no attribute 'get'".

Each case replaces one field of the objects that the manager reads, by a seed. A server of another version, or an object
that was stored before its validation existed, can show such objects.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    IP_ADDRESSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICASETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICE_CIDRS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from tests.support.objects import replica_set

SPOILED = "spoiled"
WRONG = (None, True, -1, 3.5, "", "\x00", "x" * 300, [], [None], ["x"], {}, {"x": None}, {"": [{}]})
DRIVER, GIB = "csi.example.com", {"storage": "1Gi"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": GIB}}
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
RESULT = {
    "request": "gpu",
    "driver": DRIVER,
    "pool": "p",
    "device": "d",
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
}
SPECS: list[tuple[Resource, Object]] = [
    (
        NODES,
        {
            "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
            "status": {
                "volumesInUse": [f"kubernetes.io/csi/{DRIVER}^v"],
                "volumesAttached": [{"name": f"kubernetes.io/csi/{DRIVER}^v", "devicePath": ""}],
            },
        },
    ),
    (
        PODS,
        {
            "spec": {
                "nodeName": SPOILED,
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "securityContext": {"seLinuxOptions": {"level": "s0:c1"}, "seLinuxChangePolicy": "MountOption"},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": SPOILED}],
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": SPOILED}},
                    {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
                    {"name": "c", "csi": {"driver": DRIVER}},
                ],
            },
            "status": {
                "phase": "Pending",
                "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": SPOILED}],
                "extendedResourceClaimStatus": {"resourceClaimName": SPOILED, "requestMappings": []},
            },
        },
    ),
    (
        PERSISTENT_VOLUME_CLAIMS,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": SPOILED,
                "volumeName": SPOILED,
            },
            "status": {
                "phase": "Bound",
                "capacity": GIB,
                "allocatedResources": GIB,
                "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
                "conditions": [{"type": "Resizing", "status": "True"}],
            },
        },
    ),
    (
        PERSISTENT_VOLUMES,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": GIB,
                "csi": {"driver": DRIVER, "volumeHandle": "v"},
                "claimRef": {"namespace": "default", "name": SPOILED, "uid": "u"},
                "storageClassName": SPOILED,
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
            },
            "status": {"phase": "Bound"},
        },
    ),
    (STORAGE_CLASSES, {"provisioner": DRIVER, "allowVolumeExpansion": True, "mountOptions": ["a"]}),
    (
        VOLUME_ATTACHMENTS,
        {
            "spec": {"attacher": DRIVER, "nodeName": SPOILED, "source": {"persistentVolumeName": SPOILED}},
            "status": {"attached": False, "attachError": {"message": "m", "time": "2026-01-01T00:00:00Z"}},
        },
    ),
    (CSI_DRIVERS, {"spec": {"attachRequired": True, "seLinuxMount": True}}),
    (CSI_NODES, {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 3}}]}}),
    (
        RESOURCE_CLAIMS,
        {
            "spec": {"devices": {"requests": [REQUEST]}},
            "status": {
                "allocation": {"devices": {"results": [RESULT]}},
                "reservedFor": [{"resource": "pods", "name": SPOILED, "uid": "u"}],
            },
        },
    ),
    (RESOURCE_CLAIM_TEMPLATES, {"spec": {"metadata": {}, "spec": {"devices": {"requests": [REQUEST]}}}}),
    (
        RESOURCE_SLICES,
        {
            "spec": {
                "driver": DRIVER,
                "nodeName": SPOILED,
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "d",
                        "attributes": {"a": {"int": 1}},
                        "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
                    }
                ],
            }
        },
    ),
    (SERVICE_CIDRS, {"spec": {"cidrs": ["10.9.0.0/24"]}, "status": {"conditions": [{"type": "Ready"}]}}),
    (
        IP_ADDRESSES,
        {"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": SPOILED}}},
    ),
]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all fields and items below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (*place, name)
        yield from places(item, (*place, name))


def spoil(obj: Object, rng: random.Random) -> Object:
    """Return a copy in which one field outside of the metadata has a value of another type."""
    obj = copy.deepcopy(obj)
    path = rng.choice([place for place in places(obj) if place[0] not in ("metadata", "apiVersion", "kind")])
    parent: Any = obj
    for name in path[:-1]:
        parent = parent[name]
    parent[path[-1]] = copy.deepcopy(rng.choice(WRONG))
    return obj


def show_spoiled(manager: ControllerSystem, resource: Resource, fields: Object, rng: random.Random) -> None:
    """Let the manager read these fields, one of them spoiled, in the object of the resource with the name SPOILED."""
    table = manager.tables.get(resource.id)
    if table is None:
        return
    make = table.make_entry

    def make_entry(obj: Object, raw: bytes) -> Any:
        if obj["metadata"]["name"] in (SPOILED, "10.9.0.7"):
            obj = spoil({**obj, **fields, "metadata": obj["metadata"]}, rng)
            raw = encode_object(obj)
        return make(obj, raw)

    table.make_entry = make_entry  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", range(12))
def test_malformed_objects_fail_no_actor_and_stop_no_other_object(
    cluster: SimulatedCluster, seed: int, logs: LogCapture
) -> None:
    rng = random.Random(seed)
    manager = cluster.manager()
    for resource, fields in SPECS:
        show_spoiled(manager, resource, fields, rng)
    for _ in range(3):  # each time other fields
        for resource, fields in SPECS:
            name = "10.9.0.7" if resource is IP_ADDRESSES else SPOILED
            namespace = {"namespace": "default"} if resource.namespaced else {}
            if cluster.get(resource, f"default/{name}" if namespace else name) is None:
                labels = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
                cluster.create(resource, {"metadata": {"name": name, "labels": labels, **namespace}, **fields})
        cluster.run_for(30.0)
    cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    cluster.create(REPLICASETS, replica_set(replicas=2, namespace="other"))
    assert cluster.run_until(lambda: len(cluster.list(PODS, "other")) == 2, within=60.0)
    children = manager.vitals.of(MANAGER, ManagerVitals)
    assert children is not None
    assert {name: child.last_error for name, child in children.children.items() if child.failures} == {}
    errors = {str(entry.get("error")) for entry in logs.entries}
    assert {error for error in errors if re.search(r"(Attribute|Type|Key|Index)Error", error)} == set()
