"""Objects with a field of another type, which a current server rejects, fail no actor and stop no other object.

The logged errors name the object and the field: none is an accident of Python like "'int' object has no attribute
'get'".

Each case replaces fields of the objects that the manager reads, by a seed. A server of another version, or an object
that was stored before its validation existed, can show such objects.
"""

from __future__ import annotations

import base64
import copy
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.arguments import read_options
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NAMESPACES, PODS, REPLICASETS
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from kcm.runtime.schema.api_types import Field, built_in_types
from kcm.runtime.simulation.keys import request_der, request_pem
from kcm.runtime.tables.table import Table
from tests.support.objects import pod_template, replica_set

SPOILED = "spoiled"
WRONG = (None, True, -1, 3.5, "", "\x00", "x" * 300, [], [None], ["x"], {}, {"x": None}, {"": [{}]})
TIME = "2026-01-01T00:00:00Z"
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
SELECTOR = {"matchLabels": {"app": SPOILED}}
TEMPLATE = pod_template(labels=SELECTOR["matchLabels"])
CONDITION = {"type": "Progressing", "status": "True", "lastTransitionTime": TIME, "lastUpdateTime": TIME}
JOB = {
    "parallelism": 2,
    "completions": 2,
    "completionMode": "Indexed",
    "backoffLimit": 3,
    "activeDeadlineSeconds": 100,
    "ttlSecondsAfterFinished": 5,
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}],
    },
    "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
}
# By resource: what the manager reads, of which one field is malformed. The server accepts it when it is created.
FIELDS: dict[str, Object] = {
    "v1/nodes": {
        "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
        "status": {
            "volumesInUse": [f"kubernetes.io/csi/{DRIVER}^v"],
            "volumesAttached": [{"name": f"kubernetes.io/csi/{DRIVER}^v", "devicePath": ""}],
        },
    },
    "v1/pods": {
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
    "v1/persistentvolumeclaims": {
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
    "v1/persistentvolumes": {
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
    "storage.k8s.io/v1/storageclasses": {"provisioner": DRIVER, "allowVolumeExpansion": True, "mountOptions": ["a"]},
    "storage.k8s.io/v1/volumeattachments": {
        "spec": {"attacher": DRIVER, "nodeName": SPOILED, "source": {"persistentVolumeName": SPOILED}},
        "status": {"attached": False, "attachError": {"message": "m", "time": "2026-01-01T00:00:00Z"}},
    },
    "storage.k8s.io/v1/csidrivers": {"spec": {"attachRequired": True, "seLinuxMount": True}},
    "storage.k8s.io/v1/csinodes": {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 3}}]}},
    "resource.k8s.io/v1/resourceclaims": {
        "spec": {"devices": {"requests": [REQUEST]}},
        "status": {
            "allocation": {"devices": {"results": [RESULT]}},
            "reservedFor": [{"resource": "pods", "name": SPOILED, "uid": "u"}],
        },
    },
    "resource.k8s.io/v1/resourceclaimtemplates": {
        "spec": {"metadata": {}, "spec": {"devices": {"requests": [REQUEST]}}}
    },
    "resource.k8s.io/v1/resourceslices": {
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
    "networking.k8s.io/v1/servicecidrs": {
        "spec": {"cidrs": ["10.9.0.0/24"]},
        "status": {"conditions": [{"type": "Ready"}]},
    },
    "networking.k8s.io/v1/ipaddresses": {
        "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": SPOILED}}
    },
    "v1/configmaps": {"data": {"ca.crt": "x", "kubeconfig": "x"}},
    "v1/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80, "name": "http"}]}]},
    "v1/namespaces": {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "v1/replicationcontrollers": {
        "spec": {"replicas": 1, "selector": SELECTOR["matchLabels"], "template": TEMPLATE, "minReadySeconds": 1},
        "status": {"replicas": 0, "conditions": [CONDITION]},
    },
    "v1/resourcequotas": {
        "spec": {"hard": {"pods": "100", "requests.cpu": "100"}, "scopes": ["NotTerminating"]},
        "status": {"hard": {"pods": "100"}, "used": {"pods": "0"}},
    },
    "v1/secrets": {"type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}},
    "v1/serviceaccounts": {"secrets": [{"name": SPOILED}], "imagePullSecrets": [{"name": "x"}]},
    "v1/services": {
        "spec": {
            "type": "LoadBalancer",
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"],
            "selector": SELECTOR["matchLabels"],
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP", "name": "http"}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    },
    "apps/v1/controllerrevisions": {"revision": 1, "data": {"spec": {"template": TEMPLATE}}},
    "apps/v1/daemonsets": {
        "spec": {
            "selector": SELECTOR,
            "template": TEMPLATE,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
        "status": {"desiredNumberScheduled": 1, "conditions": [CONDITION]},
    },
    "apps/v1/deployments": {
        "spec": {
            "replicas": 1,
            "selector": SELECTOR,
            "template": TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
            "progressDeadlineSeconds": 60,
        },
        "status": {"replicas": 0, "conditions": [CONDITION]},
    },
    "apps/v1/replicasets": {
        "spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE},
        "status": {"replicas": 0, "conditions": [CONDITION]},
    },
    "apps/v1/statefulsets": {
        "spec": {
            "replicas": 1,
            "selector": SELECTOR,
            "serviceName": "x",
            "template": TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            "ordinals": {"start": 1},
        },
        "status": {"replicas": 0, "currentRevision": "x", "conditions": [CONDITION]},
    },
    "autoscaling/v2/horizontalpodautoscalers": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": SPOILED},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
                }
            ],
            "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
        },
        "status": {
            "currentReplicas": 1,
            "desiredReplicas": 1,
            "conditions": [{"type": "AbleToScale", "status": "True"}],
        },
    },
    "batch/v1/cronjobs": {
        "spec": {
            "schedule": "* * * * *",
            "timeZone": "UTC",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": JOB},
        },
        "status": {"active": [{"kind": "Job", "name": "x", "uid": "u"}], "lastScheduleTime": TIME},
    },
    "batch/v1/jobs": {
        "spec": {**JOB, "manualSelector": True, "selector": SELECTOR},
        "status": {
            "active": 0,
            "startTime": TIME,
            "completedIndexes": "0",
            "uncountedTerminatedPods": {"succeeded": ["u"], "failed": []},
            "conditions": [{"type": "Suspended", "status": "False"}],
        },
    },
    "certificates.k8s.io/v1/certificatesigningrequests": {
        "spec": {
            "request": base64.b64encode(request_pem("system:node:x", "system:nodes")).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth"],
            "groups": ["system:nodes"],
            "username": "system:node:x",
        },
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x", "lastUpdateTime": TIME}]},
    },
    "certificates.k8s.io/v1beta1/podcertificaterequests": {
        "spec": {
            "signerName": "example.com/x",
            "podName": "x",
            "podUID": "1",
            "serviceAccountName": "default",
            "serviceAccountUID": "2",
            "nodeName": "x",
            "nodeUID": "3",
            "stubPKCS10Request": base64.b64encode(request_der("")).decode(),
        },
        "status": {"conditions": [{"type": "Issued", "status": "True", "reason": "x", "lastTransitionTime": TIME}]},
    },
    "coordination.k8s.io/v1/leases": {
        "spec": {"holderIdentity": SPOILED, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    },
    "discovery.k8s.io/v1/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.1.0.1"], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "x"}}
        ],
        "ports": [{"port": 80, "name": "http", "protocol": "TCP"}],
    },
    "internal.apiserver.k8s.io/v1alpha1/storageversions": {
        "spec": {},
        "status": {
            "storageVersions": [{"apiServerID": "x", "encodingVersion": "v1", "decodableVersions": ["v1"]}],
            "conditions": [{"type": "AllEncodingVersionsEqual", "status": "True", "lastTransitionTime": TIME}],
        },
    },
    "policy/v1/poddisruptionbudgets": {
        "spec": {"minAvailable": "50%", "selector": SELECTOR},
        "status": {
            "disruptedPods": {"x": TIME},
            "disruptionsAllowed": 0,
            "conditions": [{"type": "DisruptionAllowed"}],
        },
    },
    "rbac.authorization.k8s.io/v1/clusterroles": {
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    },
    "resource.k8s.io/v1alpha3/resourcepoolstatusrequests": {
        "spec": {"driver": DRIVER, "poolName": "p", "limit": 3},
        "status": {"poolCount": 1, "pools": [{"driver": DRIVER, "poolName": "p", "generation": 1}]},
    },
    "scheduling.k8s.io/v1alpha2/podgroups": {
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "resourceClaims": [{"name": "x", "resourceClaimName": SPOILED}],
        },
        "status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": SPOILED}]},
    },
    "scheduling.k8s.io/v1alpha2/workloads": {
        "spec": {
            "podGroupTemplates": [{"name": "x", "schedulingPolicy": {"gang": {"minCount": 2}}}],
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": SPOILED},
        }
    },
    "resource.k8s.io/v1beta2/devicetaintrules": {
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "p", "device": "d"},
            "taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": TIME},
        },
        "status": {"conditions": [{"type": "EvictionInProgress", "status": "True", "reason": "x"}]},
    },
    "storage.k8s.io/v1/volumeattributesclasses": {"driverName": DRIVER, "parameters": {"a": "b"}},
    "storagemigration.k8s.io/v1beta1/storageversionmigrations": {
        "spec": {"resource": {"group": "apps", "resource": "deployments"}},
        "status": {"resourceVersion": "5", "conditions": [{"type": "Running", "status": "True", "reason": "x"}]},
    },
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["deployments"],
                    }
                ]
            },
            "validations": [{"expression": "object.spec.replicas > 1"}],
        },
        "status": {
            "observedGeneration": 1,
            "typeChecking": {"expressionWarnings": [{"fieldRef": "x", "warning": "y"}]},
        },
    },
}


# Names and namespaces of the objects whose fields are malformed, where not SPOILED in "default".
KEYS = {
    "networking.k8s.io/v1/ipaddresses": ("", "10.9.0.7"),
    "internal.apiserver.k8s.io/v1alpha1/storageversions": ("", "apps.spoiled"),
    "v1/configmaps?namespace=kube-public&fields=metadata.name=cluster-info": ("kube-public", "cluster-info"),
    "v1/configmaps?fields=metadata.name=kube-root-ca.crt": ("default", "kube-root-ca.crt"),
    "v1/secrets?namespace=kube-system&fields=type=bootstrap.kubernetes.io/token": (
        "kube-system",
        "bootstrap-token-abcdef",
    ),
}
DEEPEST = 4
VALUES = {
    "string": "x",
    "bytes": "eA==",
    "boolean": True,
    "int32": 1,
    "int64": 1,
    "double": 1.5,
    "time": TIME,
    "micro_time": "2026-01-01T00:00:00.000000Z",
    "quantity": "1",
    "int_or_string": 1,
    "raw": {"x": "y"},
    "any": "x",
}


@cache
def complete(kind: str, depth: int = 0) -> Object:
    """Return an object of an API type with all of its fields."""
    found = built_in_types().find(kind)
    assert found is not None
    return {field.name: complete_value(field, depth) for field in found.fields.values() if depth < DEEPEST}


def complete_value(field: Field, depth: int) -> Any:
    value = complete(field.struct, depth + 1) if field.struct else VALUES[field.kind]
    match field.form:
        case "list":
            return [value]
        case "map":
            return {"x": value}
        case "map of lists":
            return {"x": [value]}
    return value


def merged(base: Any, above: Any) -> Any:
    """Return a map with the fields of both, at all depths. Other values are those of `above`."""
    if not isinstance(base, dict) or not isinstance(above, dict):
        return above
    return {**base, **{name: merged(base.get(name), value) for name, value in above.items()}}


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


def show_spoiled(table: Table, fields: Object, rng: random.Random) -> None:
    """Let the manager read these fields, one of them spoiled, in the object that the test creates."""
    make = table.make_entry
    _, spoiled = KEYS.get(table.id, ("", SPOILED))

    def make_entry(obj: Object, raw: bytes) -> Any:
        if obj["metadata"]["name"] == spoiled:
            obj = spoil({**obj, **fields, "metadata": obj["metadata"]}, rng)
            raw = encode_object(obj)
        return make(obj, raw)

    table.make_entry = make_entry  # type: ignore[method-assign]


def create(cluster: SimulatedCluster, table: Table, fields: Object) -> None:
    """Create the object, unless it exists."""
    resource = table.resource
    namespace, name = KEYS.get(table.id, ("default" if resource.namespaced else "", SPOILED))
    if cluster.get(resource, f"{namespace}/{name}" if namespace else name) is not None:
        return
    labels = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", **SELECTOR["matchLabels"]}
    annotations = {"kubernetes.io/service-account.name": "default"}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    if namespace:
        metadata["namespace"] = namespace
    if "bootstrap" in name:
        fields = {**fields, "type": "bootstrap.kubernetes.io/token"}
    cluster.create(resource, {**fields, "metadata": metadata})


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 16))])
def test_malformed_objects_fail_no_actor_and_stop_no_other_object(
    cluster: SimulatedCluster, seed: int, logs: LogCapture
) -> None:
    rng = random.Random(seed)
    served = {(kind.group, kind.version, kind.plural) for kind in cluster.server.registry}
    cluster.serve(*(k for k in (*BUILT_IN, *OFF_BY_DEFAULT) if (k.group, k.version, k.plural) not in served))
    manager = cluster.manager(options=read_options(["--controllers=*", "--feature-gates=AllAlpha=true,AllBeta=true"]))
    tables = list(manager.tables.values())
    assert {table.resource.id for table in tables} <= FIELDS.keys()
    for table in tables:
        resource = table.resource
        fields = FIELDS[resource.id]
        if seed % 2:
            name = built_in_types().name_of(resource.group, resource.version, resource.kind)
            assert name is not None
            fields = merged(complete(name), fields)
        show_spoiled(table, fields, rng)
    for _ in range(3):  # each time other fields
        for table in tables:
            create(cluster, table, FIELDS[table.resource.id])
        cluster.run_for(30.0)
    cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    cluster.create(REPLICASETS, replica_set(replicas=2, namespace="other"))
    assert cluster.run_until(lambda: len(cluster.list(PODS, "other")) == 2, within=60.0)
    children = manager.vitals.of(MANAGER, ManagerVitals)
    assert children is not None
    assert {name: child.last_error for name, child in children.children.items() if child.failures} == {}
    errors = {str(entry.get("error")) for entry in logs.entries}
    assert {error for error in errors if re.search(r"(Attribute|Type|Key|Index)Error", error)} == set()
