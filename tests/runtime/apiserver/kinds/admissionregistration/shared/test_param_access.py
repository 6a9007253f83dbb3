"""Authorization of writes of admission policies and bindings with parameters.

Cases of kubernetes v1.36 pkg/registry/admissionregistration/*/authz_test.go. tests/e2e/test_access_side_by_side.py
compares the results with kube-apiserver.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Answer, Api

GROUP, RBAC = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
REGISTERED = "/apis/admissionregistration.k8s.io/v1"
JANE = User("jane", "7", ("dev", "ops"), {"a": ("b", "c")})
SHOWN = "&{jane 7 [dev ops] map[a:[b c]]}"
RULES = [{"apiGroups": ["a.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]
DOES: dict[str, dict[str, Any]] = {
    "validating": {"validations": [{"expression": "true"}]},
    "mutating": {
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}],
    },
}


@pytest.fixture
def api() -> Api:
    return Api(role_based=True)


def policy(api: Api, which: str, name: str = "p", *, by: User = JANE) -> Answer:
    kind = {"apiVersion": "v1", "kind": "Secret"}
    spec = {"matchConstraints": {"resourceRules": RULES}, "paramKind": kind, **DOES[which]}
    body = {"metadata": {"name": name}, "spec": spec}
    return api.send("POST", f"{REGISTERED}/{which}admissionpolicies", body, user=by)


def binding(api: Api, which: str, name: str, /, to: str = "p", **reference: Any) -> Answer:
    param = {"namespace": "default", "parameterNotFoundAction": "Deny", **reference}
    spec: dict[str, Any] = {"policyName": to, "paramRef": param}
    if which == "validating":
        spec["validationActions"] = ["Deny"]
    body = {"metadata": {"name": name}, "spec": spec}
    return api.send("POST", f"{REGISTERED}/{which}admissionpolicybindings", body, user=JANE)


def give(api: Api, verb: str) -> None:
    rule = {"verbs": [verb], "apiGroups": [""], "resources": ["secrets"]}
    api.send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": verb}, "rules": [rule]})
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": verb}
    subjects = [{"kind": "User", "name": "jane", "apiGroup": GROUP}]
    body = {"metadata": {"name": verb}, "roleRef": ref, "subjects": subjects}
    assert api.send("POST", f"{RBAC}/clusterrolebindings", body).status == 201


@pytest.mark.parametrize("which", DOES)
def test_param_kind_needs_read_permission_of_the_author(api: Api, which: str) -> None:
    assert policy(api, which).causes == {
        "spec.paramKind": f'Forbidden: user {SHOWN} must have "get" permission on all objects of the referenced '
        "paramKind (kind=Secret, apiVersion=v1)"
    }
    give(api, "get")
    assert policy(api, which).status == 201


@pytest.mark.parametrize(
    ("which", "first", "second"), [("validating", SHOWN, "VERB"), ("mutating", "VERB", SHOWN)], ids=["", "swapped"]
)
def test_param_reference_needs_read_permission_of_the_author(api: Api, which: str, first: str, second: str) -> None:
    assert policy(api, which, by=User("root", groups=("system:masters",))).status == 201
    text = f'Forbidden: user {first} does not have "{second}" permission on the object referenced by paramRef'
    assert binding(api, which, "b", name="s").causes == {"spec.paramRef": text.replace("VERB", "get")}
    assert binding(api, which, "b", selector={}).causes == {"spec.paramRef": text.replace("VERB", "list")}
    assert (
        binding(api, which, "b", "none", name="s")
        .causes["spec.paramRef"]
        .endswith(f'and user {SHOWN} does not have "get" permission for all groups, versions and resources')
    )
    give(api, "get")
    assert binding(api, which, "b", name="s").status == 201
    assert binding(api, which, "c", selector={}).status == 422


def test_unchanged_param_kind_needs_no_permission(api: Api) -> None:
    assert policy(api, "validating", by=User("root", groups=("system:masters",))).status == 201
    path = f"{REGISTERED}/validatingadmissionpolicies/p"
    merge = "application/merge-patch+json"
    assert api.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, type_=merge, user=JANE).status == 200
    other = {"spec": {"paramKind": {"kind": "ConfigMap"}}}
    assert api.send("PATCH", path, other, type_=merge, user=JANE).status == 422
