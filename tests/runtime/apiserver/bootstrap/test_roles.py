"""Bootstrap roles exist, and are restored after changes.

Cases of kubernetes v1.36 component-helpers auth/rbac/reconciliation/*_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.bootstrap.hollow_nodes import FORMER, hollow_nodes_policy
from kcm.runtime.apiserver.bootstrap.policy import bootstrap_policy, condensed
from kcm.runtime.apiserver.bootstrap.roles import reconciled
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"


@pytest.fixture
def api() -> Api:
    api = Api(role_based=True)
    api.server.ensure_roles()
    return api


def test_bootstrap_roles_are_those_of_upstream(api: Api) -> None:
    found = []
    for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
        answer = api.send("GET", f"{RBAC}/{plural}").obj
        found += [{"kind": answer["kind"].removesuffix("List"), **item} for item in answer["items"]]
    assert condensed(found) == condensed(bootstrap_policy())
    assert len(found) == len([*bootstrap_policy(), *hollow_nodes_policy()]) > 130


def test_a_second_start_changes_nothing(api: Api) -> None:
    before = api.server.revision
    api.server.ensure_roles()
    assert api.server.revision == before


def test_former_binding_of_hollow_nodes_is_removed(api: Api) -> None:
    """Hollow nodes are separate users now. Data of an earlier version contains the binding."""
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"}
    api.send("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": FORMER}, "roleRef": ref})
    api.server.ensure_roles()
    assert api.send("GET", f"{RBAC}/clusterrolebindings/{FORMER}").status == 404


def test_removed_rules_are_restored_and_added_rules_are_kept(api: Api) -> None:
    own = {"verbs": ["get"], "apiGroups": ["own"], "resources": ["x"]}
    path = f"{RBAC}/clusterroles/system:kube-scheduler"
    before = api.send("GET", path).obj["rules"]
    api.send("PATCH", path, {"metadata": {"labels": None}, "rules": [own]}, type_=MERGE)
    api.send("DELETE", f"{RBAC}/clusterroles/cluster-admin")
    binding = f"{RBAC}/clusterrolebindings/system:kube-scheduler"
    api.send("PATCH", binding, {"subjects": [{"kind": "User", "name": "own"}]}, type_=MERGE)
    api.server.ensure_roles()
    after = api.send("GET", path).obj
    assert after["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert after["rules"][0] == own
    assert len(after["rules"]) > len(before)  # one verb and resource per rule, as upstream adds missing permissions
    assert api.send("GET", f"{RBAC}/clusterroles/cluster-admin").status == 200
    assert [subject["name"] for subject in api.send("GET", binding).obj["subjects"]] == ["own", "system:kube-scheduler"]


def test_role_without_autoupdate_is_not_reconciled(api: Api) -> None:
    path = f"{RBAC}/clusterroles/system:kube-scheduler"
    left = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
    api.send("PATCH", path, left, type_=MERGE)
    api.server.ensure_roles()
    assert api.send("GET", path).obj["rules"] == []


def rule(*resources: str) -> Object:
    return {"verbs": ["get"], "apiGroups": [""], "resources": list(resources)}


def selectors(*labels: str) -> Object:
    return {"clusterRoleSelectors": [{"matchLabels": {label: "true"}} for label in labels]}


def obj(*, labels: Any = None, annotations: Any = None, **fields: Any) -> Object:
    return {"metadata": {"name": "x", "labels": labels or {}, "annotations": annotations or {}}, **fields}


@pytest.mark.parametrize(
    ("stored", "wanted", "settled"),
    [
        (obj(rules=[rule("pods")]), obj(rules=[rule("pods")]), obj(rules=[rule("pods")])),
        (obj(rules=[rule("pods")]), obj(rules=[rule("nodes")]), obj(rules=[rule("pods"), rule("nodes")])),
        (obj(rules=[rule("pods", "nodes")]), obj(rules=[rule("nodes")]), obj(rules=[rule("pods", "nodes")])),
        (obj(labels={"a": "1"}), obj(labels={"a": "2", "b": "2"}), obj(labels={"a": "1", "b": "2"})),
        (obj(annotations={"a": "1"}), obj(annotations={"b": "2"}), obj(annotations={"b": "2", "a": "1"})),
        (obj(aggregationRule=selectors("a")), obj(rules=[]), obj()),
        (
            obj(rules=[rule("pods")]),
            obj(aggregationRule=selectors("a")),
            obj(rules=[rule("pods")], aggregationRule=selectors("a")),
        ),
        (
            obj(aggregationRule=selectors("a")),
            obj(aggregationRule=selectors("b")),
            obj(aggregationRule=selectors("a", "b")),
        ),
    ],
)
def test_stored_role_is_reconciled_with_the_wanted_one(stored: Object, wanted: Object, settled: Object) -> None:
    assert reconciled(stored, wanted) == settled


def test_bootstrap_roles_permit_what_upstreams_users_need(api: Api) -> None:
    def may(user: str, method: str, path: str, *groups: str) -> bool:
        who = User(user, groups=(*groups, "system:authenticated"))
        return api.server.decide(who, RequestInfo.of(method, path, {})).allowed

    assert may("system:kube-scheduler", "POST", "/api/v1/namespaces/x/pods/y/binding")
    assert not may("system:kube-scheduler", "POST", "/api/v1/namespaces/x/pods")
    assert may("system:kube-controller-manager", "GET", "/apis/apps/v1/deployments")
    assert not may("system:kube-controller-manager", "POST", "/apis/apps/v1/namespaces/x/replicasets")
    account = "system:serviceaccount:kube-system:deployment-controller"
    assert may(account, "POST", "/apis/apps/v1/namespaces/x/replicasets")
    assert may("jane", "GET", "/apis")
    assert may("jane", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert not may("jane", "GET", "/api/v1/namespaces")
