"""Objects of the core group, except pods, Services and Endpoints."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/api/v1"
HERE = f"{ROOT}/namespaces/contract"
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME_SPEC = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
CSI = {"driver": "example.com", "volumeHandle": "h"}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _taint(**fields: Any) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", **fields}]}}


TABLE: Table = {
    "configmaps": Kind(
        f"{HERE}/configmaps",
        {"metadata": {"name": "c"}, "data": {"a": "b"}},
        creates={
            "an odd key": {"data": {"a b": "c", "..": "d"}},
            "a long key": {"data": {"a" * 254: "c"}},
            "a key twice": {"binaryData": {"a": "YQ=="}},
            "odd base64": {"binaryData": {"b": "a"}},
            "immutable": {"immutable": True},
            "too much": {"data": {"a": "b" * 1_048_577}},
            "a bad name": {"metadata": {"name": "C_"}},
            "no name": {"metadata": {"name": None}},
            "odd labels": {"metadata": {"labels": {"-": "a b", "a/b/c": "d"}}},
            "odd annotations": {"metadata": {"annotations": {"-": "a"}}},
            "odd finalizers": {"metadata": {"finalizers": ["a b"]}},
            "an odd owner": {
                "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]}
            },
            "two controllers": {
                "metadata": {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": True},
                        {"apiVersion": "v1", "kind": "A", "name": "b", "uid": "2", "controller": True},
                    ]
                }
            },
            "an event as owner": {
                "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}]}
            },
        },
        updates={"other data": {"data": {"a": "c"}}, "immutable": {"immutable": True, "data": {"a": "c"}}},
    ),
    "immutable configmaps": Kind(
        f"{HERE}/configmaps",
        {"metadata": {"name": "im"}, "data": {"a": "b"}, "immutable": True},
        updates={
            "other data": {"data": {"a": "c"}},
            "binary data": {"binaryData": {"b": "YQ=="}},
            "mutable": {"immutable": None},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
    ),
    "secrets": Kind(
        f"{HERE}/secrets",
        {"metadata": {"name": "s"}, "stringData": {"a": "b"}},
        creates={
            "odd keys": {"data": {"a b": ""}},
            "an account without a name": {"type": "kubernetes.io/service-account-token"},
            "docker": {"type": "kubernetes.io/dockercfg"},
            "malformed docker configuration": {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "x"}},
            "docker json": {"type": "kubernetes.io/dockerconfigjson"},
            "malformed docker JSON configuration": {
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": "x"},
            },
            "basic": {"type": "kubernetes.io/basic-auth"},
            "a key": {"type": "kubernetes.io/ssh-auth"},
            "a certificate": {"type": "kubernetes.io/tls"},
            "a type": {"type": "example.com/a"},
        },
        updates={"another type": {"type": "a"}, "other data": {"data": {"a": "Yw=="}}},
    ),
    "serviceaccounts": Kind(
        f"{HERE}/serviceaccounts",
        {"metadata": {"name": "a"}},
        creates={
            "a bad name": {"metadata": {"name": "A_"}},
            "secrets": {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}]},
        },
        updates={"secrets": {"secrets": [{"name": "a"}]}},
    ),
    "namespaces": Kind(
        f"{ROOT}/namespaces",
        {"metadata": {"name": "ns"}},
        creates={
            "a bad name": {"metadata": {"name": "a.b"}},
            "a finalizer": _spec(finalizers=["example.com/a"]),
            "an odd finalizer": _spec(finalizers=["a"]),
        },
        updates={"a finalizer": _spec(finalizers=["example.com/a"]), "a label": {"metadata": {"labels": {"a": "b"}}}},
        statuses={
            "terminating": {"status": {"phase": "Terminating"}},
            "a condition": {"status": {"conditions": [{"type": "A", "status": "True"}]}},
        },
    ),
    "limitranges": Kind(
        f"{HERE}/limitranges",
        {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
        creates={
            "nothing": {"spec": None},
            "a type twice": _spec(limits=[{"type": "Container"}, {"type": "Container"}]),
            "an unknown type": _spec(limits=[{"type": "Dog"}]),
            "a named type": _spec(limits=[{"type": "example.com/a"}]),
            "a pod's default": _spec(limits=[{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]),
            "a minimum above": _spec(limits=[{"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}}]),
            "a default above": _spec(limits=[{"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}}]),
            "a default below": _spec(limits=[{"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "2"}}]),
            "a request above": _spec(
                limits=[{"type": "Container", "defaultRequest": {"cpu": "3"}, "default": {"cpu": "2"}}]
            ),
            "a ratio below one": _spec(limits=[{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}]),
            "a ratio above": _spec(
                limits=[
                    {
                        "type": "Container",
                        "maxLimitRequestRatio": {"cpu": "5"},
                        "min": {"cpu": "1"},
                        "max": {"cpu": "2"},
                    }
                ]
            ),
            "a volume": _spec(limits=[{"type": "PersistentVolumeClaim"}]),
            "an odd resource": _spec(limits=[{"type": "Container", "max": {"a b": "1", "sun": "1"}}]),
        },
        updates={"an unknown type": _spec(limits=[{"type": "Dog"}])},
    ),
    "resourcequotas": Kind(
        f"{HERE}/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}},
        creates={
            "nothing": {"spec": None},
            "an odd resource": _spec(hard={"a b": "1", "sun": "1"}),
            "negative": _spec(hard={"pods": "-1"}),
            "half a pod": _spec(hard={"pods": "500m"}),
            "a scope": _spec(scopes=["BestEffort"]),
            "an unknown scope": _spec(scopes=["Some"]),
            "two scopes": _spec(scopes=["BestEffort", "NotBestEffort"]),
            "a scope that does not fit": _spec(hard={"cpu": "1"}, scopes=["BestEffort"]),
            "a selector": _spec(
                scopeSelector={
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                }
            ),
            "an odd selector": _spec(
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Near"}]}
            ),
            "a selector without values": _spec(
                scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}
            ),
        },
        updates={"a scope": _spec(scopes=["BestEffort"]), "more": _spec(hard={"pods": "6"})},
        statuses={"used": {"status": {"hard": {"pods": "5"}, "used": {"pods": "-1", "sun": "1"}}}},
    ),
    "nodes": Kind(
        f"{ROOT}/nodes",
        {"metadata": {"name": "n1"}},
        creates={
            "a bad name": {"metadata": {"name": "N_"}},
            "a taint": _taint(),
            "an odd taint": _taint(key="a b", value="c d", effect="Never"),
            "no effect": _taint(effect=""),
            "a taint twice": _spec(taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
            "a range": _spec(podCIDR="10.1.0.0/24", podCIDRs=["10.1.0.0/24"]),
            "an odd range": _spec(podCIDR="10.1.0.0", podCIDRs=["10.1.0.0"]),
            "two ranges of a family": _spec(podCIDR="10.1.0.0/24", podCIDRs=["10.1.0.0/24", "10.2.0.0/24"]),
            "capacity": {"status": {"capacity": {"cpu": "2", "memory": "1Gi"}}},
            "negative capacity": {"status": {"capacity": {"cpu": "-2"}}},
            "a provider": _spec(providerID="a"),
        },
        updates={
            "a provider": _spec(providerID="a"),
            "a range": _spec(podCIDR="10.1.0.0/24", podCIDRs=["10.1.0.0/24"]),
            "unschedulable": _spec(unschedulable=True),
            "an odd taint": _taint(effect="Never"),
        },
        statuses={
            "ready": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            "an address twice": {
                "status": {
                    "addresses": [
                        {"type": "InternalIP", "address": "10.0.0.1"},
                        {"type": "InternalIP", "address": "10.0.0.1"},
                    ]
                }
            },
        },
    ),
    "persistentvolumes": Kind(
        f"{ROOT}/persistentvolumes",
        {"metadata": {"name": "pv"}, "spec": VOLUME_SPEC},
        creates={
            "nothing": {"spec": None},
            "no capacity": _spec(capacity=None),
            "another capacity": _spec(capacity={"cpu": "1"}),
            "no storage": _spec(capacity={"storage": "0"}),
            "no modes": _spec(accessModes=[]),
            "an unknown mode": _spec(accessModes=["Maybe"]),
            "one pod and others": _spec(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
            "no source": _spec(hostPath=None),
            "two sources": _spec(csi=CSI),
            "csi": _spec(hostPath=None, csi=CSI),
            "csi of nothing": _spec(hostPath=None, csi={"driver": "", "volumeHandle": ""}),
            "an odd driver": _spec(hostPath=None, csi={**CSI, "driver": "_"}),
            "nfs": _spec(hostPath=None, nfs={"server": "a", "path": "/b"}),
            "nfs of nothing": _spec(hostPath=None, nfs={"server": "", "path": "b"}),
            "local": _spec(hostPath=None, local={"path": "/a"}),
            "a path upwards": _spec(hostPath={"path": "/a/../b"}),
            "an unknown type of path": _spec(hostPath={"path": "/a", "type": "Hole"}),
            "the whole disk": _spec(hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle"),
            "an unknown reclaim policy": _spec(persistentVolumeReclaimPolicy="Burn"),
            "an odd class": _spec(storageClassName="S_"),
            "an unknown volume mode": _spec(volumeMode="Gas"),
            "a claim": _spec(claimRef={"name": "a", "namespace": "b"}),
            "affinity": _spec(
                nodeAffinity={
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                    }
                }
            ),
            "affinity to nothing": _spec(nodeAffinity={}),
            "odd affinity": _spec(
                nodeAffinity={
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "-", "operator": "Near"}]}]}
                }
            ),
        },
        updates={
            "another source": _spec(hostPath={"path": "/b"}),
            "more": _spec(capacity={"storage": "2Gi"}),
            "another volume mode": _spec(volumeMode="Block"),
            "another reclaim policy": _spec(persistentVolumeReclaimPolicy="Delete"),
            "a claim": _spec(claimRef={"name": "a", "namespace": "b"}),
        },
        statuses={"bound": {"status": {"phase": "Bound"}}},
    ),
    "persistentvolumeclaims": Kind(
        f"{HERE}/persistentvolumeclaims",
        {"metadata": {"name": "c"}, "spec": CLAIM_SPEC},
        creates={
            "nothing": {"spec": None},
            "no modes": _spec(accessModes=[]),
            "an unknown mode": _spec(accessModes=["Maybe"]),
            "one pod and others": _spec(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
            "no request": _spec(resources=None),
            "a request of nothing": _spec(resources={"requests": {"storage": "0"}}),
            "a negative request": _spec(resources={"requests": {"storage": "-1"}}),
            "an odd class": _spec(storageClassName="S_"),
            "a class": _spec(storageClassName=""),
            "an unknown volume mode": _spec(volumeMode="Gas"),
            "an odd selector": _spec(selector={"matchLabels": {"-": "a b"}}),
            "a source": _spec(dataSource={"kind": "PersistentVolumeClaim", "name": "a"}),
            "a source of nothing": _spec(dataSource={"kind": "", "name": ""}),
            "two sources": _spec(
                dataSource={"kind": "PersistentVolumeClaim", "name": "a"},
                dataSourceRef={"kind": "PersistentVolumeClaim", "name": "b"},
            ),
            "another source": _spec(dataSource={"kind": "Dog", "name": "a"}),
            "attributes": _spec(volumeAttributesClassName="gold"),
            "odd attributes": _spec(volumeAttributesClassName="G_"),
        },
        updates={
            "another mode": _spec(accessModes=["ReadOnlyMany"]),
            "more": _spec(resources={"requests": {"storage": "2Gi"}}),
            "a volume": _spec(volumeName="pv"),
            "another class": _spec(storageClassName="slow"),
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
        statuses={
            "bound": {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
            "negative": {"status": {"capacity": {"storage": "-1Gi"}}},
        },
    ),
    "events": Kind(
        f"{HERE}/events",
        {"metadata": {"name": "e"}, "involvedObject": {"namespace": "contract"}, "type": "Normal"},
        creates={
            "another namespace": {"involvedObject": {"namespace": "other"}},
            "no object": {"involvedObject": None},
            "no type": {"type": None},
            "a time": {"eventTime": "2026-01-01T00:00:00.000000Z"},
            "a new event": {
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingComponent": "a.b/c",
                "reportingInstance": "d",
                "action": "e",
                "reason": "f",
            },
        },
        updates={"a count": {"count": 2}},
    ),
    "new events": Kind(
        "/apis/events.k8s.io/v1/namespaces/contract/events",
        {
            "metadata": {"name": "e2"},
            "regarding": {"namespace": "contract"},
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "a.b/c",
            "reportingInstance": "d",
            "action": "e",
            "reason": "f",
        },
        creates={
            "no time": {"eventTime": None},
            "no controller": {"reportingController": None},
            "an odd controller": {"reportingController": "a b"},
            "no instance": {"reportingInstance": None},
            "a long instance": {"reportingInstance": "a" * 200},
            "no action": {"action": None},
            "a long action": {"action": "a" * 200},
            "no reason": {"reason": None},
            "a long note": {"note": "a" * 2000},
            "an unknown type": {"type": "Odd"},
            "old fields": {"deprecatedCount": 2, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"},
            "another namespace": {"regarding": {"namespace": "other"}},
        },
        updates={"another reason": {"reason": "g"}, "a series": {"series": {"count": 2}}},
    ),
}
