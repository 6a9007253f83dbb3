"""RequestInfo: attributes of a request target, and texts of authorization errors.

Cases of kubernetes v1.36 apiserver pkg/endpoints/request/requestinfo_test.go.
"""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.access.refusals import not_authorized
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.request_info import RequestInfo, required_value, review_info

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
        ("GET", "/api/v1/watch/pods", "watch", ("", "v1", "pods", "", "", "")),
        ("DELETE", "/api/v1/watch/namespaces/o/pods/foo", "watch", ("", "v1", "pods", "", "o", "foo")),
        ("GET", "/apis/apps/v1/watch/deployments", "watch", ("apps", "v1", "deployments", "", "", "")),
        ("GET", "/api/v1/proxy/namespaces/o/pods/foo/x", "proxy", ("", "v1", "pods", "", "o", "foo")),
        ("GET", "//api/v1/pods//", "list", ("", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/o%2Fpods/foo", "get", ("", "v1", "pods", "", "o", "foo")),
        ("GET", "/api/v1/namespaces//pods", "list", ("", "v1", "pods", "", "", "")),
        ("GET", "/api/v1//pods", "get", ("", "v1", "", "", "", "pods")),
    ],
)
def test_resource_requests_are_parsed_as_upstream(method: str, target: str, verb: str, words: Words) -> None:
    info = RequestInfo.parse(method, target.encode())
    assert info.is_resource_request
    assert (info.verb, info[1:7]) == (verb, words)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/api/v1//", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v3/x"]
)
def test_other_paths_are_non_resource_requests(path: str) -> None:
    assert RequestInfo.of("GET", path, {}) == RequestInfo("get", path=path, is_resource_request=False)


def test_selectors_of_a_watch_prefix_are_ignored() -> None:
    info = RequestInfo.parse("GET", b"/api/v1/watch/pods?fieldSelector=metadata.name=x")
    assert (info.verb, info.name, info.field_selector) == ("watch", "", "")


def test_access_review_is_authorized_as_its_attributes() -> None:
    attributes = {
        "verb": "list",
        "resource": "pods",
        "namespace": "x",
        "fieldSelector": {"rawSelector": "spec.nodeName=n"},
    }
    assert review_info(attributes) == RequestInfo("list", "", "*", "pods", "", "x", field_selector="spec.nodeName=n")
    required = {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]}
    assert review_info({**attributes, "fieldSelector": required}).field_selector == "spec.nodeName=n"
    assert review_info({"path": "/x", "verb": "get"}) == RequestInfo("get", path="/x", is_resource_request=False)


@pytest.mark.parametrize(
    ("info", "reason", "message", "details"),
    [
        (
            RequestInfo("list", "", "v1", "pods", "", "default"),
            "",
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
        ),
        (
            RequestInfo("patch", "apps", "v1", "deployments", "scale", "", "d"),
            "because",
            (
                'deployments.apps "d" is forbidden: User "jane" cannot patch resource "deployments/scale" in API group '
                '"apps" at the cluster scope: because'
            ),
            {"name": "d", "group": "apps", "kind": "deployments"},
        ),
        (
            RequestInfo("get", path="/<metrics>", is_resource_request=False),
            "",
            'forbidden: User "jane" cannot get path "/&lt;metrics&gt;"',
            {},
        ),
    ],
)
def test_refusal_has_upstreams_text(info: RequestInfo, reason: str, message: str, details: dict[str, str]) -> None:
    refused = not_authorized("jane", info, reason)
    assert (refused.code, refused.reason, refused.message, refused.details) == (403, "Forbidden", message, details)


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("spec.nodeName=n", "n"),
        ("spec.nodeName==n", "n"),
        ("status.phase=x,spec.nodeName=n", "n"),
        ("spec.nodeName=n,spec.nodeName=m", "m"),
        (r"spec.nodeName=a\,b", "a,b"),
        ("", ""),
        ("spec.nodeName!=n", ""),
        (r"spec.nodeName!=x\,spec.nodeName=n", ""),
        (r"status.phase!=x\,spec.nodeName=n", ""),
        ("spec.nodeName=n,", "n"),
        ("spec.nodeName=n=m", ""),
        ("spec.nodeName=n,broken", ""),
    ],
)
def test_required_value_is_what_the_selection_requires(selector: str, value: str) -> None:
    assert required_value(selector, "spec.nodeName") == value


def test_comma_in_a_review_value_is_escaped() -> None:
    required = {"requirements": [{"key": "type", "operator": "In", "values": ["a,metadata.name=x"]}]}
    info = review_info({"verb": "list", "resource": "secrets", "fieldSelector": required})
    assert required_value(info.field_selector, "type") == "a,metadata.name=x"
    assert required_value(info.field_selector, "metadata.name") == ""


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=1&a=2", {"a": "1"}),
        ("a&b=", {"a": "", "b": ""}),
        ("a=1;b=2&c=3", {"c": "3"}),
        ("a=%zz&b=1", {"b": "1"}),
        ("a=%4&b%=1&c=%41+%2B", {"c": "A +"}),
        ("&&a==1", {"a": "=1"}),
    ],
)
def test_first_well_formed_value_of_a_parameter_counts(query: str, parameters: dict[str, str]) -> None:
    assert RequestInfo.parse("GET", f"/api/v1/pods?{query}".encode()).query == parameters


@pytest.mark.parametrize("target", ["/api/v1/pods?x=1", "http://host:1/api/v1/pods?x=1", "HTTPS://u@h/api/v1/pods?x=1"])
def test_scheme_and_host_of_a_target_are_ignored(target: str) -> None:
    info = RequestInfo.parse("GET", target.encode())
    assert (info.path, info.query, info.is_resource_request) == ("/api/v1/pods", {"x": "1"}, True)


@pytest.mark.parametrize(
    ("target", "is_watch"),
    [
        ("/api/v1/pods?watch=1", True),
        ("/api/v1/namespaces/default/pods/x?watch=1", False),
        ("/api/v1/nodes?watch=1&fieldSelector=metadata.name=n", True),
        ("/api/v1/nodes?watch=false", False),
        ("/version?watch=1", False),
    ],
)
def test_only_a_collection_is_watched(target: str, is_watch: bool) -> None:
    assert (RequestInfo.parse("GET", target.encode()).verb == "watch") is is_watch


@pytest.mark.parametrize(("path", "escape"), [("/api/%zz", "%zz"), ("/api/x%", "%"), ("/%4/x", "%4/")])
def test_invalid_escape_in_a_path_is_a_bad_request(path: str, escape: str) -> None:
    with pytest.raises(StatusError, match=f'invalid escape: "{escape}"') as refusal:
        RequestInfo.parse("GET", path.encode())
    assert refusal.value.code == 400
