"""Writes of kubelets that NodeRestriction admits or denies."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.protocols.admission_plugins import ON_BY_DEFAULT, TAINT_NODES
from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, real_sender
from tests.runtime.apiserver.contracts.requests import MERGE, STRATEGIC, Given, Send, Step

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSI_NODES, SLICES = "/apis/storage.k8s.io/v1/csinodes", "/apis/resource.k8s.io/v1/resourceslices"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MIRROR = {"kubernetes.io/config.mirror": "x"}
SERVING = "kubernetes.io/kubelet-serving"
MOST_RETRIES = 5  # of a request for a token
ACCOUNT = Step("POST", "serviceaccounts", {"metadata": {"name": "default"}})


def by(node: str, step: Step) -> Step:
    return step._replace(user=f"system:node:{node}")


def n1(method: str, path: str, body: Any = None, type_: str = requests.JSON) -> Step:
    return by("n1", Step(method, path, body, type_))


def node(name: str = "n1", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def gone(path: str) -> Step:
    return Step("DELETE", path)


def labelled(**labels: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {name.replace("__", "/").replace("_", "."): to for name, to in labels.items()}}}


def pod(name: str, on: str = "n1", **spec: Any) -> dict[str, Any]:
    return requests.pod(name, nodeName=on, **spec)


def mirror(name: str, on: str = "n1", owners: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a mirror pod. `$uid` is the uid in the previous response: that of the node."""
    own = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "$uid", "controller": True}
    meta = {"name": name, "annotations": MIRROR, "ownerReferences": [own] if owners is None else owners}
    return {"metadata": meta, "spec": {"containers": requests.CONTAINERS, "nodeName": on, **spec}}


def owner(**fields: Any) -> list[dict[str, Any]]:
    own = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "$uid", "controller": True}
    return [{name: value for name, value in {**own, **fields}.items() if value is not None}]


def makes(body: dict[str, Any]) -> list[Step]:
    """Return the steps that create a pod as n1, after reading the uid of the node."""
    return [Step("GET", "/nodes/n1"), n1("POST", "pods", body)]


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def slice_(name: str, on: str | None) -> dict[str, Any]:
    where = {"allNodes": True} if on is None else {"nodeName": on}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": "d.example.com", "pool": pool, **where}}


def volume(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "v", **source}]


@cache
def signing_request(name: str) -> str:
    """Return a signing request with a new key, as PEM in base64."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


def signs(name: str, signer: str = SERVING, request: str | None = None) -> Step:
    usages = ["digital signature", "server auth"]
    pem = signing_request(name) if request is None else request
    meta = {"name": "r"}
    return n1("POST", REQUESTS, {"metadata": meta, "spec": {"request": pem, "signerName": signer, "usages": usages}})


def token(bound: dict[str, Any] | None, *audiences: str) -> Step:
    spec = {"audiences": list(audiences), **({} if bound is None else {"boundObjectRef": bound})}
    return n1("POST", "serviceaccounts/sa/token", {"spec": spec})


def bound(name: str, uid: str = "$uid", kind: str = "Pod") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}


def projected(audience: str | None) -> dict[str, Any]:
    source = {"path": "t", **({} if audience is None else {"audience": audience})}
    return {"projected": {"sources": [{"serviceAccountToken": source}]}}


SCENARIOS: dict[str, list[Step]] = {
    "nodes": [
        by("", Step("POST", "/nodes", node())),
        n1("POST", "/nodes", node("n2")),
        n1("POST", "/nodes", node(labels={"a.k8s.io/b": "c", "node-restriction.kubernetes.io/x": "y", "free": "yes"})),
        n1(
            "POST",
            "/nodes",
            node(labels={"kubernetes.io/hostname": "n1", "x.kubelet.kubernetes.io/y": "z", "a/b": "c"}),
        ),
        n1("PATCH", "/nodes/n1", labelled(kubernetes_io__hostname="n2", mine="1"), MERGE),
        n1("PATCH", "/nodes/n1", labelled(kubernetes_io__role="master"), MERGE),
        n1("PATCH", "/nodes/n1", labelled(x_node_restriction_kubernetes_io__y="1", k8s_io__a="b"), MERGE),
        n1("PATCH", "/nodes/n1", {"metadata": {"annotations": {"a": "b"}}, "spec": {"podCIDR": "10.0.0.0/24"}}, MERGE),
        n1("PATCH", "/nodes/n1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, MERGE),
        n1("PATCH", "/nodes/n1", {"spec": {"taints": []}}, MERGE),
        n1("PATCH", "/nodes/n1", {"metadata": {"ownerReferences": owner(kind="Pod", name="p")}}, MERGE),
        n1("PATCH", "/nodes/n1/status", status(phase="Running"), MERGE),
        n1("PATCH", "/nodes/n1/status", {**labelled(kubernetes_io__role="x"), **status(phase="Pending")}, MERGE),
        Step("POST", "/nodes", node("n2", {"kubernetes.io/role": "x"})),
        n1("PATCH", "/nodes/n2/status", status(phase="Running"), MERGE),
        n1("DELETE", "/nodes/n2"),
        gone("/nodes/n2"),
        n1("DELETE", "/nodes/n1"),
    ],
    "leases": [
        n1("POST", LEASES, {"metadata": {"name": "n2"}}),
        n1("POST", LEASES, {"metadata": {"generateName": "n"}}),
        n1("POST", LEASES, {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}}),
        n1("PATCH", f"{LEASES}/n1", {"spec": {"holderIdentity": "n2"}}, MERGE),
        n1("PUT", f"{LEASES}/n2", {"metadata": {"name": "n2"}}),
        n1("POST", "leases", {"metadata": {"name": "n1"}}),
        Step("POST", LEASES, {"metadata": {"name": "n2"}}),
        n1("DELETE", f"{LEASES}/n2"),
        gone(f"{LEASES}/n2"),
        n1("DELETE", f"{LEASES}/n1"),
    ],
    "CSI nodes and slices": [
        n1("POST", CSI_NODES, {"metadata": {"name": "n2"}, "spec": {"drivers": []}}),
        n1("POST", CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": []}}),
        n1("PATCH", f"{CSI_NODES}/n1", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        n1("DELETE", f"{CSI_NODES}/n1"),
        n1("POST", SLICES, slice_("s", "n2")),
        n1("POST", SLICES, slice_("s", None)),
        n1("POST", SLICES, slice_("s", "n1")),
        by("n2", Step("DELETE", f"{SLICES}/s")),
        n1("DELETE", f"{SLICES}/s"),
    ],
    "pods": [
        ACCOUNT,
        Step("POST", "/nodes", node()),
        n1("POST", "pods", pod("a")),
        *makes(mirror("a", "n2")),
        *makes(mirror("a", owners=[])),
        *makes(mirror("a", owners=owner() + owner(name="n2", controller=False))),
        *makes(mirror("a", owners=owner(name="n2"))),
        *makes(mirror("a", owners=owner(kind="Pod"))),
        *makes(mirror("a", owners=owner(controller=None))),
        *makes(mirror("a", owners=owner(blockOwnerDeletion=True))),
        *makes(mirror("a", owners=owner(uid="other"))),
        *makes(mirror("a", imagePullSecrets=[{"name": "s"}])),
        *makes(mirror("a", volumes=volume(configMap={"name": "m"}))),
        *makes(mirror("a", volumes=volume(csi={"driver": "d"}))),
        *makes(mirror("a", volumes=volume(glusterfs={"endpoints": "e", "path": "p"}))),
        *makes(mirror("a", volumes=volume(persistentVolumeClaim={"claimName": "c"}))),
        *makes(mirror("a", volumes=volume(**projected("x")))),
        *makes(mirror("a", volumes=volume(hostPath={"path": "/"}))),
        Step("POST", "pods", pod("other", "n2")),
        n1("PATCH", "pods/other/status", status(phase="Running"), STRATEGIC),
        n1("DELETE", "pods/other"),
        n1("POST", "pods/other/eviction", {"metadata": {"name": "other"}}),
        n1("POST", "pods/none/eviction", {"metadata": {"name": "none"}}),
        n1("DELETE", "pods/none"),
        Step("POST", "pods", pod("mine")),
        n1("PATCH", "pods/mine/status", status(phase="Running"), STRATEGIC),
        n1("PATCH", "pods/mine/status", {**labelled(a="b"), **status(phase="Pending")}, STRATEGIC),
        n1("PATCH", "pods/mine/status", status(resourceClaimStatuses=[{"name": "c"}]), STRATEGIC),
        n1("PATCH", "pods/mine", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        n1("PATCH", "pods/mine/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}, MERGE),
        n1("POST", "pods/mine/binding", {"metadata": {"name": "mine"}, "target": {"name": "n1"}}),
        n1("POST", "pods/mine/eviction", {"metadata": {"name": "mine"}, "deleteOptions": {"gracePeriodSeconds": 0}}),
        n1("DELETE", "pods/a", {"gracePeriodSeconds": 0}),
        gone("/nodes/n1"),
    ],
    "claims": [
        Step(
            "POST",
            "persistentvolumeclaims",
            {
                "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        n1("PATCH", "persistentvolumeclaims/c", labelled(a="b"), MERGE),
        n1("PATCH", "persistentvolumeclaims/c/status", status(capacity={"storage": "2Gi"}, phase="Pending"), MERGE),
        n1("DELETE", "persistentvolumeclaims/c"),
    ],
    "tokens": [
        ACCOUNT,
        Step("POST", "serviceaccounts", {"metadata": {"name": "sa"}}),
        token(None),
        token(bound("a", kind="Secret")),
        token(bound("a", uid="")),
        token(bound("none", uid="x")),
        Step("POST", "pods", pod("a", serviceAccountName="sa", volumes=volume(**projected("vault")))),
        token(bound("a", uid="other"), "vault"),
        Step("GET", "pods/a"),
        token(bound("a"), "vault", "more"),
        Step("GET", "pods/a"),
        token(bound("a"), "vault"),
        Step("GET", "pods/a"),
        token(bound("a"), "other"),
        Step("GET", "pods/a"),
        token(bound("a")),
        Step("POST", "pods", pod("b", "n2", serviceAccountName="sa")),
        token(bound("b")),
    ],
    "signing requests": [
        signs("system:node:n2"),
        signs("other", "kubernetes.io/kube-apiserver-client-kubelet"),
        signs("system:node:n1", request=base64.b64encode(b"none").decode()),
        signs("other", "example.com/x"),
        gone(f"{REQUESTS}/r"),
    ],
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    """Play a scenario, and keep only the status of successful responses."""
    answers = requests.play_steps(SCENARIOS[scenario], send)
    return [answer if answer["status"] >= 400 else {"status": answer["status"]} for answer in answers]


def _patiently(send: Send) -> Send:
    """Repeat requests for tokens of a pod that was not found.

    NodeRestriction of kube-apiserver reads pods from a cache, which may not contain a new pod yet.
    """

    def sent(given: Given) -> tuple[int, Any]:
        status, body = send(given)
        for _ in range(MOST_RETRIES):
            if status != 404 or not given.path.endswith("/token"):
                break
            time.sleep(0.5)
            status, body = send(given)
        return status, body

    return sent


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Send]]:
    plugin = "--enable-admission-plugins=NodeRestriction"
    with real_sender(directory, assets, plugin, disabled=[TAINT_NODES]) as send:
        # Nodes are authorized for everything, so that only NodeRestriction denies requests.
        group, rbac = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
        binding = {
            "metadata": {"name": "nodes"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:nodes"}],
        }
        made, _ = send(Given("POST", f"{rbac}/clusterrolebindings", json.dumps(binding).encode(), requests.JSON, {}))
        assert made == 201
        yield lambda _scenario: requests.in_a_namespace_of_its_own(_patiently(send))


CONTRACT = Contract(
    "node_restriction",
    SCENARIOS,
    play,
    embedded=embedded(
        plugins=ON_BY_DEFAULT - {TAINT_NODES},
        accounts=AccountTokens(SigningKey(generate_private_key(SECP256R1()))),
    ),
    real=_real,
)
