"""Plugins with a configuration: resources that are limited by default, and pod security for all namespaces.

tests/e2e/test_admission_configuration_side_by_side.py compares them with kube-apiserver.
"""

from __future__ import annotations

from kcm.protocols.quota.scopes import ScopeRequirement
from kcm.runtime.apiserver.registry.admission_settings import AdmissionSettings, LimitedResource, PodSecuritySettings
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Api

LEVEL = "pod-security.kubernetes.io/"


def create_claim(api: Api, name: str, storage: str) -> str:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    answer = api.create(
        "persistentvolumeclaims", {"metadata": {"name": name}, "spec": {**asked, "storageClassName": storage}}
    )
    return "" if answer.status == 201 else answer.message


def quota(api: Api, **spec: object) -> None:
    """Create a quota whose usage has been counted."""
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
    hard = spec["hard"]
    assert isinstance(hard, dict)
    body = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    assert api.patch("resourcequotas", "q", body, subresource="status").status == 200


def test_resource_limited_by_default_needs_a_quota() -> None:
    name = "gold.storageclass.storage.k8s.io/requests.storage"
    limited = LimitedResource("", "persistentvolumeclaims", (name,))
    api = Api(admission=AdmissionSettings(limited=(limited,)))
    refusal = f'persistentvolumeclaims "a" is forbidden: insufficient quota to consume: {name}'
    assert create_claim(api, "a", "gold") == refusal
    assert create_claim(api, "b", "silver") == ""
    quota(api, hard={"persistentvolumeclaims": "5"})
    assert create_claim(api, "a", "gold") == refusal
    api.delete("resourcequotas", "q")
    quota(api, hard={name: "1Gi"})
    assert create_claim(api, "a", "gold") == ""
    assert "exceeded quota: q" in create_claim(api, "c", "gold")


def test_limited_scope_needs_a_quota_with_that_scope() -> None:
    limited = LimitedResource("", "pods", (), (ScopeRequirement("PriorityClass", "In", ("high",)),))
    api = Api(admission=AdmissionSettings(limited=(limited,)))
    api.create("priorityclasses", {"metadata": {"name": "high"}, "value": 1})
    high = api.pod("high", priorityClassName="high")
    refused = api.create("pods", high)
    assert (refused.status, refused.message) == (
        500,
        "insufficient quota to match these scopes: [{PriorityClass In [high]}]",
    )
    assert api.create("pods", api.pod("low")).status == 201
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    quota(api, hard={"pods": "1"}, scopeSelector=selector)
    assert api.create("pods", high).status == 201


def test_pod_security_defaults_apply_except_to_exemptions() -> None:
    settings = PodSecuritySettings(
        {"enforce": "baseline", "enforce-version": "v1.30"},
        users=frozenset({"free"}),
        namespaces=frozenset({"exempt"}),
        runtime_classes=frozenset({"sandbox"}),
    )
    api = Api(admission=AdmissionSettings(pod_security=settings))
    for name, labels in (("exempt", {f"{LEVEL}enforce": "restricted"}), ("open", {f"{LEVEL}enforce": "privileged"})):
        made = api.create("namespaces", {"metadata": {"name": name, "labels": labels}})
        warned = (
            f'namespace "{name}" is exempt from Pod Security, and the policy (enforce=restricted:v1.30) will be ignored'
        )
        assert made.warnings == ((warned,) if name == "exempt" else ())
    api.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "sandbox"}, "handler": "h"})
    host = api.pod("host", hostNetwork=True)
    refused = api.create("pods", host)
    assert refused.message == (
        'pods "host" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)'
    )
    assert api.create("pods", api.pod("plain")).status == 201
    assert api.create("pods", api.pod("boxed", hostNetwork=True, runtimeClassName="sandbox")).status == 201
    for namespace in ("exempt", "open"):
        assert api.create("pods", host, namespace=namespace).status == 201
    assert api.send("POST", api.path("pods"), host, user=User("free")).status == 201
