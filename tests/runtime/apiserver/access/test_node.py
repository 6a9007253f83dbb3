"""Authorization of kubelets.

Cases of kubernetes v1.36 plugin/pkg/auth/authorizer/node/node_authorizer_test.go (TestNodeAuthorizer), with the feature
gates as they are by default, and PodCertificateRequest.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ALLOWED, User
from tests.runtime.apiserver.conftest import Api

NODE0 = User("system:node:node0", groups=("system:nodes", "system:authenticated"))
NOWHERE = User("system:node:nowhere", groups=("system:nodes",))
UNRELATED = "no relationship found between node 'node0' and this object"
OWN = "spec.nodeName=node0"


def pod(name: str, node: str, **more: Any) -> Object:
    spec = {
        "nodeName": node,
        "serviceAccountName": f"sa-{name}",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "envFrom": [{"secretRef": {"name": "shared"}}, {"configMapRef": {"name": f"env-{name}"}}],
            }
        ],
        "volumes": [
            {"name": "s", "secret": {"secretName": f"secret-{name}"}},
            {"name": "c", "configMap": {"name": f"config-{name}"}},
            {"name": "p", "persistentVolumeClaim": {"claimName": f"claim-{name}"}},
            {"name": "e", "ephemeral": {}},
        ],
        "resourceClaims": [{"name": "r", "resourceClaimName": f"device-{name}"}, {"name": "t"}],
    }
    status = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": f"made-{name}"}]}
    return {"metadata": {"name": name, "namespace": "ns0", **more}, "spec": spec, "status": status}


def volume(name: str, claim: str) -> Object:
    driver = {
        "driver": "d",
        "volumeHandle": "h",
        "nodePublishSecretRef": {"name": f"secret-{name}", "namespace": "ns0"},
    }
    driver["controllerExpandSecretRef"] = {"name": f"hidden-{name}", "namespace": "ns0"}
    return {"metadata": {"name": name}, "spec": {"claimRef": {"namespace": "ns0", "name": claim}, "csi": driver}}


class Rig:
    """A node authorizer and its state. Objects are stored without validation."""

    def __init__(self) -> None:
        self.api = Api(role_based=True)
        self.put("pods", pod("p0", "node0"))
        self.put("pods", pod("p1", "node1"))
        self.put("pods", pod("mirror", "node0", annotations={"kubernetes.io/config.mirror": "x"}))
        self.put("persistentvolumes", volume("pv0", "claim-p0"))
        self.put("persistentvolumes", volume("pv1", "claim-p1"))
        for number in range(2):
            spec = {"nodeName": f"node{number}"}
            self.put("volumeattachments.storage.k8s.io", {"metadata": {"name": f"va{number}"}, "spec": spec})
            self.put("resourceslices.resource.k8s.io", {"metadata": {"name": f"slice{number}"}, "spec": spec})
            meta = {"name": f"pcr{number}", "namespace": "ns0"}
            self.put("podcertificaterequests.certificates.k8s.io", {"metadata": meta, "spec": spec})

    def put(self, storage: str, obj: Object) -> None:
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        self.transact(lambda state: state.put(storage, key, obj))

    def remove(self, storage: str, key: str) -> None:
        self.transact(lambda state: state.remove(storage, key, {"metadata": {"uid": "u"}}))

    def transact(self, act: Any) -> None:
        server: Any = self.api.server
        server._transact(lambda: act(server._state))

    def decide(self, text: str, *, user: User = NODE0, selector: str = "") -> str:
        """Return the reason for denying a request, "" if it is allowed.

        text: "verb resource[/subresource][.group] [namespace/]name".
        """
        verb, what, *where = text.split()
        namespace, _, name = (where[0] if where else "").rpartition("/")
        whole, _, group = what.partition(".")
        resource, _, subresource = whole.partition("/")
        asked = RequestInfo(verb, group, "v1", resource, subresource, namespace, name, field_selector=selector)
        decision = self.api.server.decide(user, asked)
        return "" if decision == ALLOWED else decision.reason or "no"


@pytest.fixture(scope="module")
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(
    "text",
    [
        "get configmaps ns0/config-p0",
        "watch configmaps ns0/env-p0",
        "get secrets ns0/secret-p0",
        "list secrets ns0/secret-p0",
        "watch secrets ns0/shared",
        "get secrets ns0/secret-pv0",
        "get persistentvolumeclaims ns0/claim-p0",
        "get persistentvolumeclaims ns0/p0-e",
        "patch persistentvolumeclaims/status ns0/claim-p0",
        "get persistentvolumes pv0",
        "get volumeattachments.storage.k8s.io va0",
        "get resourceclaims.resource.k8s.io ns0/device-p0",
        "get resourceclaims.resource.k8s.io ns0/made-p0",
        "get serviceaccounts ns0/sa-p0",
        "create serviceaccounts/token ns0/sa-p0",
        "get leases.coordination.k8s.io kube-node-lease/node0",
        "create leases.coordination.k8s.io kube-node-lease/",
        "patch csinodes.storage.k8s.io node0",
        "create csinodes.storage.k8s.io",
        "get resourceslices.resource.k8s.io slice0",
        "create resourceslices.resource.k8s.io",
        "get nodes node0",
        "watch nodes node0",
        "create nodes",
        "patch nodes/status node1",  # NodeRestriction limits the fields
        "get pods ns0/p0",
        "list pods ns0/p0",
        "delete pods ns0/p1",
        "update pods/status ns0/p1",
        "create pods/eviction ns0/p1",
        "get podcertificaterequests.certificates.k8s.io ns0/pcr0",
        "create podcertificaterequests.certificates.k8s.io ns0/",
        "list services",
        "create events ns0/",
        "create tokenreviews.authentication.k8s.io",
        "list csidrivers.storage.k8s.io",
    ],
)
def test_node_is_allowed_what_its_pods_need(rig: Rig, text: str) -> None:
    assert rig.decide(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("list secrets ns0/", "No Object name found"),
        ("list secrets shared", "can only read namespaced object of this type"),
        ("update secrets ns0/shared", "can only read resources of this type"),
        ("get secrets ns0/secret-p1", UNRELATED),
        ("get secrets ns0/secret-mirror", UNRELATED),
        ("get secrets ns0/secret-pv1", UNRELATED),
        ("get secrets ns0/hidden-pv0", UNRELATED),
        ("get secrets ns1/secret-p0", UNRELATED),
        ("get configmaps ns0/config-p1", UNRELATED),
        ("get persistentvolumeclaims ns0/claim-p1", UNRELATED),
        ("list persistentvolumeclaims ns0/claim-p0", "can only get individual resources of this type"),
        ("get persistentvolumeclaims/status ns0/claim-p0", "can only get/update/patch this type"),
        ("get persistentvolumes pv1", UNRELATED),
        ("get volumeattachments.storage.k8s.io va1", UNRELATED),
        ("get resourceclaims.resource.k8s.io ns0/device-p1", UNRELATED),
        ("get serviceaccounts ns0/sa-p1", UNRELATED),
        ("create serviceaccounts/token ns0/sa-p1", UNRELATED),
        ("create serviceaccounts ns0/sa-p0", "can only create token subresource of serviceaccount"),
        ("update serviceaccounts ns0/sa-p0", "can only create tokens for individual service accounts"),
        (
            "get leases.coordination.k8s.io foo/node0",
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            "get leases.coordination.k8s.io kube-node-lease/node1",
            "can only access node lease with the same name as the requesting node",
        ),
        ("list leases.coordination.k8s.io", "can only get, create, update, patch, or delete a node lease"),
        ("get csinodes.storage.k8s.io node1", "can only access CSINode with the same name as the requesting node"),
        ("list csinodes.storage.k8s.io", "can only get, create, update, patch, or delete a CSINode"),
        ("get resourceslices.resource.k8s.io slice1", UNRELATED),
        (
            "list resourceslices.resource.k8s.io",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("list nodes", "node 'node0' cannot read all nodes, only its own Node object"),
        ("get nodes node1", "node 'node0' cannot read 'node1', only its own Node object"),
        ("delete nodes node0", "no"),
        ("get pods ns0/p1", UNRELATED),
        ("list pods", "can only list/watch pods with spec.nodeName field selector"),
        ("update pods ns0/p0", "no"),
        ("get podcertificaterequests.certificates.k8s.io ns0/pcr1", UNRELATED),
        (
            "list podcertificaterequests.certificates.k8s.io",
            "can only list/watch podcertificaterequests with nodeName field selector",
        ),
        ("delete podcertificaterequests.certificates.k8s.io ns0/pcr0", "nodes may not delete podcertificaterequests"),
        ("list namespaces", "no"),
    ],
)
def test_node_is_denied_other_requests(rig: Rig, text: str, reason: str) -> None:
    assert rig.decide(text) == reason


@pytest.mark.parametrize(
    "text",
    [
        "list pods",
        "watch pods ns0/",
        "deletecollection resourceslices.resource.k8s.io",
        "watch podcertificaterequests.certificates.k8s.io",
    ],
)
def test_node_may_access_collections_selected_for_it(rig: Rig, text: str) -> None:
    assert rig.decide(text, selector=f"status.phase!=Failed,{OWN}") == ""
    assert rig.decide(text, selector="spec.nodeName=node1") != ""


def test_node_needs_the_user_name_and_the_group(rig: Rig) -> None:
    assert rig.decide("get nodes node0", user=User("system:node:node0")) == "no"
    assert rig.decide("get nodes node0", user=User("node0", groups=("system:nodes",))) == "no"
    assert rig.decide("list services", user=User("system:node:", groups=("system:nodes",))) == (
        'unknown node for user "system:node:"'
    )
    assert "no relationship" in rig.decide("get secrets ns0/shared", user=NOWHERE)


def test_decisions_follow_the_pods_on_the_node() -> None:
    rig = Rig()
    assert rig.decide("get secrets ns0/secret-new") == UNRELATED
    rig.put("pods", pod("new", "node0"))
    assert rig.decide("get secrets ns0/secret-new") == ""
    rig.remove("pods", "ns0/p0")
    assert rig.decide("get secrets ns0/secret-p0") == UNRELATED
    assert rig.decide("get secrets ns0/secret-pv0") == UNRELATED
    assert rig.decide("get secrets ns0/shared") == ""  # through the new pod
    rig.put("persistentvolumes", volume("pv0", "claim-new"))
    assert rig.decide("get secrets ns0/secret-pv0") == ""
    rig.remove("persistentvolumes", "pv0")
    assert rig.decide("get secrets ns0/secret-pv0") == UNRELATED
    rig.remove("pods", "ns0/new")
    assert rig.decide("get secrets ns0/shared") == UNRELATED


def test_rules_review_of_a_node_is_incomplete(rig: Rig) -> None:
    server: Any = rig.api.server
    found = server._cluster.resolver.rules_for(NODE0, "ns0")
    assert (found.incomplete, found.error) == (True, "node authorizer does not support user rule resolution")
