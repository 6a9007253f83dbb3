"""Prevention of privilege escalation through roles and bindings.

Cases of kubernetes v1.36 pkg/registry/rbac/{role,clusterrole}/policybased/storage_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Answer, Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
JANE = User("jane", groups=("dev", "system:authenticated"))
MERGE = "application/merge-patch+json"
READ = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
WRITE = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}
EVERYTHING = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


@pytest.fixture
def api() -> Api:
    """Return a server on which Jane may read pods in the namespace default."""
    api = Api(role_based=True)
    api.create("namespaces", {"metadata": {"name": "default"}})
    give(api, "read", READ)
    return api


def give(api: Api, name: str, *rules: dict[str, Any], everywhere: bool = False) -> None:
    assert api.send("POST", CLUSTER_ROLES, role(name, *rules)).status == 201
    path = CLUSTER_BINDINGS if everywhere else BINDINGS
    assert api.send("POST", path, binding(name, name, "User:jane")).status == 201


def role(name: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


def binding(name: str, to: str, *subjects: str, kind: str = "ClusterRole") -> dict[str, Any]:
    bound = [dict(zip(("kind", "name"), subject.split(":"), strict=True), apiGroup=GROUP) for subject in subjects]
    ref = {"apiGroup": GROUP, "kind": kind, "name": to}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": bound}


def refused(answer: Answer, missing: str, what: str = 'roles.rbac.authorization.k8s.io "r"') -> bool:
    who = (
        'user "jane" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held'
    )
    return (answer.status, answer.message) == (403, f"{what} is forbidden: {who}:\n{missing}")


def test_role_with_held_permissions_is_accepted(api: Api) -> None:
    assert api.send("POST", ROLES, role("r", READ), user=JANE).status == 201


def test_role_with_missing_permissions_is_forbidden(api: Api) -> None:
    more = {"verbs": ["get", "delete", "create"], "apiGroups": [""], "resources": ["pods", "secrets"]}
    missing = (
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete" "create"]}'
    )
    assert refused(api.send("POST", ROLES, role("r", more), user=JANE), missing)
    assert refused(
        api.send("POST", CLUSTER_ROLES, role("r", READ), user=JANE),
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        f'clusterroles.{GROUP} "r"',
    )


def test_update_of_a_role_needs_its_permissions(api: Api) -> None:
    api.send("POST", ROLES, role("r", READ, WRITE))
    lack = '{APIGroups:[""], Resources:["pods"], Verbs:["create"]}'
    assert refused(api.send("PATCH", f"{ROLES}/r", {"metadata": {"labels": {"a": "b"}}}, type_=MERGE, user=JANE), lack)
    assert refused(api.send("PUT", f"{ROLES}/r", role("r", WRITE), user=JANE), lack)
    assert api.send("PUT", f"{ROLES}/r", role("r", READ), user=JANE).status == 200
    assert refused(api.send("PUT", f"{ROLES}/new", role("new", WRITE), user=JANE), lack, f'roles.{GROUP} "new"')


def test_change_of_finalizers_needs_no_permissions(api: Api) -> None:
    api.send("POST", ROLES, role("r", WRITE))
    assert api.send("PATCH", f"{ROLES}/r", {"metadata": {"finalizers": ["a/b"]}}, type_=MERGE, user=JANE).status == 200
    body = {"metadata": {"finalizers": []}, "rules": [WRITE, WRITE]}
    assert api.send("PATCH", f"{ROLES}/r", body, type_=MERGE, user=JANE).status == 403


def test_escalate_permits_granting_more_permissions(api: Api) -> None:
    give(api, "esc", {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"]})
    assert api.send("POST", ROLES, role("r", WRITE), user=JANE).status == 201
    assert api.send("POST", CLUSTER_ROLES, role("r", WRITE), user=JANE).status == 403


def test_aggregated_role_needs_all_permissions(api: Api) -> None:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    aggregating = role("agg", aggregationRule=selectors)
    assert api.send("POST", CLUSTER_ROLES, aggregating, user=JANE).message == (
        f'clusterroles.{GROUP} "agg" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    )
    api.send("POST", CLUSTER_ROLES, aggregating)
    assert api.send("PUT", f"{CLUSTER_ROLES}/agg", role("agg"), user=JANE).status == 403
    give(api, "all", *EVERYTHING, everywhere=True)
    assert api.send("PUT", f"{CLUSTER_ROLES}/agg", role("agg"), user=JANE).status == 200


def test_binding_to_held_permissions_is_accepted(api: Api) -> None:
    assert api.send("POST", BINDINGS, binding("b", "read", "User:joe"), user=JANE).status == 201
    assert refused(
        api.send("POST", CLUSTER_BINDINGS, binding("b", "read", "User:joe"), user=JANE),
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        f'clusterrolebindings.{GROUP} "b"',
    )


def test_binding_to_missing_permissions_is_forbidden(api: Api) -> None:
    api.send("POST", ROLES, role("write", WRITE))
    wanted = binding("b", "write", "User:joe", kind="Role")
    lack = '{APIGroups:[""], Resources:["pods"], Verbs:["create"]}'
    assert refused(api.send("POST", BINDINGS, wanted, user=JANE), lack, f'rolebindings.{GROUP} "b"')
    api.send("POST", BINDINGS, wanted)
    change = {"subjects": []}
    assert api.send("PATCH", f"{BINDINGS}/b", change, type_=MERGE, user=JANE).status == 403
    give(api, "binder", {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["write"]})
    assert api.send("PATCH", f"{BINDINGS}/b", change, type_=MERGE, user=JANE).status == 200


def test_binding_to_a_missing_role_is_not_found(api: Api) -> None:
    missing = api.send("POST", BINDINGS, binding("b", "none", "User:joe"), user=JANE)
    assert (missing.status, missing.message) == (404, f'rolebindings.{GROUP} "none" not found')
    assert api.send("POST", BINDINGS, binding("b", "none", "User:joe")).status == 201


def test_error_names_own_bindings_to_missing_roles(api: Api) -> None:
    api.send("POST", BINDINGS, binding("lost", "none", "User:jane"))
    answer = api.send("POST", ROLES, role("r", WRITE), user=JANE)
    assert answer.message.endswith(f'; resolution errors: [roles.{GROUP} "none" not found]')


def test_always_allow_server_does_not_check_escalation(make_api: type[Api]) -> None:
    api = make_api()
    api.create("namespaces", {"metadata": {"name": "default"}})
    assert api.send("POST", ROLES, role("r", WRITE), user=JANE).status == 201
    assert api.send("POST", BINDINGS, binding("b", "none", "User:joe"), user=JANE).status == 201
