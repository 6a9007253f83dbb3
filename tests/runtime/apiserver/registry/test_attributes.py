"""What requests ask for, and how they are refused.

Cases of kubernetes v1.36 apiserver pkg/endpoints/request/requestinfo_test.go.
"""

from __future__ import annotations

import random

import pytest

from kcm.protocols.selectors import parse_field_selector
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.registry.attributes import (
    Attributes,
    attributes_in,
    attributes_of,
    forbidden,
    required_value,
)
from kcm.runtime.apiserver.registry.definitions import Registry
from kcm.runtime.apiserver.registry.routing import route
from kcm.runtime.apiserver.storage.selection import parse_selection

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


SEGMENTS = ("", ".", "..", "api", "apis", "v1", "apps", "namespaces", "default", "pods", "deployments", "nodes")
SEGMENTS += ("secrets", "status", "finalize", "scale", "log", "x", "a/b", "watch", "proxy", "componentstatuses", "%2F")
BEGINNINGS = ("/api/v1/namespaces/default/", "/api/v1/", "/apis/apps/v1/namespaces/default/", "/apis/", "/api/", "/")
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"watch": "1"},
    {"fieldSelector": "metadata.name=x"},
    {"fieldSelector": r"type!=a\,metadata.name=x"},
)


def test_a_request_is_authorized_for_what_is_executed() -> None:
    """Every path that is served is authorized for that resource, subresource, namespace and name."""
    registry, draw = Registry(BUILT_IN), random.Random(1)
    served = 0
    for _ in range(30_000):
        path = draw.choice(BEGINNINGS) + "/".join(draw.choices(SEGMENTS, k=draw.randint(1, 5)))
        query = draw.choice(QUERIES)
        try:
            found = route(registry, path)
        except StatusError:
            continue
        served += 1
        asked = attributes_of(draw.choice(("GET", "DELETE", "PUT")), path, query)
        definition = found.definition
        assert asked.is_resource, path
        assert (asked.group, asked.version, asked.resource) == (definition.group, definition.version, definition.plural)
        assert asked.subresource == found.subresource, path
        if found.name:
            assert asked.name == found.name, path
            assert asked.verb not in ("list", "watch", "deletecollection"), path
        elif asked.name:
            assert parse_selection(definition, query).on_key == parse_field_selector(f"metadata.name={asked.name}")
        if definition.namespaced:
            assert asked.namespace == found.namespace, path
    assert served > 500


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


def test_value_in_a_review_is_no_further_term() -> None:
    required = {"requirements": [{"key": "type", "operator": "In", "values": ["a,metadata.name=x"]}]}
    asked = attributes_in({"verb": "list", "resource": "secrets", "fieldSelector": required})
    assert required_value(asked.field_selector, "type") == "a,metadata.name=x"
    assert required_value(asked.field_selector, "metadata.name") == ""
