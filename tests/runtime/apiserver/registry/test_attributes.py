"""What requests ask for, and how they are refused.

Cases of kubernetes v1.36 apiserver pkg/endpoints/request/requestinfo_test.go.
"""

from __future__ import annotations

import pytest

from runtime.apiserver.registry.attributes import Attributes, attributes_in, attributes_of, forbidden

Words = tuple[str, str, str, str, str, str]


@pytest.mark.parametrize(
    ("method", "target", "verb", "words"),
    [
        # group, version, resource, subresource, namespace, name
        ("GET", "/api/v1/namespaces", "list", ("", "v1", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/other", "get", ("", "v1", "namespaces", "", "other", "other")),
        ("PUT", "/api/v1/namespaces/other/finalize", "update", ("", "v1", "namespaces", "finalize", "other", "other")),
        ("GET", "/api/v1/namespaces/other/status", "get", ("", "v1", "namespaces", "status", "other", "other")),
        ("GET", "/api/v1/namespaces/other/pods", "list", ("", "v1", "pods", "", "other", "")),
        ("GET", "/api/v1/namespaces/other/pods/foo", "get", ("", "v1", "pods", "", "other", "foo")),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", "get", ("", "v1", "pods", "", "other", "foo")),
        ("GET", "/api/v1/pods", "list", ("", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=true", "watch", ("", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=false", "list", ("", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name=x", "list", ("", "v1", "nodes", "", "", "x")),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name=a/b", "list", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name!=x", "list", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/namespaces/o/pods/foo/log", "get", ("", "v1", "pods", "log", "o", "foo")),
        ("GET", "/api/v1/nodes/n/proxy/a/b", "get", ("", "v1", "nodes", "proxy", "", "n")),
        ("DELETE", "/api/v1/namespaces/other/pods", "deletecollection", ("", "v1", "pods", "", "other", "")),
        ("DELETE", "/api/v1/namespaces/other/pods/foo", "delete", ("", "v1", "pods", "", "other", "foo")),
        ("POST", "/apis/apps/v1/namespaces/o/deployments", "create", ("apps", "v1", "deployments", "", "o", "")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/o/deployments/d/scale",
            "patch",
            ("apps", "v1", "deployments", "scale", "o", "d"),
        ),
        ("GET", "/apis/extensions/v1/pods", "list", ("extensions", "v1", "pods", "", "", "")),
    ],
)
def test_requests_for_resources(method: str, target: str, verb: str, words: Words) -> None:
    path, _, query = target.partition("?")
    name, _, value = query.partition("=")
    asked = attributes_of(method, path, {name: value} if query else {})
    assert asked.is_resource
    assert (asked.verb, asked[1:7]) == (verb, words)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v3/x"]
)
def test_requests_for_other_paths(path: str) -> None:
    assert attributes_of("GET", path, {}) == Attributes("get", path=path, is_resource=False)


def test_what_reviews_ask_for() -> None:
    said = {"verb": "list", "resource": "pods", "namespace": "x", "fieldSelector": {"rawSelector": "spec.nodeName=n"}}
    assert attributes_in(said) == Attributes("list", "", "*", "pods", "", "x", field_selector="spec.nodeName=n")
    required = {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}
    assert attributes_in({**said, "fieldSelector": required}).field_selector == "spec.nodeName=n"
    assert attributes_in({"path": "/x", "verb": "get"}) == Attributes("get", path="/x", is_resource=False)


@pytest.mark.parametrize(
    ("asked", "reason", "message", "details"),
    [
        (
            Attributes("list", "", "v1", "pods", "", "default"),
            "",
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        (
            Attributes("patch", "apps", "v1", "deployments", "scale", "", "d"),
            "because",
            (
                'deployments.apps "d" is forbidden: User "jane" cannot patch resource "deployments/scale" in API group '
                '"apps" at the cluster scope: because'
            ),
            {"name": "d", "group": "apps", "kind": "deployments"},
        ),
        (
            Attributes("get", path="/<metrics>", is_resource=False),
            "",
            'forbidden: User "jane" cannot get path "/&lt;metrics&gt;"',
            {},
        ),
    ],
)
def test_refusals(asked: Attributes, reason: str, message: str, details: dict[str, str]) -> None:
    refused = forbidden("jane", asked, reason)
    assert (refused.code, refused.reason, refused.message, refused.details) == (403, "Forbidden", message, details)
