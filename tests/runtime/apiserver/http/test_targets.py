"""Targets of requests, as Go's net/url parses them."""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.targets import target_of


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
    assert target_of(f"/api/v1/pods?{query}".encode()).query == parameters


@pytest.mark.parametrize("target", ["/api/v1/pods?x=1", "http://host:1/api/v1/pods?x=1", "HTTPS://u@h/api/v1/pods?x=1"])
def test_scheme_and_host_of_a_target_are_ignored(target: str) -> None:
    found = target_of(target.encode())
    assert (found.path, found.query, found.is_resource) == ("/api/v1/pods", {"x": "1"}, True)


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
    assert target_of(target.encode()).is_watch is is_watch


@pytest.mark.parametrize(("path", "escape"), [("/api/%zz", "%zz"), ("/api/x%", "%"), ("/%4/x", "%4/")])
def test_invalid_escape_in_a_path_is_a_bad_request(path: str, escape: str) -> None:
    with pytest.raises(StatusError, match=f'invalid escape: "{escape}"') as refusal:
        target_of(path.encode())
    assert refusal.value.code == 400
