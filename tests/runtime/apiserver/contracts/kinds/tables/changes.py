"""Updates of workloads, Jobs, Nodes, volumes, Services and others, and warnings about templates."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

HERE, ROOT = "/api/v1/namespaces/contract", "/api/v1"
APPS, BATCH = "/apis/apps/v1/namespaces/contract", "/apis/batch/v1/namespaces/contract"
LABELS = {"app": "web"}
C = {"name": "c", "image": "nginx:1"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [C]}}
SPEC = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
ONCE = {"spec": {"containers": [C], "restartPolicy": "Never"}}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def _status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def _conditions(*types: str, **fields: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": type_, "status": "True"} for type_ in types], **fields}}


AT = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"
TEMPLATES: dict[str, Any] = {
    "an old label": _template(nodeSelector={"beta.kubernetes.io/os": "linux"}),
    "a port twice": _template(containers=[{**C, "ports": [{"containerPort": 80}, {"containerPort": 80}]}]),
    "a variable twice": _template(containers=[{**C, "env": [{"name": "A"}, {"name": "A"}]}]),
    "negative grace": _template(terminationGracePeriodSeconds=-1),
    "an old annotation": {
        "spec": {
            "template": {
                "metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}
            }
        }
    },
    "a claim of a device": _template(containers=[{**C, "resources": {"claims": [{"name": "a"}]}}]),
    "windows": _template(os={"name": "windows"}, hostPID=True),
}
LONG = {"metadata": {"name": "n" * 70}}
VOLUME = {
    "metadata": {"name": "changing"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "a.b", "volumeHandle": "h"},
        "storageClassName": "slow",
    },
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
INDEXED = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": ONCE, "backoffLimitPerIndex": 1}
PORTS = [{"name": "http", "port": 80}]

TABLE: Table = {
    "changing deployments": Kind(
        f"{APPS}/deployments",
        {"metadata": {"name": "changing"}, "spec": SPEC},
        creates={**TEMPLATES, "a long name": LONG, "dots in its name": {"metadata": {"name": "a.b"}}},
        updates={
            **TEMPLATES,
            "paused": _spec(paused=True),
            "an annotation": {"metadata": {"annotations": {"a": "b"}}},
            "recreate": _spec(strategy={"type": "Recreate", "rollingUpdate": None}),
            "other labels": _template(),
            "a deadline below readiness": _spec(progressDeadlineSeconds=5, minReadySeconds=10),
            "an odd number": _spec(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "x"}}),
        },
        statuses={
            "a condition": _conditions("Available"),
            "too many": _status(replicas=1, updatedReplicas=2, availableReplicas=2),
            "collisions": _status(collisionCount=1),
        },
    ),
    "changing statefulsets": Kind(
        f"{APPS}/statefulsets",
        {
            "metadata": {"name": "changing"},
            "spec": {**SPEC, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": CLAIM}]},
        },
        creates={**TEMPLATES, "an unlimited history": _spec(revisionHistoryLimit=-1)},
        updates={
            **TEMPLATES,
            "ordinals": _spec(ordinals={"start": 3}),
            "retention": _spec(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}),
            "a larger claim": {
                "spec": {
                    "volumeClaimTemplates": [
                        {"metadata": {"name": "v"}, "spec": {**CLAIM, "resources": {"requests": {"storage": "2Gi"}}}}
                    ]
                }
            },
            "at once": _spec(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}),
            "on delete": _spec(updateStrategy={"type": "OnDelete", "rollingUpdate": None}),
        },
        statuses={"counts": _status(replicas=2, readyReplicas=1, availableReplicas=2, currentReplicas=3)},
    ),
    "changing daemonsets": Kind(
        f"{APPS}/daemonsets",
        {"metadata": {"name": "changing"}, "spec": SPEC},
        creates={
            "its own generation": {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "5"}}}
        },
        updates={
            **TEMPLATES,
            "its own generation": {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "5"}}},
            "readiness": _spec(minReadySeconds=5),
            "surge": _spec(
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
            ),
            "another selector": _spec(selector={"matchLabels": {"app": "other"}}),
        },
    ),
    "changing jobs": Kind(
        f"{BATCH}/jobs",
        {"metadata": {"name": "changing"}, "spec": INDEXED},
        creates={"a long name": LONG, "a restart always": _template(restartPolicy="Always")},
        updates={
            "scaled": _spec(completions=2, parallelism=2),
            "scaled alone": _spec(completions=2),
            "suspended": _spec(suspend=True),
            "another mode": _spec(completionMode="NonIndexed"),
            "a limit": _spec(backoffLimit=2),
            "a manager": _spec(managedBy="example.com/a"),
            "a policy of success": _spec(successPolicy={"rules": [{"succeededCount": 1}]}),
            "a time to live": _spec(ttlSecondsAfterFinished=5),
        },
        statuses={
            "complete": _conditions(
                "SuccessCriteriaMet",
                "Complete",
                startTime=AT,
                completionTime=LATER,
                completedIndexes="0-2",
                succeeded=3,
            ),
            "failed": _conditions("FailureTarget", "Failed", startTime=AT, failed=1, failedIndexes="1"),
            "ended before it began": _conditions(
                "SuccessCriteriaMet", "Complete", startTime=LATER, completionTime=AT, active=1, terminating=1
            ),
            "a time of completion": _status(completionTime=AT),
            "odd indexes": _status(completedIndexes="0,x", failedIndexes="5"),
            "falling indexes": _status(completedIndexes="2,1", failedIndexes="2-1"),
            "the same indexes": _status(completedIndexes="0-1", failedIndexes="1,2"),
            "more ready than active": _status(ready=2, active=1),
            "pods twice": _status(uncountedTerminatedPods={"succeeded": ["a", "a", ""], "failed": ["a"]}),
            "met and failed": _conditions("SuccessCriteriaMet", "FailureTarget", "Failed", startTime=AT),
        },
    ),
    "suspended jobs": Kind(
        f"{BATCH}/jobs",
        {"metadata": {"name": "suspended"}, "spec": {"suspend": True, "template": ONCE}},
        updates={
            "a node selector": _template(nodeSelector={"a": "b"}),
            "tolerations": _template(tolerations=[{"operator": "Exists"}]),
            "an image": _template(containers=[{**C, "image": "nginx:2"}]),
            "resources": _template(containers=[{**C, "resources": {"requests": {"cpu": "1"}}}]),
            "resumed": _spec(suspend=False),
        },
    ),
    "changing cron jobs": Kind(
        f"{BATCH}/cronjobs",
        {
            "metadata": {"name": "changing"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}},
        },
        creates={"a long name": LONG, "a zone in its schedule": _spec(schedule="TZ=UTC * * * * *")},
        updates={
            "a zone": _spec(timeZone="Europe/Berlin"),
            "a zone in its schedule": _spec(schedule="TZ=UTC * * * * *"),
            "an odd schedule": _spec(schedule="x"),
            "an image": {"spec": {"jobTemplate": {"spec": _template(containers=[{**C, "image": "a"}])["spec"]}}},
        },
    ),
    "changing nodes": Kind(
        f"{ROOT}/nodes",
        {
            "metadata": {"name": "changing"},
            "spec": {"podCIDRs": ["10.9.0.0/24"], "providerID": "a://b"},
            "status": {"capacity": {"cpu": "2"}},
        },
        creates={
            "a long range": _spec(podCIDRs=["10.9.0.1/24"]),
            "an odd range": _spec(podCIDRs=["x"]),
            "a mirrored range": _spec(podCIDR="10.8.0.0/24"),
            "both families": _spec(podCIDRs=["10.9.0.0/24", "fd00:9::/64"]),
        },
        updates={
            "no range": _spec(podCIDRs=None, podCIDR=None),
            "another provider": _spec(providerID="a://c"),
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "a taint": _spec(taints=[{"key": "a", "effect": "NoExecute"}]),
        },
        statuses={
            "less": _status(capacity={"cpu": "-1"}),
            "known": _status(
                addresses=[{"type": "Hostname", "address": "n"}],
                nodeInfo={"kubeletVersion": "v1.36.0"},
                conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": AT}],
            ),
        },
    ),
    "changing volumes": Kind(
        f"{ROOT}/persistentvolumes",
        VOLUME,
        creates={
            "recycled": _spec(persistentVolumeReclaimPolicy="Recycle"),
            "an old class": {
                "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
            },
            "attributes": _spec(volumeAttributesClassName="gold"),
            "no attributes": _spec(volumeAttributesClassName=""),
            "attributes without a driver": _spec(
                csi=None, nfs={"server": "a", "path": "/b"}, volumeAttributesClassName="g"
            ),
            "secrets": _spec(csi={"nodePublishSecretRef": {"name": "S_"}, "controllerExpandSecretRef": {}}),
            "fibre channel": _spec(csi=None, fc={"wwids": ["a"]}),
            "an old region": _spec(
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}
                                ]
                            }
                        ]
                    }
                }
            ),
        },
        updates={
            "a secret for expansion": _spec(csi={"controllerExpandSecretRef": {"name": "a", "namespace": "b"}}),
            "another handle": _spec(csi={"volumeHandle": "i"}),
            "another class": _spec(storageClassName="fast"),
            "attributes": _spec(volumeAttributesClassName="gold"),
        },
        statuses={
            "released": _status(phase="Released", reason="a", message="b"),
            "no phase": _status(phase=None),
            "a time": _status(phase="Bound", lastPhaseTransitionTime=AT),
        },
    ),
    "changing claims": Kind(
        f"{HERE}/persistentvolumeclaims",
        {"metadata": {"name": "changing"}, "spec": {**CLAIM, "storageClassName": "slow", "volumeName": "pv"}},
        creates={
            "half a byte": _spec(resources={"requests": {"storage": "1500m"}}),
            "an old class": {
                "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "a"}},
            },
            "a reference": _spec(dataSourceRef={"kind": "Dog", "apiGroup": "example.com", "name": "a"}),
            "a reference elsewhere": _spec(
                dataSourceRef={"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"}
            ),
            "an odd reference": _spec(dataSourceRef={"kind": "Dog", "apiGroup": "A_", "name": ""}),
            "a snapshot": _spec(
                dataSource={"kind": "VolumeSnapshot", "apiGroup": "snapshot.storage.k8s.io", "name": "a"}
            ),
        },
        updates={
            "another volume": _spec(volumeName="other"),
            "another class": _spec(storageClassName="fast"),
            "another mode": _spec(volumeMode="Block"),
            "less": _spec(resources={"requests": {"storage": "1Mi"}}),
        },
        statuses={
            "resizing": _status(
                allocatedResources={"storage": "2Gi", "cpu": "1", "a b": "1"},
                allocatedResourceStatuses={"storage": "NodeResizeInProgress", "example.com/a": "Odd"},
            ),
            "a condition": _conditions("Resizing"),
        },
    ),
    "changing services": Kind(
        f"{HERE}/services",
        {"metadata": {"name": "changing"}, "spec": {"ports": PORTS, "selector": LABELS, "clusterIP": "None"}},
        creates={
            "a headless one with more": _spec(externalIPs=["1.2.3.4"], sessionAffinity="ClientIP"),
            "external addresses": _spec(clusterIP="", externalIPs=["1.2.3.4"], clusterIPs=["10.0.0.77"]),
            "near": _spec(trafficDistribution="PreferClose"),
            "hints": {"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}},
            "a name outside": _spec(type="ExternalName", externalName="a.b", clusterIP=None, externalIPs=["1.2.3.4"]),
            "a name that is ignored": _spec(externalName="a.b"),
        },
        updates={
            "an address": _spec(clusterIP="10.0.0.78", clusterIPs=["10.0.0.78"]),
            "another port": _spec(ports=[{"name": "http", "port": 81}]),
            "two ports without names": _spec(ports=[{"port": 81}, {"port": 82}]),
            "near": _spec(trafficDistribution="PreferSameNode"),
        },
        statuses={"ingress": _status(loadBalancer={"ingress": [{"ip": "1.2.3.4"}]})},
    ),
    "changing secrets": Kind(
        f"{HERE}/secrets",
        {"metadata": {"name": "changing"}, "data": {"a": "Yg=="}, "immutable": True},
        creates={
            "a list for docker": {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "W10="}},
            "nothing for docker": {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": ""}},
            "a name alone": {"type": "kubernetes.io/basic-auth", "data": {"username": ""}},
            "a token": {"type": "bootstrap.kubernetes.io/token", "data": {"token-id": "YQ=="}},
            "text": {"stringData": {"b": "c"}},
        },
        updates={
            "other data": {"data": {"a": "Yw=="}},
            "mutable": {"immutable": False},
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "another type": {"type": "example.com/a"},
        },
    ),
    "changing maps": Kind(
        f"{HERE}/configmaps",
        {"metadata": {"name": "changing"}, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
        creates={
            "odd keys": {"data": {"a b": ""}, "binaryData": {"..": "", "/": ""}},
            "binary data that is not base64": {"binaryData": {"c": "x"}},
        },
        updates={"immutable": {"immutable": True}, "other bytes": {"binaryData": {"c": "ZQ=="}}},
    ),
    "changing autoscalers of v1": Kind(
        "/apis/autoscaling/v1/namespaces/contract/horizontalpodautoscalers",
        {
            "metadata": {"name": "changing"},
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
                "targetCPUUtilizationPercentage": 50,
            },
        },
        creates={
            "a behavior of one way": {
                "metadata": {
                    "annotations": {
                        "autoscaling.alpha.kubernetes.io/behavior": '{"ScaleDown":{"StabilizationWindowSeconds":5}}'
                    }
                }
            },
            "an odd behavior": {
                "metadata": {
                    "annotations": {
                        "autoscaling.alpha.kubernetes.io/behavior": '{"ScaleUp":{"StabilizationWindowSeconds":-5}}'
                    }
                }
            },
            "zero": _spec(minReplicas=0),
            "more than most": _spec(minReplicas=5),
        },
        updates={"no target": _spec(targetCPUUtilizationPercentage=None), "another": _spec(maxReplicas=9)},
        statuses={"counts": _status(currentReplicas=2, desiredReplicas=3, currentCPUUtilizationPercentage=7)},
    ),
    "changing quotas": Kind(
        f"{HERE}/resourcequotas",
        {"metadata": {"name": "changing"}, "spec": {"hard": {"pods": "1"}}},
        creates={"limits below requests": _spec(hard={"requests.cpu": "2", "limits.cpu": "1", "memory": "1Gi"})},
        updates={"more": _spec(hard={"pods": "2"}), "scopes": _spec(scopes=["BestEffort"])},
    ),
    "changing ingresses": Kind(
        "/apis/networking.k8s.io/v1/namespaces/contract/ingresses",
        {
            "metadata": {"name": "changing", "annotations": {"kubernetes.io/ingress.class": "a"}},
            "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}},
        },
        updates={"a class": _spec(ingressClassName="a")},
    ),
    "changing policies": Kind(
        "/apis/networking.k8s.io/v1/namespaces/contract/networkpolicies",
        {"metadata": {"name": "changing"}, "spec": {"podSelector": {}}},
        creates={
            "an odd range": _spec(
                ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.1/24", "except": ["10.0.0.0/25"]}}]}]
            ),
            "a long range": _spec(egress=[{"to": [{"ipBlock": {"cidr": "fd00:0::/64"}}]}]),
        },
    ),
    "changing classes": Kind(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "changing"}, "provisioner": "a.b/c"},
        creates={
            "an old zone": {
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}
                ]
            }
        },
        updates={"parameters": {"parameters": {"a": "b"}}, "growing": {"allowVolumeExpansion": True}},
    ),
    "changing revisions": Kind(
        f"{APPS}/controllerrevisions",
        {"metadata": {"name": "changing"}, "revision": 1, "data": {"a": {"b": [1]}}},
        creates={"a list": {"data": [1]}, "a text": {"data": "a"}},
        updates={
            "another revision": {"revision": 2},
            "a negative one": {"revision": -2},
            "other data": {"data": {"a": 1}},
        },
    ),
}
