"""Table columns and cells of kinds, as shown by `kubectl get`."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.rules.cells import NAME_AND_AGE
from tests.runtime.apiserver.kinds.printers import cells, printer_for

TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "nginx:1"}, {"name": "b", "image": "redis"}]}}


SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}]}


@pytest.mark.parametrize(
    "api_version, kind, columns",
    [
        ("v1", "Pod", "NAME READY STATUS RESTARTS AGE [IP] [NODE] [NOMINATED NODE] [READINESS GATES]"),
        ("v1", "ReplicationController", "NAME DESIRED CURRENT READY AGE [CONTAINERS] [IMAGES] [SELECTOR]"),
        ("apps/v1", "ReplicaSet", "NAME DESIRED CURRENT READY AGE [CONTAINERS] [IMAGES] [SELECTOR]"),
        ("apps/v1", "Deployment", "NAME READY UP-TO-DATE AVAILABLE AGE [CONTAINERS] [IMAGES] [SELECTOR]"),
        ("apps/v1", "StatefulSet", "NAME READY AGE [CONTAINERS] [IMAGES]"),
        (
            "apps/v1",
            "DaemonSet",
            "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE [CONTAINERS] [IMAGES] [SELECTOR]",
        ),
        ("batch/v1", "Job", "NAME STATUS COMPLETIONS DURATION AGE [CONTAINERS] [IMAGES] [SELECTOR]"),
        (
            "batch/v1",
            "CronJob",
            "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE [CONTAINERS] [IMAGES] [SELECTOR]",
        ),
        (
            "v1",
            "Node",
            "NAME STATUS ROLES AGE VERSION [INTERNAL-IP] [EXTERNAL-IP] [OS-IMAGE] [KERNEL-VERSION] [CONTAINER-RUNTIME]",
        ),
        (
            "v1",
            "Event",
            "LAST SEEN TYPE REASON OBJECT [SUBOBJECT] [SOURCE] MESSAGE [FIRST SEEN] [COUNT] [NAME]",
        ),
        ("v1", "Service", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE [SELECTOR]"),
        (
            "v1",
            "PersistentVolumeClaim",
            "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE [VOLUMEMODE]",
        ),
        ("v1", "LimitRange", "NAME CREATED AT"),
    ],
)
def test_columns_are_those_of_kubectl(api_version: str, kind: str, columns: str) -> None:
    found = [
        f"[{column.name}]" if column.priority else column.name for column in printer_for(api_version, kind).columns
    ]
    assert " ".join(found).upper() == columns


def test_custom_resources_show_their_age() -> None:
    assert [column.name for column in NAME_AND_AGE.columns] == ["Name", "Age"]


REPLICAS = {"spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR}, "status": {"readyReplicas": 2}}


@pytest.mark.parametrize(
    "api_version, kind, fields, expected",
    [
        ("apps/v1", "ReplicaSet", REPLICAS, [3, 0, 2, "60m", "a,b", "nginx:1,redis", "app=web,t in (a,b)"]),
        ("apps/v1", "Deployment", REPLICAS, ["2/3", 0, 0, "60m", "a,b", "nginx:1,redis", "app=web,t in (a,b)"]),
        ("apps/v1", "StatefulSet", REPLICAS, ["2/3", "60m", "a,b", "nginx:1,redis"]),
        (
            "v1",
            "ReplicationController",
            {"spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}, "template": TEMPLATE}},
            [1, 0, 0, "60m", "a,b", "nginx:1,redis", "a=1,b=2"],
        ),
        (
            "apps/v1",
            "DaemonSet",
            {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}, "selector": {}}},
            [0, 0, 0, 0, 0, "disk=ssd", "60m", "", "", "<none>"],
        ),
        (
            "apps/v1",
            "ControllerRevision",
            {
                "revision": 4,
                "metadata": {
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
                    ]
                },
            },
            ["daemonset.apps/d", 4, "60m"],
        ),
        ("v1", "Namespace", {"status": {"phase": "Active"}}, ["Active", "60m"]),
        ("v1", "Secret", {"type": "Opaque", "data": {"a": "", "b": ""}}, ["Opaque", 2, "60m"]),
        ("v1", "ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}, [2, "60m"]),
        ("v1", "LimitRange", {}, ["2026-01-02T02:00:00Z"]),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}, ["me", "60m"]),
        (
            "v1",
            "Service",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}],
                    "selector": {"app": "web"},
                }
            },
            ["NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "60m", "app=web"],
        ),
        (
            "v1",
            "Service",
            {"spec": {"type": "LoadBalancer"}},
            ["LoadBalancer", "<none>", "<pending>", "<none>", "60m", "<none>"],
        ),
        (
            "v1",
            "Endpoints",
            {
                "subsets": [
                    {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}, {"port": 443}]}
                ]
            },
            ["10.0.0.1:80,10.0.0.2:80,10.0.0.1:443 + 1 more...", "60m"],
        ),
        ("v1", "Endpoints", {}, ["<none>", "60m"]),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"addressType": "IPv4", "ports": [{"port": 80}, {"name": ""}], "endpoints": []},
            ["IPv4", "80,", "<unset>", "60m"],
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {
                "spec": {"rules": [{"host": h} for h in "abcd"], "tls": [{}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}},
            },
            ["<none>", "a,b,c + 1 more...", "1.1.1.1", "80, 443", "60m"],
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
            ["50%", "N/A", 1, "60m"],
        ),
        (
            "v1",
            "ResourceQuota",
            {"status": {"hard": {"pods": "10", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "3"}}},
            ["cpu: 0/1, pods: 3/10", "limits.cpu: 0/2", "60m"],
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            {
                "spec": {"volumeName": "pv", "storageClassName": "std", "volumeMode": "Filesystem"},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {}},
            },
            ["Bound", "pv", "0", "RWO,RWX", "std", "<unset>", "60m", "Filesystem"],
        ),
        (
            "batch/v1",
            "CronJob",
            {"spec": {"schedule": "* * * * *", "suspend": False}, "status": {"active": [{}]}},
            ["* * * * *", "<none>", "False", 1, "<none>", "60m", "", "", "<none>"],
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                    "maxReplicas": 5,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"averageUtilization": 80}},
                        },
                        {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                        {"type": "Other"},
                    ],
                },
                "status": {"currentMetrics": [{"resource": {"current": {"averageUtilization": 50}}}]},
            },
            ["Deployment/web", "cpu: 50%/80%, <unknown>/10 + 1 more...", "<unset>", 5, 0, "60m"],
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                    {"kind": "User", "name": "w"},
                ],
            },
            ["Role/r", "60m", "u, w", "", "n/s"],
        ),
        (
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            {
                "spec": {"signerName": "s", "username": "me", "expirationSeconds": 600},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "QQ=="},
            },
            ["60m", "s", "me", "10m", "Approved,Issued"],
        ),
    ],
)
def test_cells_of_kinds(api_version: str, kind: str, fields: dict[str, Any], expected: list[Any]) -> None:
    name, *rest = cells(api_version, kind, **fields)
    assert name == "x"
    assert rest[: len(expected)] == expected
