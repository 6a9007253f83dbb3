"""Matching and covering of RBAC rules.

Cases of kubernetes v1.36 plugin/pkg/auth/authorizer/rbac/rbac_test.go (TestRuleMatches), component-helpers
auth/rbac/validation/policy_comparator_test.go, pkg/registry/rbac/validation/policy_compact_test.go.
"""

from __future__ import annotations

import itertools

import pytest

from kcm.runtime.apiserver.registry.policy_rules import Rule, allows, compact, missing
from kcm.runtime.apiserver.registry.request_info import RequestInfo


def rule(verbs: str, groups: str = "", resources: str = "", names: str = "", urls: str = "") -> Rule:
    """Return a rule from comma-separated lists. "core" is the group "". A rule for URLs has no group."""
    parts = [tuple(text.split(",")) if text else () for text in (verbs, groups, resources, names, urls)]
    parts[1] = tuple("" if group == "core" else group for group in parts[1])
    return Rule(*parts)


@pytest.mark.parametrize(
    ("allowing", "allowed"),
    [
        (rule("*", "group1", "resource1"), {"verb1 group1 resource1", "verb2 group1 resource1"}),
        (rule("verb1", "*", "resource1"), {"verb1 group1 resource1", "verb1 group2 resource1"}),
        (rule("verb1", "group1", "*"), {"verb1 group1 resource1", "verb1 group1 resource2"}),
        (
            rule("verb1,verb2", "group1,group2", "resource1,resource2"),
            {f"verb{v} group{g} resource{r}" for v, g, r in itertools.product((1, 2), repeat=3)},
        ),
        (rule("*", "*", "resource1/subresource1"), set()),
    ],
)
def test_rule_allows_matching_resources(allowing: Rule, allowed: set[str]) -> None:
    every = itertools.product(("verb1", "verb2"), ("group1", "group2"), ("resource1", "resource2"))
    asked = [RequestInfo(verb, group, "v1", resource) for verb, group, resource in every]
    assert {" ".join((a.verb, a.group, a.resource)) for a in asked if allows(allowing, a)} == allowed


@pytest.mark.parametrize(
    ("pattern", "resource", "subresource", "allowed"),
    [
        ("resource1/subresource1", "resource1", "subresource1", True),
        ("resource1/subresource1", "resource1", "subresource2", False),
        ("resource1/subresource1", "resource2", "subresource1", False),
        ("pods", "pods", "status", False),
        ("pods/status", "pods", "", False),
        ("*/scale", "deployments", "scale", True),
        ("*/scale", "deployments", "", False),
        ("*", "deployments", "scale", True),
    ],
)
def test_subresource_is_allowed_only_by_a_matching_rule(
    pattern: str, resource: str, subresource: str, allowed: bool
) -> None:
    assert allows(rule("*", "*", pattern), RequestInfo("get", "", "v1", resource, subresource)) == allowed


@pytest.mark.parametrize(
    ("allowing", "allowed"),
    [
        (rule("verb1", urls="*"), {"/foo", "/foo/bar", "/foo/bar/one", "/notfoo"}),
        (rule("verb1", urls="/foo/*"), {"/foo/bar", "/foo/bar/one"}),
        (rule("*", urls="/foo,/foo/bar/one"), {"/foo", "/foo/bar/one"}),
        (rule("verb2", urls="*"), set()),
        (rule("*", "*", "*"), set()),
    ],
)
def test_rule_allows_matching_paths(allowing: Rule, allowed: set[str]) -> None:
    paths = ("/foo", "/foo/bar", "/foo/bar/one", "/notfoo")
    assert {
        path for path in paths if allows(allowing, RequestInfo("verb1", path=path, is_resource_request=False))
    } == allowed


@pytest.mark.parametrize(
    ("owned", "path", "covered"),
    [
        ("*", "", True),
        ("*", "/api", True),
        ("/*", "", False),
        ("/*", "/", True),
        ("/apis", "/api", False),
        ("/api/v1", "/api", False),
        ("/api/v1", "/api/v1", True),
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("/api/*/*", "/api/v1", False),
        ("/*/v1/*", "/api/v1", False),
    ],
)
def test_path_pattern_covers_other_paths(owned: str, path: str, covered: bool) -> None:
    assert (missing([Rule(("get",), urls=(owned,))], [Rule(("get",), urls=(path,))]) == []) == covered


@pytest.mark.parametrize(
    ("owned", "given", "lacks"),
    [
        ([rule("get", "v1", "builds")], [rule("get", "v1", "builds")], []),
        ([rule("get", "v1", "*/scale")], [rule("get", "v1", "foo/scale")], []),
        (
            [
                rule("delete", "v1", "deployments"),
                rule("delete", "v1", "builds"),
                rule("update", "v1", "builds,deployments"),
            ],
            [rule("delete,update", "v1", "builds,deployments")],
            [],
        ),
        (
            [rule("delete,update", "g1,g2", "builds,deployments")],
            [rule("delete", "g1", "deployments"), rule("update", "g2", "builds,deployments")],
            [],
        ),
        (
            [rule("delete,update", "v1", "builds,deployments"), rule("delete", "v1", "pods")],
            [rule("delete,update", "v1", "builds,deployments,pods")],
            [rule("update", "v1", "pods")],
        ),
        ([rule("get", "*", "roles")], [rule("get", "group1,group2", "roles")], []),
        ([rule("get", "dummy", "roles")], [rule("get", "*", "roles")], [rule("get", "*", "roles")]),
        ([rule("*", "v1", "roles")], [rule("watch,list", "v1", "roles")], []),
        ([rule("get,list,watch", "v1", "roles")], [rule("*", "v1", "roles")], [rule("*", "v1", "roles")]),
        ([rule("get", "v1", "*")], [rule("get", "v1", "a:deployments")], []),
        ([rule("get", "v1", "roles")], [rule("get", "v1", "*")], [rule("get", "v1", "*")]),
        ([rule("get", "v1", "pods")], [rule("get", "v1", "pods", "foo,bar")], []),
        ([rule("get", "v1", "pods", "foo,bar")], [rule("get", "v1", "pods")], [rule("get", "v1", "pods")]),
        ([rule("get", "v1", "pods", "foo")], [rule("get", "v1", "pods", "foo,b")], [rule("get", "v1", "pods", "b")]),
        ([rule("*", urls="*")], [rule("*", urls="/apis,/apis/v1,/")], []),
        ([rule("*", urls="/apis/*")], [rule("get", urls="/apis,/apis/v1")], [rule("get", urls="/apis")]),
        ([rule("*", urls="/apis/*")], [rule("get", urls="/apis/v1/foo,/apis/v1")], []),
        (
            [rule("get", "v1", "builds")],
            [rule("get", "v1", "builds", urls="/apis")],
            [rule("get", urls="/apis")],
        ),
    ],
)
def test_missing_rules_are_those_not_covered(owned: list[Rule], given: list[Rule], lacks: list[Rule]) -> None:
    assert missing(owned, given) == lacks


def test_rules_that_differ_only_in_verbs_are_merged() -> None:
    several = [
        rule("get", "core", "builds"),
        rule("list", "core", "builds"),
        rule("update,patch", "core", "builds"),
        rule("get", "ext", "daemonsets", "foo"),
        rule("list", "ext", "daemonsets", "foo"),
        rule("get", "core,ext", "builds"),
        rule("get", "core", "builds,images"),
        rule("get", "core", "builds", urls="/"),
    ]
    assert sorted(compact(several)) == sorted(
        [
            rule("get,list,update,patch", "core", "builds"),
            rule("get,list", "ext", "daemonsets", "foo"),
            *several[5:],
        ]
    )


def test_rule_has_upstreams_text_in_rejections() -> None:
    assert str(rule("get,list", "core", "pods", "a")) == (
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
    )
    assert str(rule("get", urls="/x")) == '{NonResourceURLs:["/x"], Verbs:["get"]}'
