"""Changes and rejections by admission, with all plugins that are enabled by default."""

from __future__ import annotations

import json
import re
from typing import Any

from kcm.protocols.admission_plugins import ON_BY_DEFAULT
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, in_new_namespaces
from tests.runtime.apiserver.contracts.requests import MERGE, STRATEGIC, Send, Step, pod

_DRAWN = re.compile(r"kube-api-access-[a-z0-9]{5}")


def account(name: str, annotations: dict[str, str] | None = None, **fields: Any) -> Step:
    meta = {"name": name, **({"annotations": annotations} if annotations else {})}
    return Step("POST", "serviceaccounts", {"metadata": meta, **fields})


def new(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Step:
    body = pod(name, **spec)
    if annotations:
        body["metadata"]["annotations"] = annotations
    return Step("POST", "pods", body)


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "nginx:1", **fields}


_INFO = "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID"
_INFO += " operatingSystem osImage systemUUID"
MACHINE = {
    "nodeInfo": dict.fromkeys(_INFO.split(), "x"),
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
}
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SERVICE_CA = "openshift-service-ca.crt"


def claim(name: str, **spec: Any) -> dict[str, Any]:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**asked, **spec}}


def cluster_wide(
    resource: str,
    name: str,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> Step:
    meta = {"name": name, "annotations": annotations or {}, **({"labels": labels} if labels else {})}
    return Step("POST", f"/{resource}", {"metadata": meta, **fields})


def bound(name: str, node: str, labels: dict[str, str] | None = None, **target: str) -> Step:
    meta = {"name": name, "labels": labels or {}}
    return Step("POST", f"pods/{name}/binding", {"metadata": meta, "target": {"name": node, **target}})


def gone(resource: str, name: str) -> Step:
    return Step("DELETE", f"/{resource}/{name}")


def labelled(**labels: str | None) -> Step:
    """Return a step that labels the namespace. None removes a label."""
    given = {f"pod-security.kubernetes.io/{mode}": level for mode, level in labels.items()}
    return Step("PATCH", f"/namespaces/{requests.NAMESPACE}/", {"metadata": {"labels": given}}, MERGE)


def secured(name: str, context: dict[str, Any], **spec: Any) -> Step:
    """Return a step that creates a pod with two containers, the second of which has a security context."""
    containers = [container(), container("d", securityContext=context)]
    return new(name, containers=containers, **spec)


TIGHT = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RESTRICTED: dict[str, Any] = {
    "containers": [container(securityContext=TIGHT)],
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
TOO_MUCH = [
    secured("a", {"privileged": True}, hostNetwork=True, hostPID=True, hostIPC=True),
    secured("b", {"capabilities": {"add": ["NET_ADMIN", "CHOWN", "SYS_TIME"]}, "runAsUser": 0}),
    secured("c", {"procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"}}, hostUsers=False),
    secured("d", {"seLinuxOptions": {"type": "other", "user": "u"}}, securityContext={"seLinuxOptions": {"role": "r"}}),
    secured("e", {"appArmorProfile": {"type": "Unconfined"}, "runAsNonRoot": False}, securityContext={"runAsUser": 0}),
    new(
        "f",
        volumes=[
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "w", "nfs": {"server": "s", "path": "/"}},
            {"name": "x"},
        ],
        initContainers=[container("i", ports=[{"containerPort": 80, "hostPort": 81}])],
        containers=[container(ports=[{"containerPort": 90, "hostPort": 91}])],
    ),
    new(
        "g",
        securityContext={
            "sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}],
            "runAsNonRoot": True,
        },
        containers=[
            container(livenessProbe={"httpGet": {"port": 80, "host": "a.b"}}),
            container("d", lifecycle={"preStop": {"tcpSocket": {"port": 80, "host": "c.d"}}}),
        ],
    ),
    secured("h", TIGHT, securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}),
]


def requests_storage(size: str, **spec: Any) -> Step:
    """Request another size for the claim "data"."""
    return Step(
        "PATCH",
        "persistentvolumeclaims/data",
        {"spec": {"resources": {"requests": {"storage": size}}, **spec}},
        MERGE,
    )


def claim_status(**status: Any) -> Step:
    return Step("PATCH", "persistentvolumeclaims/data/status", {"status": status}, MERGE)


BIGGER = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
SECRETS = "kubernetes.io/enforce-mountable-secrets"
MIRROR = {"kubernetes.io/config.mirror": "x"}
ELSEWHERE = [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
FROM_SECRET = [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]

SCENARIOS: dict[str, list[Step]] = {
    "service accounts": [
        new("a", serviceAccountName="none"),
        new("a", serviceAccountName="none", automountServiceAccountToken=False),
        account("default"),
        new("a"),
        new("b", automountServiceAccountToken=False),
        new(
            "c",
            volumes=[{"name": "v", "emptyDir": {}}],
            initContainers=[container("i")],
            containers=[container(), container("d", volumeMounts=ELSEWHERE)],
        ),
        new("d", volumes=[{"name": "v", "emptyDir": {}}], containers=[container(volumeMounts=ELSEWHERE)]),
        new("e", volumes=[{"name": "kube-api-access-mine", "emptyDir": {}}]),
        new("f", imagePullSecrets=[{"name": "mine"}]),
        account("pulls", imagePullSecrets=[{"name": "one"}, {"name": "two"}]),
        new("g", serviceAccountName="pulls"),
        new("h", serviceAccountName="pulls", imagePullSecrets=[{"name": "mine"}]),
        account("mounts-none", automountServiceAccountToken=False),
        new("i", serviceAccountName="mounts-none"),
        new("j", serviceAccountName="mounts-none", automountServiceAccountToken=True),
        Step("PATCH", "pods/a", {"metadata": {"labels": {"x": "y"}}}, MERGE),
    ],
    "claims": [
        Step("POST", "persistentvolumeclaims", claim("none")),
        cluster_wide("storageclasses", "slow", {IS_DEFAULT: "true"}, provisioner="p", allowVolumeExpansion=True),
        cluster_wide("storageclasses", "b-slow", {IS_DEFAULT: "true"}, provisioner="p"),
        cluster_wide("storageclasses", "other", provisioner="p"),
        Step("POST", "persistentvolumeclaims", claim("other", storageClassName="other")),
        Step("POST", "persistentvolumeclaims", claim("empty", storageClassName="")),
        Step("PATCH", "persistentvolumeclaims/other/status", {"status": {"phase": "Bound"}}, MERGE),
        Step("PATCH", "persistentvolumeclaims/other", BIGGER, MERGE),
        Step("POST", "persistentvolumeclaims", claim("slow", storageClassName="slow")),
        Step("PATCH", "persistentvolumeclaims/slow/status", {"status": {"phase": "Bound"}}, MERGE),
        Step("PATCH", "persistentvolumeclaims/slow", BIGGER, MERGE),
        *(gone("storageclasses", name) for name in ("slow", "b-slow", "other")),
    ],
    "expansion": [
        cluster_wide("storageclasses", "grows", provisioner="p", allowVolumeExpansion=True),
        Step("POST", "persistentvolumeclaims", claim("data", storageClassName="grows")),
        requests_storage("2Gi"),
        claim_status(phase="Bound", capacity={"storage": "1Gi"}),
        requests_storage("5Gi"),
        requests_storage("3Gi"),
        requests_storage("1Gi"),
        requests_storage("512Mi"),
        requests_storage("4Gi", volumeName="v"),
        requests_storage("6Gi", storageClassName="other"),
        requests_storage("6Gi", volumeMode="Block"),
        requests_storage("0"),
        Step("PATCH", "persistentvolumeclaims/data", {"spec": {"resources": {"requests": None}}}, MERGE),
        Step("PATCH", "persistentvolumeclaims/data", {"spec": {"resources": {"requests": {"cpu": "1"}}}}, MERGE),
        Step("PATCH", "persistentvolumeclaims/data", {"spec": {"resources": {"limits": {"storage": "9Gi"}}}}, MERGE),
        claim_status(
            allocatedResources={"storage": "3Gi"},
            allocatedResourceStatuses={"storage": "ControllerResizeInProgress"},
            conditions=[{"type": "Resizing", "status": "True"}],
        ),
        claim_status(allocatedResources={"storage": "-1"}),
        claim_status(allocatedResources={"example.com/iops": "1"}),
        claim_status(allocatedResources={"memory": "1"}),
        claim_status(allocatedResourceStatuses={"storage": "Growing"}),
        claim_status(allocatedResourceStatuses={"memory": "NodeResizePending"}),
        claim_status(capacity={"storage": "-1"}),
        claim_status(capacity={"storage": "3Gi"}, allocatedResourceStatuses=None, conditions=None),
        Step(
            "PATCH",
            "persistentvolumeclaims/data/status",
            {"metadata": {"annotations": {"volume.kubernetes.io/storage-resizer": "p"}}, "spec": {"volumeName": "w"}},
            MERGE,
        ),
        requests_storage("2Gi"),
        gone("storageclasses", "grows"),
        requests_storage("9Gi"),
    ],
    "runtime classes": [
        account("default", automountServiceAccountToken=False),
        new("a", runtimeClassName="none"),
        cluster_wide(
            "runtimeclasses",
            "contract",
            handler="h",
            overhead={"podFixed": {"cpu": "100m"}},
            scheduling={
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            },
        ),
        new("b", runtimeClassName="contract"),
        new("c", runtimeClassName="contract", nodeSelector={"a": "c"}),
        new("d", runtimeClassName="contract", overhead={"cpu": "0.1"}, nodeSelector={"c": "d"}),
        new("e", runtimeClassName="contract", overhead={"cpu": "0.2"}),
        new("f", overhead={"cpu": "0.2"}),
        new("g", runtimeClassName="contract", tolerations=[{"key": "k", "operator": "Exists"}]),
        gone("runtimeclasses", "contract"),
    ],
    "pod security": [
        account("default", automountServiceAccountToken=False),
        labelled(enforce="strict"),
        labelled(**{"enforce": "baseline", "warn-version": "1.2"}),
        labelled(enforce="restricted"),
        *TOO_MUCH,
        new("good", **RESTRICTED),
        new("windows", os={"name": "windows"}, securityContext={"runAsNonRoot": True}),
        Step("POST", "replicasets", requests.replicaset(replicas=0)),
        Step("PATCH", "pods/good", {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}, STRATEGIC),
        labelled(**{"enforce-version": "v1.20"}),
        *TOO_MUCH,
        labelled(enforce="baseline"),
        *(step._replace(query={"dryRun": "All"}) for step in TOO_MUCH),
        labelled(**{"enforce-version": "latest"}),
        *(step._replace(query={"dryRun": "All"}) for step in TOO_MUCH),
        new("plain"),
        labelled(enforce="restricted"),
        Step("PATCH", "pods/plain", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        Step("PATCH", "pods/plain", {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}, STRATEGIC),
        labelled(enforce=None),
        new("free", hostNetwork=True),
    ],
    "mirror pods": [
        account("default"),
        new("a", MIRROR, nodeName="n"),
        new("b", MIRROR, nodeName="n", serviceAccountName="default"),
        new("c", MIRROR, nodeName="n", volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
        new("d", MIRROR, nodeName="n", containers=[container(env=FROM_SECRET)]),
        new(
            "e",
            MIRROR,
            nodeName="n",
            volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        ),
    ],
    "labels of the node": [
        account("default"),
        cluster_wide("nodes", "zoned", labels={ZONE: "z", REGION: "r", "kubernetes.io/hostname": "h"}, status=MACHINE),
        cluster_wide("nodes", "plain", status=MACHINE),
        new("a", nodeName="zoned"),
        new("b", nodeName="plain"),
        new("c", nodeName="none"),
        new("d"),
        bound("d", "zoned", kind="Node"),
        Step("GET", "pods/d"),
        new("e"),
        bound("e", "zoned"),
        Step("GET", "pods/e"),
        new("f"),
        bound("f", "zoned", {"mine": "1", ZONE: "other"}, kind="Node"),
        Step("GET", "pods/f"),
        gone("nodes", "zoned"),
        gone("nodes", "plain"),
    ],
    "mountable secrets": [
        account("default", {SECRETS: "true"}, secrets=[{"name": "s"}], imagePullSecrets=[{"name": "p"}]),
        account("loose", {SECRETS: "yes"}),
        new("a", volumes=[{"name": "v", "secret": {"secretName": "s"}}], containers=[container(env=FROM_SECRET)]),
        new("b", volumes=[{"name": "v", "secret": {"secretName": "t"}}]),
        new("c", containers=[container(envFrom=[{"secretRef": {"name": "t"}}])]),
        new("d", initContainers=[container("i", envFrom=[{"secretRef": {"name": "t"}}])]),
        new("e", imagePullSecrets=[{"name": "p"}, {"name": "q"}]),
        new("f", serviceAccountName="loose", volumes=[{"name": "v", "secret": {"secretName": "t"}}]),
    ],
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    """Play a scenario, and replace random names in the responses."""
    answers = requests.play_steps(SCENARIOS[scenario], send)
    text = _DRAWN.sub("kube-api-access-<drawn>", json.dumps(answers))
    drawn: list[dict[str, Any]] = json.loads(text, object_hook=_as_upstream)
    return drawn


def _as_upstream(value: dict[str, Any]) -> dict[str, Any]:
    """Remove a ConfigMap that only OpenShift's kube-apiserver mounts."""
    if "sources" in value:
        value["sources"] = [s for s in value["sources"] if (s.get("configMap") or {}).get("name") != SERVICE_CA]
    return value


CONTRACT = Contract(
    "admission",
    SCENARIOS,
    play,
    embedded=embedded(plugins=ON_BY_DEFAULT),
    real=in_new_namespaces("--allow-privileged", disabled=()),
)
