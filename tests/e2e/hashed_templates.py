"""DaemonSets and Deployments whose templates use many kinds of fields, to compare upstream's hash by."""

from __future__ import annotations

from typing import Any

from tests.e2e.kubectl import Object

PROBE = {"httpGet": {"port": "web", "path": "/", "httpHeaders": [{"name": "X", "value": "é<&>"}]}, "periodSeconds": 3}
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
        ]
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {}}
        ]
    },
}
CLAIM = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5Gi"}}},
}
VOLUMES = [
    {"name": "empty", "emptyDir": {"sizeLimit": "128Mi"}},
    {"name": "host", "hostPath": {"path": "/x", "type": "Directory"}},
    {"name": "config", "configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 256}]}},
    {"name": "claim", "ephemeral": {"volumeClaimTemplate": CLAIM}},
    {
        "name": "projected",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 700}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]
        },
    },
]
ENV = [
    {"name": "A", "value": "b"},
    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    {"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
]
REQUESTS = {"cpu": "1500m", "memory": "100Mi", "ephemeral-storage": "3Ki", "example.com/gpu": "0"}
LIMITS = {"cpu": "2", "memory": "1000M", "ephemeral-storage": "7Ki", "example.com/gpu": "0"}
TEMPLATES: dict[str, Object] = {
    "plain": {},
    "many": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "command": ["a", "b c"],
                "args": [],
                "env": ENV,
                "ports": [{"name": "web", "containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
                "resources": {"requests": REQUESTS, "limits": LIMITS},
                "readinessProbe": PROBE,
                "livenessProbe": {"exec": {"command": ["x"]}},
                "startupProbe": {"tcpSocket": {"port": 80}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}, "runAsUser": 0},
                "volumeMounts": [{"name": "host", "mountPath": "/h", "mountPropagation": "HostToContainer"}],
            }
        ],
        "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
        "volumes": [{"name": "host", "hostPath": {"path": "/x", "type": "Directory"}}],
    },
    "pod": {
        "affinity": AFFINITY,
        "volumes": VOLUMES,
        "nodeSelector": {"b": "2", "a": "1"},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}],
        "hostNetwork": True,
        "hostPID": True,
        "priorityClassName": "system-node-critical",
        "securityContext": {"fsGroup": 7, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "terminationGracePeriodSeconds": 0,
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}],
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "imagePullSecrets": [{"name": "s"}],
        "serviceAccountName": "default",
    },
}


def hashed(name: str, kind: str = "DaemonSet") -> Object:
    """Return a DaemonSet or Deployment with the template of this name."""
    more: Any = TEMPLATES[name]
    labels = {"app": name}
    spec = {"containers": [{"name": "c", "image": "i"}], **more}
    template = {"metadata": {"labels": labels, "annotations": {"z": "1", "Z": "2", "a": ""}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
