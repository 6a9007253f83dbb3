"""Reasons of the controllers of nodes, storage, networks and the API machinery, in a cluster in which objects wait."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.domain_settings import POD_CERTIFICATES_SETTING
from kcm.actors.simulation.campaign.runs import Run, run
from kcm.actors.simulation.campaign.setting import Composition
from kcm.actors.simulation.campaign.settings import EVERYTHING
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    CONFIGMAPS,
    ENDPOINTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from kcm.runtime.simulation.keys import request_pem
from tests.actors.controllers.reasons import reasons_of

SEEDS = (6, 1, 0, 2, 3, 4, 5, 7, 8)  # the first two give each controller of EVERYTHING something to decide
FLAGS = [
    "--cluster-cidr=10.0.0.0/16",
    "--allocate-node-cidrs",
    "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
]
SILENT = {"metadata": {"annotations": {"hollow.kcm.dev/silent": "true"}}}


def obj(name: str, namespace: str = "default", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def pod(name: str, *, volumes: Sequence[Object] = (), **spec: Any) -> Object:
    containers = [{"name": "main", "image": "image"}]
    labels = {"labels": {"app": name}}
    return obj(name, metadata=labels, spec={"containers": containers, "volumes": list(volumes), **spec})


def claim_spec(**spec: Any) -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}


def claim(name: str, **spec: Any) -> tuple[Resource, Object]:
    return PERSISTENT_VOLUME_CLAIMS, obj(name, spec=claim_spec(**spec))


def volume(claim_name: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}


def request(name: str, signer: str) -> Object:
    content = base64.b64encode(request_pem("user")).decode()
    return {"metadata": {"name": name}, "spec": {"request": content, "signerName": signer, "usages": ["client auth"]}}


def token(account: str) -> Object:
    annotations = {"annotations": {"kubernetes.io/service-account.name": account}}
    return obj(f"of-{account}", metadata=annotations, type="kubernetes.io/service-account-token")


def bootstrap_token(token_id: str, expiry: str) -> Object:
    fields = {"token-id": token_id, "token-secret": "0123456789abcdef", "expiration": expiry}
    fields["usage-bootstrap-signing"] = "true"
    data = {name: base64.b64encode(value.encode()).decode() for name, value in fields.items()}
    return obj(f"bootstrap-token-{token_id}", "kube-system", type="bootstrap.kubernetes.io/token", data=data)


def created() -> list[tuple[Resource, Object]]:
    ephemeral = {"volumeClaimTemplate": {"spec": claim_spec(storageClassName="hollow")}}
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    huge = [{"name": "main", "image": "image", "resources": {"requests": {"cpu": "1000"}}}]
    return [
        claim("provisioned", storageClassName="hollow"),
        claim("waiting", storageClassName="hollow-wait"),
        claim("without-class", storageClassName="absent"),
        claim("unmatched", storageClassName=""),
        claim("named", storageClassName="", volumeName="absent"),
        claim("growing", storageClassName="hollow"),
        (PODS, pod("user", volumes=[volume("provisioned")])),
        (PODS, pod("ephemeral", volumes=[{"name": "scratch", "ephemeral": ephemeral}])),
        (PODS, pod("tolerant", tolerations=[{**unreachable, "tolerationSeconds": 30}])),
        (PODS, pod("bare", nodeName="absent")),
        (PODS, {**pod("huge"), "spec": {"containers": huge}}),
        (SERVICES, obj("web", spec={"selector": {"app": "tolerant"}, "ports": [{"port": 80}]})),
        (SERVICES, obj("manual", spec={"ports": [{"port": 80}]})),
        (ENDPOINTS, obj("manual", subsets=[{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}])),
        (RESOURCE_QUOTAS, obj("quota", spec={"hard": {"pods": "10"}})),
        (CONFIGMAPS, obj("owner", metadata={"finalizers": ["example.com/kept"]})),
        (CERTIFICATE_SIGNING_REQUESTS, request("foreign", "example.com/signer")),
        (CERTIFICATE_SIGNING_REQUESTS, request("pending", "kubernetes.io/kube-apiserver-client")),
        (SERVICE_ACCOUNTS, obj("robot")),
        (SECRETS, token("robot")),
        (SECRETS, token("nobody")),
        (SECRETS, bootstrap_token("abcdef", "2026-01-01T00:01:00Z")),
        (CONFIGMAPS, obj("cluster-info", "kube-public", data={"kubeconfig": "{}"})),
        (NAMESPACES, {"metadata": {"name": "old"}}),
        (CONFIGMAPS, obj("kept", "old", metadata={"finalizers": ["example.com/kept"]})),
    ]


@pytest.fixture(scope="module")
def systems() -> dict[str, ControllerSystem]:
    cluster = SimulatedCluster(seed=1)
    manager = cluster.manager(options=read_options(FLAGS))
    hollow = cluster.hollow_nodes(nodes=3, zones=1, volumes=True, attach=True)
    cluster.run_for(5.0)
    for resource, given in created():
        cluster.create(resource, given)
    uid = cluster.get(CONFIGMAPS, "default/owner")["metadata"]["uid"]  # type: ignore[index]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    dependent = {"ownerReferences": [owner], "finalizers": ["example.com/kept"]}
    cluster.create(CONFIGMAPS, obj("dependent", metadata=dependent))
    cluster.create(CONFIGMAPS, obj("orphan", metadata={"ownerReferences": [{**owner, "uid": "absent"}]}))
    cluster.run_for(20.0)
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    cluster.merge(PERSISTENT_VOLUME_CLAIMS, "default/growing", larger)
    cluster.delete(NAMESPACES, "old")
    cluster.delete(CONFIGMAPS, "default/owner", policy="Foreground")
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default/provisioned")
    cluster.merge(NODES, "hollow-node-0", SILENT)
    cluster.run_for(90.0)
    return {"manager": manager, "hollow": hollow}


# Controller, prefix of the key, and how some of the reasons begin, in their order.
REASONS = [
    (
        "node-lifecycle",
        "hollow-node-0",
        "condition Ready is Unknown, last heartbeat 45 s ago; tainted node.kubernetes.io/unreachable:NoExecute",
    ),
    ("node-lifecycle", "", "1 node sent no heartbeat for the grace period: hollow-node-0"),
    (
        "taint-eviction",
        "default/tolerant",
        "evicts it at 2026-01-01T00:01:40Z: node hollow-node-0 has the NoExecute taints node.kubernetes.io/unreachable",
    ),
    (
        "pod-garbage-collector",
        "",
        "pods are bound to 1 missing node, in quarantine for 40 s",
        "deletes 1 pod, bound to nodes that do not exist, such as default/bare",
    ),
    ("node-ipam", "hollow-node-0", "has no pod CIDR: assigns 10.0.0.0/24"),
    ("ttl", "hollow-node-0", "1 node: kubelets cache Secrets and ConfigMaps for 0 s"),
    (
        "persistentvolume-binder",
        "default/provisioned",
        "no volume matches: waits for a volume from the external provisioner hollow.kcm.dev",
    ),
    (
        "persistentvolume-binder",
        "default/waiting",
        "no volume matches; waiting for first consumer to be created before binding",
    ),
    (
        "persistentvolume-binder",
        "default/without-class",
        'no volume matches: storageclass.storage.k8s.io "absent" not found',
    ),
    (
        "persistentvolume-binder",
        "default/unmatched",
        "no persistent volumes available for this claim and no storage class is set",
    ),
    ("persistentvolume-binder", "default/named", "waits for volume absent, which does not exist"),
    ("persistentvolume-attach-detach", "kubernetes.io/csi/hollow.kcm.dev^", "is needed by 1 pod on node "),
    (
        "persistentvolumeclaim-protection",
        "default/provisioned",
        "lacks the finalizer kubernetes.io/pvc-protection: adds it",
        "keeps the finalizer kubernetes.io/pvc-protection: pod user uses it",
    ),
    (
        "ephemeral-volume",
        "default/ephemeral",
        "ephemeral volume scratch has no claim: creates default/ephemeral-scratch",
    ),
    (
        "endpoints",
        "default/web",
        "the pods or the Service have changed: writes 1 ready and 0 not ready addresses",
        "the pods or the Service have changed: writes 0 ready and 1 not ready addresses",
    ),
    (
        "endpoints",
        "default/manual",
        "the Service has no selector or is an ExternalName: its Endpoints are left alone",
    ),
    (
        "endpointslice",
        "default/web",
        "its endpoints or labels have changed: creates 1, updates 0 and deletes 0 EndpointSlices",
        "its endpoints or labels have changed: creates 0, updates 1 and deletes 0 EndpointSlices",
    ),
    (
        "endpointslice-mirroring",
        "default/manual",
        "mirrors its Endpoints: creates 1, updates 0 and deletes 0 EndpointSlices",
    ),
    (
        "namespace",
        "old",
        "content remains: 1 configmaps with the finalizers example.com/kept",
        "looks again in 8 s: 1 configmaps remained",
    ),
    (
        "garbage-collector",
        "configmaps default/orphan",
        "an owner is in no table: reads it from the server",
        "none of its owners exists: deletes it with propagation Background",
    ),
    (
        "garbage-collector",
        "configmaps default/owner",
        "foreground deletion: waits for 1 dependent: configmaps default/dependent",
    ),
    (
        "garbage-collector",
        "configmaps default/dependent",
        "its owner waits for its dependents: deletes it with propagation Background",
    ),
    ("resourcequota", "default/quota", "its usage or its limits have changed: writes pods 5 of 10"),
    ("serviceaccount", "old", "has no service account default: creates it"),
    ("root-ca-certificate-publisher", "old", "has no ConfigMap kube-root-ca.crt: creates it"),
    (
        "certificatesigningrequest-approving",
        "foreign",
        "is not approved automatically: it is not for the client certificate of a kubelet",
    ),
    ("bootstrap-signer", "kube-public/cluster-info", "has 0 signatures, valid tokens give 1: signs it again"),
    (
        "token-cleaner",
        "kube-system/bootstrap-token-abcdef",
        "expires at 2026-01-01T00:01:00Z",
        "expired at 2026-01-01T00:01:00Z: deletes it",
    ),
    ("hollow-kubelet", "default/tolerant", "its node hollow-node-0 is silent, as an annotation requests"),
    ("hollow-scheduler", "default/tolerant", "binds it to node hollow-node-0"),
    ("hollow-scheduler", "default/huge", "0/3 nodes are available: 3 Insufficient cpu."),
    ("hollow-attacher", "csi-", "attaches it to node hollow-node-"),
    ("hollow-resizer", "default/growing", "expands volume pvc-"),
]


@pytest.mark.parametrize(("controller", "key", "expected"), [(*case[:2], case[2:]) for case in REASONS])
def test_controller_gives_reasons(
    systems: dict[str, ControllerSystem], controller: str, key: str, expected: tuple[str, ...]
) -> None:
    system = systems["hollow" if controller.startswith("hollow") else "manager"]
    reasons = reasons_of(system, f"{controller}-controller", key)
    found = [next((text for text in expected if reason.startswith(text)), "") for reason in reasons]
    assert list(dict.fromkeys(filter(None, found))) == list(expected), reasons


@pytest.mark.slow
def test_every_built_in_controller_gives_a_reason_in_its_trial() -> None:
    missing = {spec.name for spec in BUILT_IN}

    def collect(cluster: SimulatedCluster, _composed: Composition, _result: Run) -> None:
        for process in cluster.processes.values():
            explained = [
                spec.name
                for spec in process.specs
                if spec.name in missing and reasons_of(process.system, spec.name, "")
            ]
            missing.difference_update(explained)

    run(0, (), setting=POD_CERTIFICATES_SETTING, brief=True, later=collect)
    for seed in SEEDS:
        if missing:
            run(seed, (), setting=EVERYTHING, brief=True, later=collect)
    assert missing == set()
