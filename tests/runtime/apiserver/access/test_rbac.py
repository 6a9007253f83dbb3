"""Authorization by roles and bindings, and the effect of changes to them.

Cases of kubernetes v1.36 plugin/pkg/auth/authorizer/rbac/rbac_test.go (TestAuthorizer),
pkg/registry/rbac/validation/rule_test.go (TestDefaultRuleResolver, TestAppliesTo).
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kcm.runtime.apiserver.access import rbac
from kcm.runtime.apiserver.access.role_index import RoleIndex
from kcm.runtime.apiserver.registry.policy_rules import Rule
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import Decision, User
from kcm.runtime.simulation.disk import SimulatedDisk
from tests.runtime.apiserver.conftest import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
ADMIN_RULE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


@pytest.fixture
def api() -> Api:
    api = Api(role_based=True)
    for namespace in ("ns1", "ns2"):
        api.create("namespaces", {"metadata": {"name": namespace}})
    return api


def role(api: Api, name: str, *rules: dict[str, Any], namespace: str = "") -> None:
    path = f"{RBAC}/namespaces/{namespace}/roles" if namespace else f"{RBAC}/clusterroles"
    assert api.send("POST", path, {"metadata": {"name": name}, "rules": rules}).status == 201


def bind(api: Api, name: str, *subjects: str, namespace: str = "", kind: str = "ClusterRole") -> None:
    """Create a binding to the role with the same name.

    subjects: "User:jane", "ServiceAccount:namespace:name".
    """
    path = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    ref = {"apiGroup": GROUP, "kind": kind, "name": name}
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject(text) for text in subjects]}
    assert api.send("POST", path, body).status == 201


def subject(text: str) -> dict[str, str]:
    kind, *names = text.split(":", 1 if not text.startswith("ServiceAccount") else 2)
    if kind == "ServiceAccount":
        return {"kind": kind, "namespace": names[0], "name": names[1]}
    return {"kind": kind, "name": names[0], "apiGroup": GROUP}


def may(api: Api, user: str, verb: str, what: str, namespace: str = "", groups: str = "", name: str = "") -> bool:
    """Report whether a user is allowed a request.

    what: "resource", "resource/subresource", "resource.group" or a path.
    """
    who = User(user, groups=tuple(groups.split(",")) if groups else ())
    if what.startswith("/"):
        return api.server.decide(who, RequestInfo(verb, path=what, is_resource_request=False)).allowed
    whole, _, group = what.partition(".")
    resource, _, subresource = whole.partition("/")
    return api.server.decide(who, RequestInfo(verb, group, "v1", resource, subresource, namespace, name)).allowed


def test_cluster_role_bound_in_a_namespace_applies_there_only(api: Api) -> None:
    role(api, "admin", ADMIN_RULE)
    bind(api, "admin", "User:admin", "Group:admins", namespace="ns1")
    assert may(api, "admin", "get", "pods", "ns1")
    assert may(api, "admin", "watch", "foobars.group1", "ns1")
    assert may(api, "joe", "watch", "foobars.group1", "ns1", groups="group1,admins")
    assert not may(api, "joe", "get", "pods", "ns1", groups="group1")
    for namespace, groups in (("ns2", ""), ("", ""), ("ns2", "admins")):
        assert not may(api, "admin", "get", "pods", namespace, groups)


def test_rules_for_paths_apply_to_paths(api: Api) -> None:
    for name, verb, url in (("getter", "get", "/apis"), ("all", "*", "/apis"), ("prefix", "get", "/apis/*")):
        role(api, name, {"verbs": [verb], "nonResourceURLs": [url]})
        bind(api, name, f"User:{name}", f"Group:{name}s")
    for who in ({"user": "getter"}, {"user": "", "groups": "getters"}, {"user": "all"}, {"user": "", "groups": "alls"}):
        assert may(api, verb="get", what="/apis", **who)
        assert not may(api, verb="get", what="/api/v1", **who)
    assert may(api, "all", "watch", "/apis")
    assert not may(api, "getter", "watch", "/apis")
    assert may(api, "prefix", "get", "/apis/v1/foobar")
    assert not may(api, "prefix", "get", "/api/v1")


@pytest.mark.parametrize(
    ("subjects", "user", "groups", "index"),
    [
        (["User:foobar"], "foobar", (), 0),
        (["User:barfoo", "User:foobar"], "foobar", (), 1),
        (["User:barfoo", "User:foobar"], "zimzam", (), None),
        (["User:barfoo", "Group:foobar"], "zimzam", ("foobar",), 1),
        (
            ["User:barfoo", "Group:foobar", "ServiceAccount:kube-system:default"],
            "system:serviceaccount:kube-system:default",
            (),
            2,
        ),
        (["User:*"], "foobar", (), None),
        (["Group:system:authenticated"], "foobar", ("system:authenticated",), 0),
        (["Group:a", "Group:system:unauthenticated"], "system:anonymous", ("system:unauthenticated",), 1),
    ],
)
def test_binding_applies_to_its_subjects(
    api: Api, subjects: list[str], user: str, groups: tuple[str, ...], index: int | None
) -> None:
    role(api, "r", ADMIN_RULE)
    bind(api, "r", *subjects)
    decision = api.server.decide(User(user, groups=groups), RequestInfo("get", "", "v1", "pods"))
    if index is None:
        assert decision == Decision(allowed=False)
        return
    kind, *name = subjects[index].split(":", 1)
    called = "default/kube-system" if kind == "ServiceAccount" else name[0]
    shown = f'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to {kind} "{called}"'
    assert decision == Decision(allowed=True, reason=shown)


def test_account_subject_without_namespace_is_in_the_namespace_of_the_binding(api: Api) -> None:
    role(api, "r", ADMIN_RULE, namespace="ns1")
    path = f"{RBAC}/namespaces/ns1/rolebindings"
    ref = {"apiGroup": GROUP, "kind": "Role", "name": "r"}
    body = {
        "metadata": {"name": "r"},
        "roleRef": ref,
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns1"}],
    }
    assert api.send("POST", path, body).status == 201
    assert may(api, "system:serviceaccount:ns1:sa", "get", "pods", "ns1")
    assert not may(api, "system:serviceaccount:ns2:sa", "get", "pods", "ns1")
    decision = api.server.decide(User("system:serviceaccount:ns1:sa"), RequestInfo("get", "", "v1", "pods", "", "ns1"))
    assert decision.reason == 'RBAC: allowed by RoleBinding "r/ns1" of Role "r" to ServiceAccount "sa/ns1"'


def test_rules_for_objects_by_name(api: Api) -> None:
    role(api, "r", {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]})
    bind(api, "r", "User:jane")
    assert [may(api, "jane", "get", "secrets", "ns1", name=name) for name in ("a", "c", "b", "")] == [
        True,
        False,
        True,
        False,
    ]
    assert not may(api, "jane", "list", "secrets", "ns1", name="a")


def test_decisions_follow_roles_and_bindings(api: Api) -> None:
    def may_get() -> bool:
        return may(api, "jane", "get", "pods", "ns1")

    assert not may_get()
    bind(api, "r", "User:jane")
    missing = api.server.decide(User("jane"), RequestInfo("get", "", "v1", "pods"))
    assert missing == Decision(allowed=False, reason=f'RBAC: clusterrole.{GROUP} "r" not found')
    role(api, "r", {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]})
    assert not may_get()
    merge = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
    api.send("PATCH", f"{RBAC}/clusterroles/r", merge, type_="application/merge-patch+json")
    assert may_get()
    api.send("PATCH", f"{RBAC}/clusterrolebindings/r", {"subjects": []}, type_="application/merge-patch+json")
    assert not may_get()
    api.send("DELETE", f"{RBAC}/clusterrolebindings/r")
    bind(api, "r", "User:jane")
    assert may_get()
    api.send("DELETE", f"{RBAC}/clusterroles/r")
    assert not may_get()


def test_roles_of_an_earlier_run_apply_at_the_start() -> None:
    disk = SimulatedDisk()
    before = Api(store=disk, role_based=True)
    role(before, "r", ADMIN_RULE)
    bind(before, "r", "User:jane")
    assert may(Api(store=disk, role_based=True), "jane", "get", "pods")


def test_members_of_system_masters_may_do_everything(api: Api) -> None:
    assert may(api, "anyone", "escalate", "clusterroles.rbac", groups="system:masters")
    assert may(api, "anyone", "get", "/metrics", groups="system:masters")
    assert not may(api, "system:admin", "get", "/metrics")


def test_rules_of_a_user_are_listed(api: Api) -> None:
    pods, nodes = ({"verbs": ["get"], "apiGroups": [""], "resources": [resource]} for resource in ("pods", "nodes"))
    role(api, "read", pods, namespace="ns1")
    bind(api, "read", "User:foobar", "Group:group1", namespace="ns1", kind="Role")
    role(api, "all", nodes)
    bind(api, "all", "Group:admin")
    resolver = api.server._cluster.resolver
    read, rest = Rule(("get",), ("",), ("pods",)), Rule(("get",), ("",), ("nodes",))
    assert list(resolver.rules_for(User("foobar"), "ns1").rules) == [read]
    assert list(resolver.rules_for(User("foobar"), "ns2").rules) == []
    assert list(resolver.rules_for(User("foobar", groups=("admin",)), "").rules) == [rest]
    assert list(resolver.rules_for(User("foobar", groups=("admin",)), "ns1").rules) == [rest, read]
    assert resolver.role_rules("Role", "read", "ns1") == (read,)
    assert resolver.role_rules("Role", "read", "ns2") is None


def test_decisions_on_long_names_are_not_cached(api: Api) -> None:
    """A review may contain any user and any resource."""
    role(api, "reader", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})
    bind(api, "reader", "User:jane")
    assert may(api, "jane", "get", "pods")
    tracemalloc.start()
    for number in range(100):
        long = f"{number}{'x' * 20_000}"
        assert not may(api, long, "get", "pods")
        assert not may(api, "jane", "get", long)
        assert may(api, "jane", "get", "pods", namespace=long)
        assert not may(api, "jane", "get", f"/{long}")
    del long
    assert tracemalloc.get_traced_memory()[0] < 200_000
    tracemalloc.stop()


def test_number_of_cached_decisions_is_limited_for_all_users_together(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rbac, "MOST_KEPT", 50)
    found = rbac.Rbac(RoleIndex(api.server._state))
    for number in range(60):
        for name in ("jane", "joe", "jim"):
            found.authorize(User(f"{name}{number % 7}"), RequestInfo("get", "", "v1", f"r{number}"))
            assert sum(len(of_user.kept) for of_user in found._kept.values()) <= 50


def test_decision_is_shared_by_namespaces_without_bindings_for_the_user(api: Api) -> None:
    role(api, "reader", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})
    role(api, "writer", {"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]})
    bind(api, "reader", "User:jane")
    bind(api, "writer", "Group:writers", namespace="ns1")
    index = RoleIndex(api.server._state)
    found, jane = rbac.Rbac(index), User("jane", groups=("writers",))

    def allowed(verb: str, namespace: str) -> bool:
        return found.authorize(jane, RequestInfo(verb, "", "v1", "pods", "", namespace)).allowed

    for namespace in ("", "ns1", "ns2", *(f"other-{number}" for number in range(100))):
        assert allowed("get", namespace)
        assert allowed("create", namespace) is (namespace == "ns1")
    (of_jane,) = found._kept.values()
    assert len(of_jane.kept) == 4, "two verbs: in ns1, and elsewhere"
    bind(api, "writer", "User:jane", namespace="ns2")
    index.note("rolebindings.rbac.authorization.k8s.io", "ns2/writer")
    assert [allowed("create", namespace) for namespace in ("ns1", "ns2", "other-1")] == [True, True, False]
    assert api.send("DELETE", f"{RBAC}/namespaces/ns1/rolebindings/writer").status == 200
    index.note("rolebindings.rbac.authorization.k8s.io", "ns1/writer")
    assert [allowed("create", namespace) for namespace in ("ns1", "ns2", "other-1")] == [False, True, False]
