from typing import Any

import pytest

from runtime.apiserver.http.tables import table, table_row
from runtime.apiserver.kinds.shared.cells import NAME_AND_AGE
from tests.runtime.apiserver.kinds.printers import META, NOW, PRINTERS, cells, printer_for

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
def test_columns_are_those_that_kubectl_shows(api_version: str, kind: str, columns: str) -> None:
    found = [
        f"[{column.name}]" if column.priority else column.name for column in printer_for(api_version, kind).columns
    ]
    assert " ".join(found).upper() == columns


def test_custom_resources_show_their_age() -> None:
    assert [column.name for column in NAME_AND_AGE.columns] == ["Name", "Age"]


@pytest.mark.parametrize("api_version, kind", sorted(PRINTERS))
@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "x"}, "spec": {}, "status": {}}], ids=["empty", "bare"])
def test_every_printer_gives_one_cell_a_column_however_little_is_there(
    api_version: str, kind: str, obj: dict[str, Any]
) -> None:
    printer = PRINTERS[api_version, kind]
    assert len(printer.cells(obj, NOW)) == len(printer.columns)


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


@pytest.mark.parametrize(
    "spec, status, expected",
    [
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, "Ready"),
        ({}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}, "NotReady"),
        ({"unschedulable": True}, {"conditions": [{"type": "Ready", "status": "True"}]}, "Ready,SchedulingDisabled"),
        ({}, {}, "Unknown"),
    ],
)
def test_a_node_says_whether_it_takes_pods(spec: dict[str, Any], status: dict[str, Any], expected: str) -> None:
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "node-role.kubernetes.io/": ""}
    assert cells("v1", "Node", spec=spec, status=status, metadata={"labels": labels})[1:4] == [
        expected,
        "edge,worker",
        "60m",
    ]


@pytest.mark.parametrize(
    "status, expected",
    [
        ({}, ["Running", "0/3", ""]),
        ({"startTime": "2026-01-02T02:58:00Z"}, ["Running", "0/3", "2m"]),
        (
            {
                "startTime": "2026-01-02T02:58:00Z",
                "completionTime": "2026-01-02T02:58:30Z",
                "succeeded": 3,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            ["Complete", "3/3", "30s"],
        ),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, ["Suspended", "0/3", ""]),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, ["Failed", "0/3", ""]),
    ],
)
def test_a_job_says_how_far_it_is(status: dict[str, Any], expected: list[str]) -> None:
    assert cells("batch/v1", "Job", spec={"completions": 3}, status=status)[1:4] == expected


@pytest.mark.parametrize(
    "spec, expected", [({"parallelism": 2}, "0/1 of 2"), ({"parallelism": 1}, "0/1"), ({"completions": 0}, "0/0")]
)
def test_a_job_without_completions_needs_one(spec: dict[str, Any], expected: str) -> None:
    assert cells("batch/v1", "Job", spec=spec)[2] == expected


@pytest.mark.parametrize(
    "event, expected",
    [
        (
            {"firstTimestamp": "2026-01-02T02:00:00Z", "lastTimestamp": "2026-01-02T02:59:00Z", "count": 3},
            ("60s", "60m", 3),
        ),
        ({"eventTime": "2026-01-02T02:59:00.000000Z"}, ("60s", "60s", 1)),
        (
            {
                "eventTime": "2026-01-02T02:00:00.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-02T02:59:55.5Z"},
            },
            ("4s", "60m", 7),
        ),
        ({}, ("<unknown>", "<unknown>", 1)),
    ],
)
def test_an_event_says_when_it_was_seen_and_how_often(event: dict[str, Any], expected: tuple[str, str, int]) -> None:
    row = cells("v1", "Event", **event)
    assert (row[0], row[7], row[8]) == expected


def test_events_of_both_apis_look_the_same() -> None:
    core = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "message": " text\n",
        "source": {"component": "kubelet", "host": "n1"},
    }
    newer = {
        "regarding": core["involvedObject"],
        "note": " text\n",
        "reportingController": "kubelet",
        "reportingInstance": "n1",
    }
    assert cells("v1", "Event", **core) == cells("events.k8s.io/v1", "Event", **newer)
    assert cells("v1", "Event", **core)[3:7] == ["pod/p", "spec", "kubelet, n1", "text"]


@pytest.mark.parametrize(
    "include, expected",
    [
        ("None", None),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": META}),
        ("Object", {"metadata": META, "status": {"phase": "Failed"}}),
    ],
)
def test_a_row_carries_as_much_of_its_object_as_was_asked_for(include: str, expected: Any) -> None:
    row = table_row(
        printer_for("v1", "Pod"), {"metadata": META, "status": {"phase": "Failed"}}, now=NOW, include=include
    )
    assert row["object"] == expected
    assert row["conditions"][0]["type"] == "Completed"


def test_a_table_names_its_columns_once() -> None:
    printer = printer_for("v1", "Namespace")
    whole = table(printer, [], {"resourceVersion": "7"})
    assert (whole["kind"], whole["apiVersion"], whole["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "7"},
    )
    assert [column["name"] for column in whole["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert table(printer, [], {}, with_columns=False)["columnDefinitions"] == []
