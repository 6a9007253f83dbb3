"""Access control of the embedded API server and of kube-apiserver: the same requests must have the same responses and
the same lines in the audit log. The administrator sends all of them and impersonates other users.
"""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.manifests import pod
from tests.e2e.programs import until
from tests.e2e.real_server import assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(200)]

GATES = "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true"
SERVED = "--runtime-config=certificates.k8s.io/v1beta1=true"
RBAC, CORE = "/apis/rbac.authorization.k8s.io/v1", "/api/v1"
GROUP = "rbac.authorization.k8s.io"
NAMESPACE = f"{CORE}/namespaces/side"
POD = pod("p", serviceAccountName="a", serviceAccount="a", automountServiceAccountToken=False)
ROLES, BINDINGS = f"{RBAC}/namespaces/side/roles", f"{RBAC}/namespaces/side/rolebindings"
AUTHORIZATION, AUTHENTICATION = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "RequestResponse",
            "users": ["admin", "kubernetes-admin"],
            "resources": [{"resources": ["configmaps"]}],
        },
        {"level": "Metadata", "users": ["admin", "kubernetes-admin"]},
        {"level": "None"},
    ],
}


class Step(NamedTuple):
    method: str
    path: str
    body: Any = None
    user: str = "jane"  # "": the administrator
    groups: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    type: str = "application/json"


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    found = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**found, "resourceNames": names.split()} if names else found


def binding(name: str, to: str, kind: str, *users: str) -> dict[str, Any]:
    subjects = [{"kind": "User", "name": user, "apiGroup": GROUP} for user in users]
    return {"metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to}, "subjects": subjects}


MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/side/leases"


def lease(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": spec}


def owned(name: str, *, block: bool, kind: str = "Secret") -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": "s", "uid": "u", "blockOwnerDeletion": block}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}}


ADMISSION = "admissionregistration.k8s.io"
JUDGING, JUDGED = (f"/apis/{ADMISSION}/v1/validatingadmissionpolic{end}" for end in ("ies", "ybindings"))
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
POLICIES = "validatingadmissionpolicies validatingadmissionpolicybindings"


def judging(name: str, version: str, kind: str) -> dict[str, Any]:
    rules = [{"apiGroups": ["a.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}
    return {"metadata": {"name": name}, "spec": {**spec, "paramKind": {"apiVersion": version, "kind": kind}}}


def paramkind(kind: str) -> dict[str, Any]:
    return {"spec": {"paramKind": {"apiVersion": "v1", "kind": kind}}}


def bound(called: str, policy: str, /, **reference: Any) -> dict[str, Any]:
    param = {"namespace": "side", "parameterNotFoundAction": "Deny", **reference}
    spec = {"policyName": policy, "validationActions": ["Deny"], "paramRef": param}
    return {"metadata": {"name": called}, "spec": spec}


def paramref(name: str) -> dict[str, Any]:
    return {"spec": {"paramRef": {"name": name}}}


_CLAIM = "/apis/resource.k8s.io/v1/namespaces/side/resourceclaim"
CLAIMS, TEMPLATES = f"{_CLAIM}s", f"{_CLAIM}templates"
SAYING = rule("associated-node:patch", "resourceclaims/driver", "resource.k8s.io", "d.example.com")
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
DRIVER, ON_NODE = (
    "system:serviceaccount:side:driver",
    (("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", "n1"),),
)
_TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
_DEVICE = {"driver": "d.example.com", "pool": "p", "device": "x"}
ALLOCATED = {
    "allocation": {
        "devices": {"results": [{"request": "r", **_DEVICE}]},
        "nodeSelector": {"nodeSelectorTerms": [_TERM]},
    }
}
_READY = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
DEVICE = {**_DEVICE, "data": {"a": "b"}, "conditions": [_READY]}
USED = {"resource": "pods", "name": "p", "uid": "u"}


def devices(name: str, *, admin: bool = False) -> dict[str, Any]:
    exactly = {"deviceClassName": "c.example.com", "allocationMode": "All", **({"adminAccess": True} if admin else {})}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def template(name: str, claim: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"spec": claim["spec"]}}


STEPS = [
    Step("POST", f"{CORE}/namespaces", {"metadata": {"name": "side"}}, user=""),
    Step("GET", f"{NAMESPACE}/pods"),
    Step("GET", f"{NAMESPACE}/pods?watch=1"),
    Step("GET", f"{NAMESPACE}/pods/x"),
    Step("GET", f"{NAMESPACE}/pods/x/log"),
    Step("GET", f"{CORE}/nodes?fieldSelector=metadata.name%3Dn"),
    Step("DELETE", f"{NAMESPACE}/configmaps"),
    Step("POST", f"{NAMESPACE}/configmaps", "no object"),
    Step("PATCH", "/apis/apps/v1/namespaces/side/deployments/d/scale", {}, type=MERGE),
    Step("GET", "/metrics"),
    Step("GET", NAMESPACE),
    Step("GET", f"{CORE}/namespaces"),
    Step("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, groups=("dev",)),
    Step("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, user="system:serviceaccount:side:sa"),
    Step(
        "POST",
        f"{AUTHENTICATION}/selfsubjectreviews",
        {},
        more=(("Impersonate-Uid", "7"), ("Impersonate-Extra-a.io%2fb", "c")),
    ),
    Step("GET", f"{NAMESPACE}/pods", user="", groups=("dev",)),
    Step("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "side"}}),
    Step("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}),
    Step("POST", ROLES, role("read", rule("get list", "pods configmaps")), user=""),
    Step("POST", BINDINGS, binding("read", "read", "Role", "jane"), user=""),
    Step("GET", f"{NAMESPACE}/pods/x"),
    Step("GET", f"{NAMESPACE}/secrets/x"),
    Step(
        "POST",
        f"{AUTHORIZATION}/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "side"}}},
    ),
    Step(
        "POST",
        f"{AUTHORIZATION}/subjectaccessreviews",
        {"spec": {"user": "jane", "resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "side"}}},
        user="",
    ),
    # Impersonation, by one who is impersonated herself only as far as the headers go: as the administrator.
    Step("POST", BINDINGS, binding("lost", "none", "Role", "jane"), user=""),
    Step("GET", f"{NAMESPACE}/secrets/x"),
    # Escalation.
    Step(
        "POST", f"{RBAC}/clusterroles", role("side-rbac", rule("*", "roles rolebindings clusterroles", GROUP)), user=""
    ),
    Step("POST", BINDINGS, binding("rbac", "side-rbac", "ClusterRole", "jim"), user=""),
    Step(
        "POST",
        f"{RBAC}/clusterroles",
        role("side-create", rule("create update patch", "roles rolebindings", GROUP)),
        user="",
    ),
    Step("POST", BINDINGS, binding("creates", "side-create", "ClusterRole", "jane"), user=""),
    Step("POST", ROLES, role("r", rule("get list", "pods"))),
    Step(
        "POST",
        ROLES,
        role("r2", rule("get delete", "pods secrets"), rule("get", "configmaps", names="a b")),
        groups=("dev",),
    ),
    Step("PATCH", f"{ROLES}/r", role("r", rule("delete", "pods")), type=MERGE),
    Step("PATCH", f"{ROLES}/r", {"metadata": {"finalizers": ["a.io/b"]}}, type=MERGE),
    Step("PATCH", f"{ROLES}/r", {"metadata": {"finalizers": None}}, type=MERGE, user=""),
    Step("POST", BINDINGS, binding("b", "read", "Role", "joe")),
    Step("POST", BINDINGS, binding("b2", "cluster-admin", "ClusterRole", "joe")),
    Step("POST", BINDINGS, binding("b3", "missing", "Role", "joe")),
    Step("POST", ROLES, role("r3", rule("get delete", "pods secrets")), user="jim"),
    Step("POST", BINDINGS, binding("b4", "cluster-admin", "ClusterRole", "joe"), user="jim"),
    Step("PATCH", f"{BINDINGS}/b", {"roleRef": {"name": "other"}}, type=MERGE, user=""),
    Step("POST", ROLES, role("escalates", rule("escalate", "roles", GROUP, "r9")), user=""),
    Step("POST", BINDINGS, binding("escalates", "escalates", "Role", "jane"), user=""),
    Step("POST", ROLES, role("r9", rule("delete", "secrets"))),
    Step("PUT", f"{ROLES}/r8", role("r8", rule("delete", "secrets"))),
    Step("PUT", f"{ROLES}/r9", role("r9", rule("delete", "secrets"))),
    Step("PATCH", f"{ROLES}/r9", role("r9", rule("delete", "pods")), type=MERGE),
    # A creation by another verb.
    Step("POST", ROLES, role("writes", rule("update patch", "leases", "coordination.k8s.io")), user=""),
    Step("POST", BINDINGS, binding("writes", "writes", "Role", "jane"), user=""),
    Step("PUT", f"{LEASES}/l", lease()),
    Step("PUT", f"{LEASES}/l", lease(leaseDurationSeconds=-1)),
    Step("PATCH", f"{LEASES}/l?fieldManager=m", lease(), type=APPLY),
    Step("PATCH", f"{LEASES}/l?fieldManager=m", lease(leaseDurationSeconds=-1), type=APPLY),
    Step("POST", ROLES, role("creates", rule("create", "leases", "coordination.k8s.io", "l")), user=""),
    Step("POST", BINDINGS, binding("creates-leases", "creates", "Role", "jane"), user=""),
    Step("PATCH", f"{LEASES}/l?fieldManager=m", lease(), type=APPLY),
    Step("DELETE", f"{LEASES}/l", user=""),
    Step("PUT", f"{LEASES}/l", lease()),
    # Owners.
    Step("POST", ROLES, role("owns", rule("create update patch", "configmaps")), user=""),
    Step("POST", BINDINGS, binding("owns", "owns", "Role", "jane"), user=""),
    Step("POST", f"{NAMESPACE}/configmaps", owned("o", block=False)),
    Step("POST", f"{NAMESPACE}/configmaps", owned("p", block=True)),
    Step("POST", f"{NAMESPACE}/configmaps", owned("p", block=True, kind="Nothing")),
    Step("POST", f"{NAMESPACE}/configmaps", owned("p", block=True, kind="Node")),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", {"data": {"a": "b"}}, type=MERGE),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", owned("o", block=True), type=MERGE),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", {"metadata": {"ownerReferences": None}}, type=MERGE),
    Step("POST", ROLES, role("deletes", rule("delete", "configmaps")), user=""),
    Step("POST", BINDINGS, binding("deletes", "deletes", "Role", "jane"), user=""),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", owned("o", block=True), type=MERGE),
    Step("POST", ROLES, role("finalizes", rule("update", "secrets/finalizers", names="s")), user=""),
    Step("POST", BINDINGS, binding("finalizes", "finalizes", "Role", "jane"), user=""),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", owned("o", block=True), type=MERGE),
    Step("PATCH", f"{NAMESPACE}/configmaps/o", {"metadata": {"ownerReferences": None}}, type=MERGE),
    Step("DELETE", f"{NAMESPACE}/configmaps/o"),
    # Parameters of policies.
    Step("POST", CLUSTER_ROLES, role("side-policies", rule("create update patch", POLICIES, ADMISSION)), user=""),
    Step("POST", CLUSTER_BINDINGS, binding("side-policies", "side-policies", "ClusterRole", "jane"), user=""),
    Step("POST", JUDGING, judging("side-p", "v1", "Secret")),
    Step("POST", JUDGING, judging("side-p", "example.com/v1", "Nothing")),
    Step("POST", JUDGING, judging("side-p", "v1", "Secret"), user=""),
    Step("PATCH", f"{JUDGING}/side-p", {"metadata": {"labels": {"a": "b"}}}, type=MERGE),
    Step("PATCH", f"{JUDGING}/side-p", paramkind("ConfigMap"), type=MERGE),
    Step("POST", JUDGED, bound("side-b", "side-p", name="s")),
    Step("POST", JUDGED, bound("side-b", "side-p", selector={})),
    Step("POST", JUDGED, bound("side-b", "side-none", name="s")),
    Step("PUT", f"{JUDGED}/side-b", bound("side-b", "side-none", name="s")),
    Step("POST", CLUSTER_ROLES, role("side-secrets", rule("get", "secrets")), user=""),
    Step("POST", CLUSTER_BINDINGS, binding("side-secrets", "side-secrets", "ClusterRole", "jane"), user=""),
    Step("POST", JUDGING, judging("side-q", "v1", "Secret")),
    Step("POST", JUDGED, bound("side-b", "side-p", name="s")),
    Step("POST", JUDGED, bound("side-c", "side-p", selector={})),
    Step("PATCH", f"{JUDGED}/side-b", paramref("other"), type=MERGE),
    Step("DELETE", f"{JUDGING}/side-p", user=""),
    Step("DELETE", f"{JUDGING}/side-q", user=""),
    Step("DELETE", f"{JUDGED}/side-b", user=""),
    # Pods, to which no policy applies here.
    Step("POST", f"{NAMESPACE}/pods", POD, user=""),
    Step("PATCH", f"{NAMESPACE}/pods/p", {"metadata": {"labels": {"a": "b"}}}, type=MERGE, user=""),
    # Devices.
    Step("POST", CLAIMS, devices("admin", admin=True), user=""),
    Step("POST", TEMPLATES, template("t", devices("t", admin=True)), user=""),
    Step("PATCH", NAMESPACE, {"metadata": {"labels": {ADMIN_LABEL: "true"}}}, type=MERGE, user=""),
    Step("POST", CLAIMS, devices("admin", admin=True), user=""),
    Step("POST", CLAIMS, devices("plain"), user=""),
    Step("POST", ROLES, role("claims", rule("update patch", "resourceclaims/status", "resource.k8s.io")), user=""),
    Step("POST", BINDINGS, binding("claims", "claims", "Role", "jane"), user=""),
    Step("POST", BINDINGS, binding("claims-2", "claims", "Role", DRIVER), user=""),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": ALLOCATED}, type=MERGE),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": ALLOCATED}, type=MERGE, user=""),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": {"devices": [DEVICE]}}, type=MERGE),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": {"devices": [DEVICE]}}, type=MERGE, user=DRIVER, more=ON_NODE),
    Step("POST", ROLES, role("says", SAYING), user=""),
    Step("POST", BINDINGS, binding("says", "says", "Role", "jane", DRIVER), user=""),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": {"devices": [DEVICE]}}, type=MERGE),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": {"devices": [DEVICE]}}, type=MERGE, user=DRIVER, more=ON_NODE),
    Step("PATCH", f"{CLAIMS}/plain/status", {"status": {"reservedFor": [USED]}}, type=MERGE, user=DRIVER),
    # What is noted.
    Step(
        "POST",
        f"{NAMESPACE}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}},
        user="",
    ),
    Step("PATCH", f"{NAMESPACE}/configmaps/m", {"data": {"a": "c"}}, type=MERGE, user=""),
    Step("GET", f"{NAMESPACE}/configmaps/m", user=""),
    Step("GET", f"{NAMESPACE}/configmaps/none", user=""),
    Step("DELETE", f"{NAMESPACE}/configmaps/m", user=""),
    Step("GET", "/healthz", user=""),
]


OWNERS = "OwnerReferencesPermissionEnforcement"


class Side:
    def __init__(self, kubeconfig: Path, audit: Path) -> None:
        self.api, self.audit = Api(kubeconfig), audit

    def send(self, step: Step) -> tuple[int, Any]:
        server = urlsplit(self.api.url)
        connection = http.client.HTTPSConnection(server.hostname or "", server.port, context=self.api.tls, timeout=30)
        body = None if step.body is None else json.dumps(step.body)
        connection.putrequest(step.method, step.path)
        headers = [("Authorization", f"Bearer {self.api.token}"), ("Content-Type", step.type), ("User-Agent", "side")]
        headers += [("Accept", "application/json"), ("Content-Length", str(len(body or "")))]
        headers += [("Impersonate-User", step.user)] if step.user else []
        headers += [("Impersonate-Group", group) for group in step.groups]
        for name, value in (*headers, *step.more):
            connection.putheader(name, value)
        connection.endheaders((body or "").encode())
        with closing(connection), connection.getresponse() as response:
            raw = response.read()
        try:
            return response.status, json.loads(raw)
        except ValueError:
            return response.status, raw.decode()

    def noted(self, count: int) -> list[dict[str, Any]]:
        def events() -> list[dict[str, Any]]:
            lines = self.audit.read_text().splitlines() if self.audit.exists() else []
            found = [event for line in lines if (event := json.loads(line)).get("userAgent") == "side"]
            return [event for event in found if "openshift" not in event["requestURI"]]

        until(lambda: len(events()) >= count, "all is noted", why=lambda: f"{len(events())} of {count}")
        return events()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Return the embedded server and the real one."""
    assets = assets_or_skip()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policy = directory / "policy.yaml"
        policy.write_text(json.dumps(POLICY))
        logs = [directory / "ours.log", directory / "theirs.log"]
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={logs[1]}", GATES, SERVED)
        flags += (f"--enable-admission-plugins={OWNERS}",)
        real = stack.enter_context(real_server(tmp_path_factory.mktemp("real"), assets, *flags))
        ours = launch(
            ServerSettings(
                directory=tmp_path_factory.mktemp("ours") / "kcm",
                in_memory=True,
                audit_policy_file=str(policy),
                audit_log_path=str(logs[0]),
                runtime_config=("certificates.k8s.io/v1beta1",),
                enable_plugins=(OWNERS,),
                collect_garbage=False,
            )
        )
        stack.callback(ours.stop)
        both = Side(ours.kubeconfig, logs[0]), Side(real.kubeconfig, logs[1])
        for side in both:  # of the fork that the real one was built from
            side.send(Step("DELETE", f"{RBAC}/clusterrolebindings/system:openshift:public-info-viewer", user=""))
        yield both


OF_ONE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "auditID", "stageTimestamp")


def comparable(answer: Any) -> Any:
    """Return the answer without what each server generates."""
    if isinstance(answer, list):
        return [comparable(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: comparable(value) for name, value in answer.items() if name not in OF_ONE_SERVER}


def rules_in_any_order(answer: Any) -> Any:
    status = answer.get("status") if isinstance(answer, dict) else None
    if isinstance(status, dict):
        for field in ("resourceRules", "nonResourceRules"):
            if field in status:
                status[field] = sorted(status[field], key=json.dumps)
    return answer


def test_the_answers_and_what_is_noted_are_the_same(sides: tuple[Side, Side]) -> None:
    ours, theirs = sides
    for step in STEPS:
        mine, real = (rules_in_any_order(comparable(side.send(step)[1])) for side in sides)
        assert mine == real, f"{step.method} {step.path} as {step.user or 'the administrator'}"
    noted = [
        [
            {
                name: value
                for name, value in comparable(event).items()
                if name not in ("user", "requestReceivedTimestamp")
            }
            for event in side.noted(2 * len(STEPS))
        ]
        for side in (ours, theirs)
    ]
    wrong = [(mine, real) for mine, real in zip(*noted, strict=True) if mine != real]
    assert wrong == []


def test_bootstrap_roles_are_those_of_the_real_server(sides: tuple[Side, Side]) -> None:
    """Roles of the fork that the real server was built from, and those of hollow nodes, are left out."""
    found = []
    for side in sides:
        objects = {}
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
            for policy in side.send(Step("GET", f"{RBAC}/{plural}", user=""))[1]["items"]:
                meta = policy["metadata"]
                if (meta.get("labels") or {}).get("kubernetes.io/bootstrapping") and "openshift" not in meta["name"]:
                    shown = {name: value for name, value in policy.items() if name not in ("kind", "apiVersion")}
                    objects[plural, meta.get("namespace", ""), meta["name"]] = comparable(shown)
        found.append(objects)
    assert found[0] == found[1]
    assert len(found[0]) > 130


IN_DEFAULT = "/api/v1/namespaces/default"
TARGETS = (
    *(f"{IN_DEFAULT}/secrets?{query}timeoutSeconds=1" for query in ("", "watch=1&", "watch=true&", "watch=TRUE&")),
    *(f"{IN_DEFAULT}/secrets?{query}timeoutSeconds=1" for query in ("watch=0&", "watch=False&", "watch=f&", "watch=&")),
    *(f"{IN_DEFAULT}/secrets?{query}timeoutSeconds=1" for query in ("watch&", "watch=0&watch=1&", "watch=1&watch=0&")),
    *(
        f"{IN_DEFAULT}/secrets?{query}timeoutSeconds=1"
        for query in ("Watch=1&", "watch=1;x=2&", "wat%63h=1&", "watch=%zz&")
    ),
    f"{IN_DEFAULT}/secrets?watch=1&limit=abc",
    f"{IN_DEFAULT}/secrets?limit=1&limit=abc",
    *(
        f"{IN_DEFAULT}/secrets/here?{query}"
        for query in ("watch=1", "watch=true", "watch=0", "fieldSelector=metadata.name=y")
    ),
    *(
        f"{IN_DEFAULT}/secrets?fieldSelector={selector}"
        for selector in ("metadata.name=x", "metadata.name==x", "metadata.name!=x")
    ),
    f"{IN_DEFAULT}/secrets?fieldSelector=metadata.name=y,metadata.name=x",
    f"{IN_DEFAULT}/secrets?fieldSelector=metadata.name=y&fieldSelector=metadata.name=x",
    f"{IN_DEFAULT}/secrets?fieldSelector=metadata.name=a%5C,b",
    f"{IN_DEFAULT}/secrets?fieldSelector=type!=a%5C%5C,metadata.name=x",
    *(
        f"{IN_DEFAULT}/secrets/{name}"
        for name in ("", "..", ".", "%2e%2e", "a%2Fb", "a%2525b", "%2Fx", "x%2F", "here/")
    ),
    *(f"{IN_DEFAULT}/secrets/here/{name}" for name in ("status", "status/more")),
    f"{IN_DEFAULT}/pods/x/status/more",
    f"{IN_DEFAULT}%2Fsecrets/here",
    "/api/v1/namespaces%2Fdefault/secrets",
    "/api/v1/secrets/here",
    "/api/v1/namespaces/status/pods",
    "/api/v1/namespaces/default/namespaces",
    "/metrics/nosuch",
    "/healthz/",
    "/healthz//",
    "//healthz",
    "/openapi/v2/",
    "/api/",
    "/apis/",
    "/api/v1/",
    "/version/",
    "//",
    f"{IN_DEFAULT}/secrets//",
    f"{IN_DEFAULT}/secrets/here//",
    f"{IN_DEFAULT}//secrets",
    f"{IN_DEFAULT}//",
    "/api/v1//",
    "/api//v1/pods",
    "/apis//v1/pods",
    "/apis/apps/v1//",
    "//api/v1/pods",
    "/api/v1/proxy/pods/x",
    "http://other/api/v1/namespaces/default/secrets",
    "http://other/healthz",
)


@pytest.mark.parametrize("user", ["jane", ""])
def test_targets_are_authorized_and_served_alike(
    sides: tuple[Side, Side], user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http.client.HTTPConnection, "_validate_path", lambda *_: None)
    secret = {"metadata": {"name": "here"}}
    for side in sides:
        side.send(Step("POST", f"{IN_DEFAULT}/secrets", secret, user=""))
    for target in TARGETS:
        ours, theirs = (_outline(side.send(Step("GET", target, user=user))) for side in sides)
        assert ours == theirs, target


def _outline(answer: tuple[int, Any]) -> tuple[int, Any]:
    """Return the status with the kind of the object, or with the error message except for 404, whose texts differ."""
    status, body = answer
    if status == 404 or not isinstance(body, dict):
        return status, "" if status != 200 else str(body)[:12]
    return status, body.get("message") if status >= 400 else body.get("kind")
