"""Audiences of tokens that kubelets request, and pod certificates. contracts/node_restriction.py covers the rest.

Cases of kubernetes v1.36 plugin/pkg/admission/noderestriction/admission_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.admission.node_restriction.nodes import forbidden_labels
from kcm.runtime.apiserver.registry.users import NODES, User
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.conftest import Answer, Api

N1 = User("system:node:n1", groups=(NODES,))
KEY = SigningKey(generate_private_key(SECP256R1()))
STORAGE = "/apis/storage.k8s.io/v1"


@pytest.fixture
def api() -> Api:
    made = Api(accounts=AccountTokens(KEY), role_based=True)
    made.create("serviceaccounts", {"metadata": {"name": "robot"}})
    requests = [{"audience": "disk"}, {"audience": "other-disk"}]
    made.send("POST", f"{STORAGE}/csidrivers", {"metadata": {"name": "d.io"}, "spec": {"tokenRequests": requests}})
    ebs = {"metadata": {"name": "ebs.csi.aws.com"}, "spec": {"tokenRequests": [{"audience": "aws"}]}}
    made.send("POST", f"{STORAGE}/csidrivers", ebs)
    return made


def create_volume(api: Api, name: str, **source: Any) -> None:
    """Create a PersistentVolume, and a claim with its name that is bound to it."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    spec = {"capacity": size, "accessModes": modes, **source}
    api.send("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    claim = {"accessModes": modes, "resources": {"requests": size}, "volumeName": name}
    api.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})


def request_token(api: Api, audience: str, **source: Any) -> Answer:
    """Request a token as the kubelet of a pod with such a volume."""
    spec = {"serviceAccountName": "robot", "nodeName": "n1", "volumes": [{"name": "v", **source}]}
    made = api.create("pods", api.pod(**spec))
    assert made.status == 201, made.obj
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made.meta["uid"]}
    body = {"spec": {"audiences": [audience], "boundObjectRef": bound}}
    return api.send("POST", api.path("serviceaccounts", "robot", "token"), body, user=N1)


PROJECTED = {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}


@pytest.mark.parametrize(
    ("audience", "source"),
    [
        ("vault", PROJECTED),
        ("other-disk", {"csi": {"driver": "d.io"}}),
        ("disk", {"persistentVolumeClaim": {"claimName": "new"}}),
        ("aws", {"persistentVolumeClaim": {"claimName": "old"}}),
        ("aws", {"awsElasticBlockStore": {"volumeID": "x"}}),
    ],
)
def test_audience_in_a_volume_of_the_pod_is_allowed(api: Api, audience: str, source: dict[str, Any]) -> None:
    create_volume(api, "new", csi={"driver": "d.io", "volumeHandle": "h"})
    create_volume(api, "old", awsElasticBlockStore={"volumeID": "x"})
    assert request_token(api, audience, **source).status == 201


def test_audience_in_no_volume_is_denied(api: Api) -> None:
    answer = request_token(api, "disk", **PROJECTED)
    assert answer.status == 403
    assert answer.message == (
        'serviceaccounts "robot" is forbidden: audience "disk" not found in pod spec volume, system:node:n1 is not '
        "authorized to request tokens for this audience"
    )


def test_audience_permitted_by_a_role_is_allowed(api: Api) -> None:
    rbac, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    rule = {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["disk"]}
    api.send("POST", f"{rbac}/clusterroles", {"metadata": {"name": "disk"}, "rules": [rule]})
    ref = {"apiGroup": group, "kind": "ClusterRole", "name": "disk"}
    subjects = [{"kind": "Group", "name": NODES, "apiGroup": group}]
    api.send(
        "POST",
        f"{rbac}/clusterrolebindings",
        {"metadata": {"name": "disk"}, "roleRef": ref, "subjects": subjects},
    )
    assert request_token(api, "disk", **PROJECTED).status == 201


def test_volume_with_missing_references_permits_no_audience(api: Api) -> None:
    answer = request_token(api, "disk", persistentVolumeClaim={"claimName": "none"})
    assert answer.message == (
        'serviceaccounts "robot" is forbidden: error validating audience "disk": persistentvolumeclaim "none" not found'
    )


@pytest.mark.parametrize(
    ("label", "forbidden"),
    [
        ("mine", False),
        ("example.com/a", False),
        ("kubernetes.io/os", False),
        ("x.node.kubernetes.io/a", False),
        ("kubelet.kubernetes.io/a", False),
        ("kubernetes.io/a", True),
        ("x.k8s.io/a", True),
        ("node-restriction.kubernetes.io/a", True),
        ("x.node-restriction.kubernetes.io/a", True),
    ],
)
def test_node_labels_are_restricted(label: str, forbidden: bool) -> None:
    assert forbidden_labels({label: "1"}, {}) == ([label] if forbidden else [])
    assert forbidden_labels({}, {label: "1"}) == ([label] if forbidden else [])
    assert forbidden_labels({label: "1"}, {label: "1"}) == []
