"""Audit levels and stages by policy rule.

Cases of kubernetes v1.36 apiserver pkg/audit/policy/checker_test.go, pkg/apis/audit/validation/validation_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.access.audit_policy import AuditPolicy, Extent, PolicyError
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import User

TIM = User("tim@k8s.io", groups=("humans", "developers"))
PODS = RequestInfo.of("GET", "/api/v1/namespaces/default/pods/busybox", {})
# Rules of upstream's test; the default of "level" is Metadata.
RULES: dict[str, dict[str, Any]] = {
    "default": {},
    "create": {"verbs": ["create"]},
    "tims": {"users": ["tim@k8s.io"]},
    "humans": {"userGroups": ["humans"]},
    "serviceAccounts": {"userGroups": ["system:serviceaccounts"]},
    "getPods": {"verbs": ["get"], "resources": [{"resources": ["pods"]}]},
    "getPodLogs": {"verbs": ["get"], "resources": [{"resources": ["pods/log"]}]},
    "getPodWildcardMatching": {"verbs": ["get"], "resources": [{"resources": ["*"]}]},
    "getPodResourceWildcardMatching": {"verbs": ["get"], "resources": [{"resources": ["*/log"]}]},
    "getPodSubResourceWildcardMatching": {"verbs": ["get"], "resources": [{"resources": ["pods/*"]}]},
    "getClusterRoles": {
        "verbs": ["get"],
        "resources": [{"group": "rbac.authorization.k8s.io", "resources": ["clusterroles"]}],
    },
    "anyGroup": {"resources": [{"group": "*", "resources": ["pods"]}]},
    "anyResource": {"resources": [{"group": ""}]},
    "getLogs": {"verbs": ["get"], "nonResourceURLs": ["/logs*"]},
    "getMetrics": {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    "clusterScoped": {"namespaces": [""]},
    "inDefault": {"namespaces": ["default"]},
    "named": {"resources": [{"resources": ["pods"], "resourceNames": ["edit"]}]},
}


def matches(rule: str, user: User | None, info: RequestInfo) -> bool:
    audit_rule = {"level": "Metadata", **RULES[rule]}
    policy = AuditPolicy({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [audit_rule]})
    return policy.extent(user, info) == Extent("Metadata")


@pytest.mark.parametrize(
    ("info", "matching"),
    [
        (
            PODS,
            (
                "default tims humans getPods getPodWildcardMatching getPodSubResourceWildcardMatching anyGroup "
                "anyResource inDefault"
            ),
        ),
        (
            RequestInfo.of("GET", "/api/v1/namespaces/default/pods/busybox/log", {}),
            (
                "default tims humans getPodLogs getPodWildcardMatching getPodResourceWildcardMatching "
                "getPodSubResourceWildcardMatching anyResource inDefault"
            ),
        ),
        (
            RequestInfo.of("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit", {}),
            "default tims humans getClusterRoles clusterScoped",
        ),
        (RequestInfo.of("GET", "/logs/x", {}), "default tims humans getLogs"),
        (RequestInfo.of("GET", "/metrics", {}), "default tims humans getMetrics"),
        (
            RequestInfo.of("GET", "/api/v1/namespaces/default/pods/edit", {}),
            (
                "default tims humans getPods getPodWildcardMatching getPodSubResourceWildcardMatching anyGroup "
                "anyResource inDefault named"
            ),
        ),
        (
            RequestInfo.of("POST", "/api/v1/namespaces/default/pods", {}),
            "default create tims humans anyGroup anyResource inDefault",
        ),
    ],
)
def test_rules_match_by_user_verb_and_resource(info: RequestInfo, matching: str) -> None:
    assert [rule for rule in RULES if matches(rule, TIM, info)] == [rule for rule in RULES if rule in matching.split()]


def test_rules_for_users_do_not_match_unknown_users() -> None:
    assert [rule for rule in ("default", "tims", "humans") if matches(rule, None, PODS)] == ["default"]


def test_first_matching_rule_applies_and_omitted_stages_add_up() -> None:
    policy = AuditPolicy(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "omitManagedFields": True,
            "rules": [
                {"level": "None", "users": ["x"]},
                {"level": "Request", "verbs": ["get"], "omitStages": ["Panic"], "omitManagedFields": False},
                {"level": "RequestResponse", "verbs": ["get", "list"]},
            ],
        }
    )
    assert policy.extent(User("x"), PODS).level == "None"
    assert policy.extent(TIM, PODS) == Extent("Request", frozenset({"RequestReceived", "Panic"}), False)
    assert policy.extent(TIM, PODS._replace(verb="list")) == Extent(
        "RequestResponse", frozenset({"RequestReceived"}), True
    )
    assert policy.extent(TIM, PODS._replace(verb="delete")).level == "None"


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ([], "must be a Policy"),
        ({"apiVersion": "audit.k8s.io/v1beta1"}, "must be a Policy"),
        ({"rules": []}, "0 rules"),
        ({"rules": [{}]}, "level"),
        ({"rules": [{"level": "Loud"}]}, "level"),
        ({"rules": [{"level": "None", "omitStages": ["x"]}]}, "omitStages"),
        ({"omitStages": ["x"], "rules": [{"level": "None"}]}, "omitStages"),
        ({"rules": [{"level": "None", "nonResourceURLs": ["/x"], "namespaces": ["y"]}]}, "both"),
        ({"rules": [{"level": "None", "nonResourceURLs": ["x"]}]}, "does not begin"),
        ({"rules": [{"level": "None", "nonResourceURLs": ["/x/*/y"]}]}, "before its end"),
        ({"rules": [{"level": "None", "resources": [{"resourceNames": ["x"]}]}]}, "at least one resource"),
    ],
)
def test_invalid_policy_is_refused(policy: Any, why: str) -> None:
    given = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **policy} if isinstance(policy, dict) else policy
    with pytest.raises(PolicyError, match=why):
        AuditPolicy(given)
