"""Unserved paths, and methods that a path does not accept."""

from __future__ import annotations

import pytest

from tests.runtime.apiserver.conftest import Api

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    "path, hint",
    [
        ("/api/v1/podz", " (v1 podz is not served here)"),
        ("/api/v2/pods", " (v2 pods is not served here, v1 is)"),
        ("/apis/events.k8s.io/v2/events", " (events.k8s.io/v2 events is not served here, events.k8s.io/v1 is)"),
        ("/apis/apps/v1", ""),
        ("/", ""),
        ("/api/v1/nodes/n/log", ""),
        ("", ""),
    ],
)
def test_unserved_path_is_not_found(api: Api, path: str, hint: str) -> None:
    refused = api.send("GET", path)
    assert (refused.status, refused.message) == (404, f"the server could not find the requested resource{hint}")


@pytest.mark.parametrize(
    "method, subresource",
    [("GET", "log"), ("POST", "exec"), ("GET", "attach"), ("POST", "portforward"), ("GET", "proxy/index.html")],
)
def test_a_subresource_that_needs_a_running_container_is_not_implemented(
    api: Api, method: str, subresource: str
) -> None:
    api.create("pods", api.pod())
    refused = api.send(method, f"{PODS}/web/{subresource}")
    name = subresource.partition("/")[0]
    assert (refused.status, refused.reason, refused.message) == (
        501,
        "NotImplemented",
        f"pods/{name} is not supported: the pods of this cluster run no containers",
    )


def test_a_method_that_a_path_does_not_take_is_not_allowed(api: Api) -> None:
    assert api.send("POST", f"{PODS}/web", api.pod()).status == 405
    assert api.send("DELETE", "/api/v1/namespaces").status == 405
    assert api.send("POST", "/api/v1/pods", api.pod()).status == 405
    assert api.send("DELETE", "/api/v1/pods").status == 405
    assert api.send("TRACE", PODS).status == 405
