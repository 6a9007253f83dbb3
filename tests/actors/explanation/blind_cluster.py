"""Blind scenarios of nodes, deletion and approval."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kcm.protocols.resources import Resource
from tests.actors.explanation.blind_scenario import (
    BlindScenario,
    annotate,
    pods_of,
    scenario,
    service,
    workload,
)
from tests.actors.explanation.scenario import Scene

CLUSTER: list[BlindScenario] = []
TENANTS = Resource(group="minio.example", version="v1", plural="tenants", kind="Tenant")


# Nodes.


@scenario(
    CLUSTER,
    "pod of a StatefulSet is terminating on a lost node",
    cause="The node of redis-0 is lost, so the pod stays terminating, and the StatefulSet creates no other one "
    "until it is gone.",
    facts=("redis-0", "hollow-node-", "unreachable|not ready|notready|lost|silent|heartbeat|stopped posting|kubelet"),
    alone=True,
    wait=500.0,
    code="node-lost",
)
def lost_node(scene: Scene) -> tuple[str, str]:
    workload(scene, "redis", "StatefulSet")
    scene.run(15.0)
    annotate(scene, "Node", node_of(scene, "redis"), silent="true")
    return "StatefulSet", "redis"


@scenario(
    CLUSTER,
    "Service has its only pod on a lost node",
    cause="The only pod of the Service is on a node whose kubelet no longer reports, so it counts as not ready.",
    facts=("hollow-node-", "unreachable|not ready|notready|lost|silent|heartbeat|stopped posting|kubelet"),
    alone=True,
    wait=120.0,
    code="node-lost",
)
def service_on_lost_node(scene: Scene) -> tuple[str, str]:
    workload(scene, "licence-server")
    service(scene, "licence-server")
    workload(scene, "frontpage", replicas=3)
    scene.run(15.0)
    annotate(scene, "Node", node_of(scene, "licence-server"), silent="true")
    return "Service", "licence-server"


@scenario(
    CLUSTER,
    "namespace keeps a pod on a lost node",
    cause="The namespace cannot be emptied, because pod cache-0 is terminating on a node that is lost.",
    facts=("cache-0", "hollow-node-"),
    alone=True,
    wait=200.0,
    code="node-lost",
)
def namespace_on_lost_node(scene: Scene) -> tuple[str, str]:
    workload(scene, "cache", "StatefulSet")
    scene.run(15.0)
    annotate(scene, "Node", node_of(scene, "cache"), silent="true")
    scene.run(60.0)
    scene.delete("Namespace", scene.namespace)
    return "Namespace", scene.namespace


@scenario(
    CLUSTER,
    "disruption budget blocks a drain because of an unready pod",
    cause="The budget wants 2 healthy pods and allows no eviction, because quorum-1 and quorum-2 are not ready.",
    facts=("quorum-1|quorum-2", "ready|healthy"),
    report="https://github.com/kubernetes/kubernetes/issues/80389",
    code="readiness-probe",
)
def blocking_budget(scene: Scene) -> tuple[str, str]:
    workload(scene, "quorum", "StatefulSet", replicas=3, more={"podManagementPolicy": "Parallel"})
    body = {"minAvailable": 2, "selector": {"matchLabels": {"app": "quorum"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "quorum-pdb"}}
    scene.apply({**budget, "spec": body})
    scene.run(20.0)
    annotate(scene, "Pod", "quorum-1", ready="false")
    annotate(scene, "Pod", "quorum-2", ready="false")
    return "PodDisruptionBudget", "quorum-pdb"


# Deletion and what people forget to do.


@scenario(
    CLUSTER,
    "namespace keeps an object of an uninstalled operator",
    cause="The namespace keeps Tenant photos, whose finalizer minio.example/cleanup nothing removes, because "
    "its operator is gone.",
    facts=("minio.example/cleanup", "tenant"),
    code="namespace-not-empty|finalizer",
)
def orphaned_finalizer(scene: Scene) -> tuple[str, str]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "group": "minio.example",
        "scope": "Namespaced",
        "names": {"plural": "tenants", "singular": "tenant", "kind": "Tenant", "listKind": "TenantList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    scene.apply({**kind, "metadata": {"name": "tenants.minio.example"}, "spec": body})
    scene.run(20.0)
    workload(scene, "minio-console")
    scene.create(TENANTS, "photos", {"spec": {"pools": 4}}, finalizers=["minio.example/cleanup"])
    scene.run(10.0)
    scene.delete("Namespace", scene.namespace)
    return "Namespace", scene.namespace


@scenario(
    CLUSTER,
    "namespace waits for a dead API server",
    cause="The namespace cannot be emptied, because discovery fails: APIService v1beta1.custom.metrics.k8s.io "
    "is unavailable.",
    facts=("custom.metrics.k8s.io", "v1beta1", "discovery|available|unavailable|serve"),
    report="https://github.com/kubernetes/kubernetes/issues/75788",
    alone=True,
    code="namespace-discovery|api-service-unavailable",
)
def dead_api_service(scene: Scene) -> tuple[str, str]:
    workload(scene, "demo-app", replicas=2)
    body = {
        "group": "custom.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "monitoring", "name": "prometheus-adapter"},
    }
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    scene.apply({**kind, "metadata": {"name": "v1beta1.custom.metrics.k8s.io"}, "spec": body})
    scene.run(40.0)
    scene.delete("Namespace", scene.namespace)
    return "Namespace", scene.namespace


@scenario(
    CLUSTER,
    "pod keeps the finalizer of another program",
    cause="The pod is being deleted, and nothing removes its finalizer dns.corp.example/record.",
    facts=("dns.corp.example/record", "finalizer"),
    code="finalizer",
)
def pod_finalizer(scene: Scene) -> tuple[str, str]:
    workload(scene, "mailer", replicas=2)
    scene.run(10.0)
    name = pods_of(scene, "mailer")[0]["metadata"]["name"]
    scene.merge("Pod", name, {"metadata": {"finalizers": ["dns.corp.example/record"]}})
    scene.delete("Pod", name)
    return "Pod", name


@scenario(
    CLUSTER,
    "serving certificate of a kubelet waits for approval",
    cause="Nobody has approved the request: requests of the signer kubernetes.io/kubelet-serving are not "
    "approved automatically.",
    facts=("approv", "kubelet-serving|signer|nobody|administrator"),
    wait=300.0,
    code="csr-unapproved",
)
def unapproved_request(scene: Scene) -> tuple[str, str]:
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    usages = ["digital signature", "server auth"]
    body = {"signerName": "kubernetes.io/kubelet-serving", "usages": usages, "request": signing_request()}
    scene.apply({**kind, "metadata": {"name": "csr-x7k2p"}, "spec": body})
    return "CertificateSigningRequest", "csr-x7k2p"


# Objects.


def node_of(scene: Scene, app: str) -> str:
    (pod,) = pods_of(scene, app)
    return str(pod["spec"]["nodeName"])


def signing_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:hollow-node-0")]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    hosts = x509.SubjectAlternativeName([x509.DNSName("hollow-node-0")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(hosts, critical=False)
    signed = request.sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
