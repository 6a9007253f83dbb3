"""Access over HTTP: authorization by roles, impersonation, and public endpoints.

Cases of kubernetes v1.36 apiserver pkg/endpoints/filters/{authorization,impersonation}*_test.go.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.http.served import PODS, TOKEN, Served, Tls, posted_pod, run
from tests.support.certificates import Authority, Pair, client_context

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
USERS = {
    TOKEN: User("root", groups=("system:masters",)),
    "jane": User("jane", groups=("dev",)),
    "pod": User("system:serviceaccount:default:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)}),
}
FAR_AHEAD = 32_503_680_000.0  # the year 3000
JANE, POD = ({"Authorization": f"Bearer {token}"} for token in ("jane", "pod"))


def served_by_roles(scenario: Callable[[Served], Awaitable[None]]) -> None:
    async def whole(served: Served) -> None:
        await served.ask("POST", "/api/v1/namespaces", json={"metadata": {"name": "default"}})
        served.api.ensure_roles()
        await scenario(served)

    run(whole, resources=BUILT_IN, users=USERS, role_based=True)


async def give(served: Served, name: str, *rules: dict[str, Any], user: str = "jane") -> None:
    await served.ask("POST", f"{RBAC}/clusterroles", json={"metadata": {"name": name}, "rules": rules})
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": user, "apiGroup": GROUP}]
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    assert (await served.ask("POST", f"{RBAC}/clusterrolebindings", json=body)).status == 201


def rule(verbs: str, resources: str, names: str = "", group: str = "") -> dict[str, Any]:
    given = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**given, "resourceNames": names.split()} if names else given


async def refusal(served: Served, path: str = PODS, *, method: str = "GET", **headers: str) -> str:
    answer = await served.ask(method, path, headers={**JANE, **headers})
    assert answer.status == 403
    return str(answer.json["message"])


def test_request_without_a_matching_role_is_forbidden() -> None:
    async def scenario(served: Served) -> None:
        where = 'in API group "" in the namespace "default"'
        assert await refusal(served) == f'pods is forbidden: User "jane" cannot list resource "pods" {where}'
        assert await refusal(served, f"{PODS}/x?watch=1") == (
            f'pods "x" is forbidden: User "jane" cannot get resource "pods" {where}'
        )
        assert await refusal(served, f"{PODS}?watch=1") == (
            f'pods is forbidden: User "jane" cannot watch resource "pods" {where}'
        )
        assert await refusal(served, "/api/v1/nodes") == (
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope'
        )
        assert await refusal(served, "/metrics") == 'forbidden: User "jane" cannot get path "/metrics"'
        created = await served.ask("POST", PODS, headers=JANE, data=b"no pod")
        assert created.status == 403  # before the body is decoded
        assert (await served.get("/apis", headers=JANE)).status == 200

    served_by_roles(scenario)


def test_new_role_applies_to_the_next_request() -> None:
    async def scenario(served: Served) -> None:
        await give(served, "read", rule("get list watch create", "pods"))
        assert (await served.get(PODS, headers=JANE)).status == 200
        assert (await served.ask("POST", PODS, headers=JANE, json=posted_pod("x"))).status == 201
        await served.ask("DELETE", f"{RBAC}/clusterrolebindings/read")
        assert (await served.get(PODS, headers=JANE)).status == 403

    served_by_roles(scenario)


def anonymous_cannot(what: str) -> str:
    return f'User "system:anonymous" cannot {what}'


def test_request_without_credentials_is_authorized_as_anonymous() -> None:
    async def scenario(served: Served) -> None:
        nobody = {"Authorization": ""}
        for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
            assert (await served.get(path, headers=nobody)).status == 200
        for path in ("/api", "/apis", "/metrics", "/healthz/ping", "/openapi/v2", "/nowhere"):
            answer = await served.get(path, headers=nobody)
            assert answer.status == 403
            assert answer.json["message"] == "forbidden: " + anonymous_cannot(f'get path "{path}"')
        in_default = 'resource "pods" in API group "" in the namespace "default"'
        answer = await served.get(PODS, headers=nobody)
        assert answer.json["message"] == f"pods is forbidden: {anonymous_cannot(f'list {in_default}')}"
        answer = await served.get(PODS, headers={**nobody, "Impersonate-User": "root"})
        assert answer.status == 403
        await served.ask("DELETE", f"{RBAC}/clusterrolebindings/system:public-info-viewer")
        assert (await served.get("/healthz", headers=nobody)).status == 200
        assert (await served.get("/version", headers=nobody)).status == 403
        await give(served, "open", rule("list create", "pods"), user="system:anonymous")
        assert (await served.get(PODS, headers=nobody)).status == 200
        assert (await served.ask("POST", PODS, headers=nobody, json=posted_pod("x"))).status == 201

    served_by_roles(scenario)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("Basic abc", 403), ("Bearer", 403), ("Bearer  jane", 403), ("Bearer wrong", 401), ("Bearer jane", 403)],
)
def test_authorization_header_without_a_bearer_token_is_anonymous(authorization: str, status: int) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.get(PODS, headers={"Authorization": authorization})
        assert answer.status == status
        if authorization != "Bearer jane":
            assert ("anonymous" in answer.json["message"]) == (status == 403)

    served_by_roles(scenario)


def test_anonymous_requests_are_rejected_if_disabled() -> None:
    async def scenario(served: Served) -> None:
        served.api.ensure_roles()
        nobody = {"Authorization": ""}
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await served.get(path, headers=nobody)).status == 200
        for path in (PODS, "/api", "/metrics"):
            answer = await served.get(path, headers=nobody)
            assert (answer.status, answer.json["message"]) == (401, "Unauthorized")

    run(scenario, resources=BUILT_IN, users=USERS, role_based=True, anonymous=False)


def test_body_of_a_forbidden_anonymous_request_is_not_awaited() -> None:
    async def scenario(served: Served) -> None:
        port = int(served.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST {PODS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 403")
        writer.close()

    served_by_roles(scenario)


@pytest.mark.parametrize(
    ("common_name", "authorization", "user"),
    [
        ("joe", "", "joe"),
        ("joe", f"Bearer {TOKEN}", "joe"),
        ("joe", "Bearer wrong", "joe"),
        ("", f"Bearer {TOKEN}", "root"),
        ("", "Bearer wrong", None),
        (None, f"Bearer {TOKEN}", "root"),
    ],
)
def test_client_certificate_comes_before_a_token(
    authority: Authority, common_name: str | None, authorization: str, user: str | None
) -> None:
    """Parametrized with common_name None for a client without a certificate."""
    pair = None if common_name is None else authority.issue(common_name, groups=("ops",))

    async def scenario(served: Served) -> None:
        answer = await served.ask("POST", SELF, headers={"Authorization": authorization}, json={})
        if user is None:
            assert answer.status == 401
            return
        info = answer.json["status"]["userInfo"]
        assert info["username"] == user
        if user == "joe":
            assert pair is not None
            der = ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
            identifier = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
            assert info["extra"] == {"authentication.kubernetes.io/credential-id": [identifier]}
            assert info["groups"] == ["ops", "system:authenticated"]

    served_over_tls(scenario, authority, pair)


def test_expired_certificate_is_refused_and_a_token_is_not(authority: Authority) -> None:
    pair = authority.issue("joe")

    async def scenario(served: Served) -> None:
        assert (await served.ask("POST", SELF, json={})).json["status"]["userInfo"]["username"] == "joe"
        served.clock.time = FAR_AHEAD
        assert (await served.ask("POST", SELF, json={})).json["status"]["userInfo"]["username"] == "root"
        assert (await served.get("/version", headers={"Authorization": ""})).status == 401

    served_over_tls(scenario, authority, pair)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def served_over_tls(scenario: Callable[[Served], Awaitable[None]], authority: Authority, pair: Pair | None) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving = authority.issue("localhost", names=("localhost",))
    server.load_cert_chain(serving.certificate, serving.key)
    server.load_verify_locations(authority.file)
    server.verify_mode = ssl.CERT_OPTIONAL
    client = client_context(trusts=authority.file, pair=pair)
    client.check_hostname = False

    async def whole(served: Served) -> None:
        served.api.ensure_roles()
        await scenario(served)

    run(whole, resources=BUILT_IN, users=USERS, role_based=True, tls=Tls(server, client))


def test_masters_may_impersonate_any_user() -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask("POST", SELF, headers={"Impersonate-User": "system:node:n"}, json={})
        assert answer.json["status"]["userInfo"]["groups"] == ["system:nodes", "system:authenticated"]
        headers = [("Impersonate-User", "joe"), ("Impersonate-Group", "a"), ("Impersonate-Group", "system:masters")]
        headers += [("Impersonate-Uid", "7"), ("Impersonate-Extra-example.com%2fscopes", "x")]
        answer = await served.ask("POST", SELF, headers=headers, json={})
        assert answer.json["status"]["userInfo"] == {
            "username": "joe",
            "uid": "7",
            "groups": ["a", "system:masters", "system:authenticated"],
            "extra": {"example.com/scopes": ["x"]},
        }
        account = {"Impersonate-User": "system:serviceaccount:x:y"}
        answer = await served.ask("POST", SELF, headers=account, json={})
        groups = ["system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"]
        assert answer.json["status"]["userInfo"]["groups"] == groups
        answer = await served.ask("POST", SELF, headers={"Impersonate-User": "system:anonymous"}, json={})
        assert answer.status == 403  # because the node may not create reviews
        assert (await served.get(PODS, headers={"Impersonate-User": "joe"})).json["message"] == (
            'pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "default"'
        )

    served_by_roles(scenario)


def test_impersonation_without_permission_is_forbidden() -> None:
    async def scenario(served: Served) -> None:
        assert await refusal(served, **{"Impersonate-User": "joe"}) == (
            'pods is forbidden: User "jane" cannot impersonate-on:user-info:list resource "pods" in API group "" in '
            'the namespace "default"'
        )
        answer = await served.get(PODS, headers={"Impersonate-Group": "a"})
        assert answer.status == 400
        assert answer.json["message"] == (
            'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)} '
            "without impersonating a user name"
        )

    served_by_roles(scenario)


def test_impersonate_verb_allows_impersonation_of_the_named_user() -> None:
    async def scenario(served: Served) -> None:
        await give(served, "as", rule("impersonate", "users", "joe"), rule("impersonate", "groups", "a"))
        answer = await served.ask("POST", SELF, headers={**JANE, "Impersonate-User": "joe"}, json={})
        assert answer.json["status"]["userInfo"]["username"] == "joe"
        # The mode that was last permitted for the user is tried first.
        assert await refusal(served, **{"Impersonate-User": "jim"}) == (
            'users "jim" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster '
            "scope"
        )
        assert 'groups "b" is forbidden' in await refusal(
            served, **{"Impersonate-User": "joe", "Impersonate-Group": "b"}
        )
        assert 'uids.authentication.k8s.io "7" is forbidden' in await refusal(
            served, **{"Impersonate-User": "joe", "Impersonate-Uid": "7"}
        )
        assert 'userextras.authentication.k8s.io "v" is forbidden' in await refusal(
            served, **{"Impersonate-User": "joe", "Impersonate-Extra-k": "v"}
        )

    served_by_roles(scenario)


def test_constrained_impersonation_is_limited_to_the_permitted_action() -> None:
    async def scenario(served: Served) -> None:
        group = "authentication.k8s.io"
        await give(
            served,
            "one",
            rule("impersonate:user-info", "users", "joe", group),
            rule("impersonate-on:user-info:list", "pods"),
        )
        await give(served, "read", rule("list", "pods nodes"), user="joe")
        as_joe = {**JANE, "Impersonate-User": "joe"}
        assert (await served.get(PODS, headers=as_joe)).status == 200
        assert "impersonate-on:user-info:list" in await refusal(served, "/api/v1/nodes", **{"Impersonate-User": "joe"})

    served_by_roles(scenario)


@pytest.mark.parametrize(("node", "allowed"), [("n1", True), ("n2", False)])
def test_agent_may_impersonate_only_its_node(node: str, allowed: bool) -> None:
    async def scenario(served: Served) -> None:
        group, agent = "authentication.k8s.io", "system:serviceaccount:default:agent"
        await give(
            served,
            "agent",
            rule("impersonate:associated-node", "nodes", "", group),
            rule("impersonate-on:associated-node:create", "selfsubjectreviews", "", group),
            user=agent,
        )
        headers = {**POD, "Impersonate-User": f"system:node:{node}"}
        assert ((await served.ask("POST", SELF, headers=headers, json={})).status == 201) == allowed

    served_by_roles(scenario)


def test_self_subject_rules_review_lists_the_rules_of_the_user() -> None:
    async def scenario(served: Served) -> None:
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        await give(served, "read", rule("list", "pods", "x"))
        answer = await served.ask("POST", path, headers=JANE, json={"spec": {"namespace": "default"}})
        status = answer.json["status"]
        assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]} in (
            status["resourceRules"]
        )
        assert any("/apis" in rules["nonResourceURLs"] for rules in status["nonResourceRules"])
        assert (status["incomplete"], answer.json["spec"]) == (False, {})
        assert (await served.ask("POST", path, headers=JANE, json={})).json["message"] == "no namespace on request"

    served_by_roles(scenario)


LEASES, LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io"
APPLY = "application/apply-patch+yaml"


async def put_lease(served: Served, spec: dict[str, Any]) -> Any:
    body = {"metadata": {"name": "l"}, "spec": spec}
    return await served.ask("PUT", f"{LEASES}/l", headers=JANE, json=body)


async def apply_lease(served: Served, spec: dict[str, Any]) -> Any:
    body = {"apiVersion": f"{LEASE}/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}
    headers = {**JANE, "Content-Type": APPLY}
    return await served.ask("PATCH", f"{LEASES}/l?fieldManager=m", headers=headers, json=body)


@pytest.mark.parametrize(("write", "verb"), [(put_lease, "update"), (apply_lease, "patch")])
def test_update_or_patch_without_create_permission_creates_nothing(write: Any, verb: str) -> None:
    async def scenario(served: Served) -> None:
        await give(served, "write", rule(f"get {verb}", "leases", group=LEASE))
        answer = await write(served, {})
        assert answer.status == 403
        assert answer.json["message"] == (
            f'leases.{LEASE} "l" is forbidden: User "jane" cannot create resource "leases" in API group "{LEASE}" in '
            'the namespace "default"'
        )
        assert (await served.get(f"{LEASES}/l")).status == 404
        invalid = await write(served, {"leaseDurationSeconds": -1})
        assert invalid.status == 422  # takes precedence, as upstream
        await give(served, "create", rule("create", "leases", "l", LEASE))
        assert (await write(served, {})).status == 201

    served_by_roles(scenario)


def test_watch_of_one_object_by_its_path_is_a_get() -> None:
    """It is authorized as a get, so it is served as a get, as upstream."""

    async def scenario(served: Served) -> None:
        await give(served, "get", rule("get", "pods", "x"))
        assert (await served.create("x")).status == 201
        for query in ("watch=1", "watch=true", "watch", "watch=0&watch=1"):
            answer = await served.get(f"{PODS}/x?{query}", headers=JANE)
            assert (answer.status, answer.json["kind"]) == (200, "Pod")

    served_by_roles(scenario)


@pytest.mark.parametrize(
    ("query", "verb"),
    [
        ("watch=1", "watch"),
        ("watch=TRUE", "watch"),
        ("watch=no", "watch"),
        ("watch=", "watch"),
        ("watch", "watch"),
        ("wat%63h=1", "watch"),
        ("watch=1&watch=0", "watch"),
        ("watch=0&watch=1", "list"),
        ("watch=0", "list"),
        ("watch=False", "list"),
        ("Watch=1", "list"),
        ("watch=1;x=2", "list"),
        ("", "list"),
    ],
)
def test_verb_of_a_collection_follows_the_first_watch_parameter(query: str, verb: str) -> None:
    """The expected verbs are those of kube-apiserver for the same queries."""

    async def scenario(served: Served) -> None:
        assert f'cannot {verb} resource "pods"' in await refusal(served, f"{PODS}?{query}")
        await give(served, verb, rule(verb, "pods"))
        async with served.session.get(f"{served.url}{PODS}?{query}", headers=JANE) as response:
            assert response.status == 200
            assert ("Transfer-Encoding" in response.headers) == (verb == "watch")

    served_by_roles(scenario)


def test_escaped_comma_does_not_widen_a_right_to_one_name() -> None:
    async def scenario(served: Served) -> None:
        await give(served, "x", rule("list", "pods", "x"))
        assert (await served.get(f"{PODS}?fieldSelector=metadata.name%3Dx", headers=JANE)).status == 200
        await refusal(served, f"{PODS}?fieldSelector=spec.nodeName!%3Da%5C,metadata.name%3Dx")

    served_by_roles(scenario)


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/", "/openapi/v2/", "/openapi/v3/", "//"])
def test_path_with_a_slash_at_its_end_is_another_path(path: str) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.get(path)).status == 404

    served_by_roles(scenario)


@pytest.mark.parametrize("path", ["/api/", "/apis/", "/apis/apps/", "/api/v1/", "/apis/apps/v1/", "/version/"])
def test_slashes_at_the_end_of_discovery_paths_are_ignored(path: str) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.get(path)).status == 200

    served_by_roles(scenario)


def test_only_a_get_of_a_health_check_needs_no_authorization() -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask("POST", "/healthz", headers={"Authorization": ""}, data=b"x")
        assert answer.status == 403
        assert answer.json["message"] == "forbidden: " + anonymous_cannot('post path "/healthz"')

    served_by_roles(scenario)


def test_target_in_absolute_form_leads_to_its_path() -> None:
    async def scenario(served: Served) -> None:
        port = int(served.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET HTTP://x:1/version?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()

    served_by_roles(scenario)
