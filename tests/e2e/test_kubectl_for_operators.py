"""Commands of operators with kubectl for nodes, access, certificates and directories, on the API server alone."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.e2e.test_kubectl_on_embedded import POD, Kubectl, kubeconfig, kubectl, pytestmark

__all__ = ["kubeconfig", "kubectl", "pytestmark"]

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def make_node(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))


def test_a_node_is_tainted_cordoned_and_drained(kubectl: Kubectl) -> None:
    node = f"{kubectl.namespace}-n"
    make_node(kubectl, node)
    kubectl("taint", "node", node, "dedicated=db:NoSchedule")
    assert {"key": "dedicated", "value": "db", "effect": "NoSchedule"} in kubectl.json("get", "node", node)["spec"][
        "taints"
    ]
    kubectl("taint", "node", node, "dedicated-")
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert kubectl.json("get", "node", node)["spec"]["unschedulable"] is True
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"

    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    owned = {**json.loads(json.dumps(as_pod("owned", node))), "kind": "Pod", "apiVersion": "v1"}
    kubectl("create", "-f", "-", given=json.dumps(REPLICA_SET))
    owner["uid"] = kubectl.json("get", "rs", "rs")["metadata"]["uid"]
    owned["metadata"]["ownerReferences"] = [owner]
    kubectl("create", "-f", "-", given=json.dumps(owned))
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "owned", "--subresource=status", "-p", ready)  # else no budget guards it
    kubectl("create", "pdb", "guard", "--selector=app=web", "--min-available=1")
    counted = '{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1}}'
    kubectl("patch", "pdb", "guard", "--subresource=status", "--type=merge", "-p", counted)
    refused = kubectl.refused("drain", node, "--timeout=2s", "--grace-period=0")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    kubectl("delete", "pdb", "guard")
    assert f"node/{node} drained\n" in kubectl("drain", node, "--timeout=20s", "--grace-period=0")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("delete", "node", node)


def as_pod(name: str, node: str) -> dict[str, object]:
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "rs"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def test_account_gets_a_token_and_whoami_names_it(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=1h").strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{kubectl.namespace}:robot"
    me = kubectl.json("auth", "whoami")["status"]["userInfo"]
    assert me["username"] == "kubernetes-admin"
    assert "system:masters" in me["groups"]
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    asked = kubectl("auth", "can-i", "--list")
    assert asked.splitlines()[0].split() == ["Resources", "Non-Resource", "URLs", "Resource", "Names", "Verbs"]


def test_a_certificate_is_asked_for_approved_and_denied(kubectl: Kubectl) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    for name, verb, condition in (("good", "approve", "Approved"), ("bad", "deny", "Denied")):
        name = f"{name}-{kubectl.namespace}"
        spec = {
            "request": base64.b64encode(pem.public_bytes(Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        }
        request = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        kubectl("create", "-f", "-", given=json.dumps({**request, "metadata": {"name": name}, "spec": spec}))
        kubectl("certificate", verb, name)
        (found,) = kubectl.json("get", "csr", name)["status"]["conditions"]
        assert found["type"] == condition


def test_an_object_is_edited_in_an_editor(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", given=POD)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/nginx:1/nginx:3/" "$1"\n')
    editor.chmod(0o755)
    os.environ["KUBE_EDITOR"] = str(editor)
    try:
        assert kubectl("edit", "pod", "web") == "pod/web edited\n"
    finally:
        del os.environ["KUBE_EDITOR"]
    assert kubectl.json("get", "pod", "web")["spec"]["containers"][0]["image"] == "nginx:3"


def test_a_directory_is_applied_by_kustomize(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [pod.yaml]\nnamePrefix: my-\nimages: [{name: nginx, newTag: '7'}]\n"
        "configMapGenerator: [{name: settings, literals: [a=b]}]\n"
    )
    output = kubectl("apply", "-k", str(tmp_path))
    assert "pod/my-web created\n" in output
    assert "configmap/my-settings-" in output
    assert kubectl("diff", "-k", str(tmp_path)) == ""
    assert kubectl.json("get", "pod", "my-web")["spec"]["containers"][0]["image"] == "nginx:7"
    kubectl("delete", "-k", str(tmp_path), "--now")


def test_two_managers_that_apply_the_same_field_conflict(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", given=POD)
    changed = POD.replace("nginx:1", "nginx:2")
    refused = kubectl.refused("apply", "--server-side", "--field-manager=two", "-f", "-", given=changed)
    assert 'conflict with "one": .spec.containers[name="nginx"].image' in refused
    kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", given=changed)
    shown = kubectl.json("get", "pod", "web", "--show-managed-fields")
    assert [entry["manager"] for entry in shown["metadata"]["managedFields"]] == ["one", "two"]
    left = POD.replace("    ports: [{containerPort: 80}]\n", "")
    kubectl("apply", "--server-side", "--field-manager=one", "--force-conflicts", "-f", "-", given=left)


def test_custom_kinds_are_explained_listed_and_deleted_with_their_definition(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=CRD)
    kubectl("wait", "crd/things.example.com", "--for=condition=Established", "--timeout=20s")
    thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: 3}\n"
    kubectl("apply", "-f", "-", given=thing)
    assert kubectl("get", "th", "-o", "jsonpath={.items[*].spec.size}") == "3"
    assert "thing.example.com/t\n" in kubectl("get", "all", "-o", "name")
    kubectl("delete", "crd", "things.example.com")
    assert "things" not in kubectl("api-resources", "--api-group=example.com")
    assert "the server doesn't have a resource type" in kubectl.refused("get", "th")
