"""Warnings, annotations and order of admission policies; the contract tests cover the rest."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.admission.policies import configured
from kcm.runtime.apiserver.registry.users import ADMIN
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.conftest import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def add_policy(api: Api, kind: str, name: str, spec: dict[str, Any], **bound: Any) -> None:
    whole = {"matchConstraints": {"resourceRules": [CONFIG_MAPS]}, **spec}
    made = api.send("POST", f"{GROUP}/{kind}admissionpolicies", {"metadata": {"name": name}, "spec": whole})
    assert made.status == 201, made.obj
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, **bound}}
    made = api.send("POST", f"{GROUP}/{kind}admissionpolicybindings", binding)
    assert made.status == 201, made.obj


def mutation(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


@pytest.mark.parametrize("actions", [["Warn"], ["Warn", "Audit"]])
def test_policy_may_warn_instead_of_denying(api: Api, actions: list[str]) -> None:
    validations = [{"expression": "object.metadata.name != 'a'", "message": "not a"}]
    add_policy(api, "validating", "named", {"validations": validations}, validationActions=actions)
    path, body = api.path("configmaps"), orjson.dumps({"metadata": {"name": "a"}})
    response = api.server.handle(Request(method="POST", path=path, body=body), user=ADMIN)
    assert response.status == 201
    assert response.warnings == ("Validation failed for ValidatingAdmissionPolicy 'named' with binding 'named': not a",)


def test_mutating_policies_run_before_validating_ones(api: Api) -> None:
    patch = mutation("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'added': 'yes'}}]")
    add_policy(api, "mutating", "label", {"mutations": [patch], "reinvocationPolicy": "Never"})
    validations = [{"expression": "object.metadata.?labels.?added.orValue('') == 'yes'"}]
    add_policy(api, "validating", "labelled", {"validations": validations}, validationActions=["Deny"])
    made = api.create("configmaps", {"metadata": {"name": "a"}})
    assert (made.status, made.meta["labels"]) == (201, {"added": "yes"})


def test_policy_with_reinvocation_runs_again_after_other_changes(api: Api) -> None:
    copy = mutation(
        "has(object.data) ? "
        "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': object.data.late}}] : []"
    )
    late = mutation("[JSONPatch{op: 'add', path: '/data', value: {'late': 'x'}}]")
    add_policy(api, "mutating", "a-copy", {"mutations": [copy], "reinvocationPolicy": "IfNeeded"})
    add_policy(api, "mutating", "b-late", {"mutations": [late], "reinvocationPolicy": "Never"})
    assert api.create("configmaps", {"metadata": {"name": "a"}}).meta["annotations"] == {"seen": "x"}


def test_policy_without_binding_has_no_effect(api: Api) -> None:
    spec = {"matchConstraints": {"resourceRules": [CONFIG_MAPS]}, "validations": [{"expression": "false"}]}
    body = {"metadata": {"name": "no"}, "spec": spec}
    assert api.send("POST", f"{GROUP}/validatingadmissionpolicies", body).status == 201
    assert api.create("configmaps", {"metadata": {"name": "a"}}).status == 201


def test_policies_do_not_apply_to_policies(api: Api) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    spec = {"matchConstraints": {"resourceRules": [everything]}, "validations": [{"expression": "false"}]}
    add_policy(api, "validating", "no", spec, validationActions=["Deny"])
    assert api.create("configmaps", {"metadata": {"name": "a"}}).status == 422
    assert api.send("DELETE", f"{GROUP}/validatingadmissionpolicies/no").status == 200
    assert api.create("configmaps", {"metadata": {"name": "a"}}).status == 201


def test_a_webhook_whose_conditions_are_false_is_not_called(api: Api) -> None:
    webhook = {
        "name": "w.example.com",
        "clientConfig": {"url": "https://example.com/"},
        "rules": [CONFIG_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'a' && object.data.x == 'y'"}],
    }
    body = {"metadata": {"name": "w"}, "webhooks": [webhook]}
    assert api.send("POST", f"{GROUP}/validatingwebhookconfigurations", body).status == 201
    assert api.create("configmaps", {"metadata": {"name": "a"}}).status == 201
    refused = api.create("configmaps", {"metadata": {"name": "b"}})
    assert refused.status == 403
    assert refused.message == (
        "configmaps \"b\" is forbidden: expression 'object.metadata.name != 'a' && object.data.x == 'y'' resulted in "
        "error: no such key: data"
    )


def test_cache_of_compiled_policies_is_limited_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured, "MOST_KEPT", 3_000)
    monkeypatch.setattr(configured, "_kept", {})
    raws = [orjson.dumps({"metadata": {"name": f"p{number}", "x": "x" * 1_000}, "spec": {}}) for number in range(10)]
    first = configured._policy(raws[0])
    assert configured._policy(raws[0]) is first
    for raw in raws:
        configured._policy(raw)
    assert 0 < sum(map(len, configured._kept)) <= 3_000 + len(raws[0])
    assert configured._policy(raws[0]) is not first
