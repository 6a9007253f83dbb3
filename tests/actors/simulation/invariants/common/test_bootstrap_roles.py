"""Rights of upstream's bootstrap roles, and the detection of requests beyond them."""

from __future__ import annotations

import pytest

from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.actors.simulation.invariants.common.bootstrap_roles import Right, WithinItsRole, may, roles, wanted_right
from kcm.actors.simulation.invariants.observer import Sent
from kcm.runtime.client.api import Request

CORE, TRACKING = "/api/v1", "kube-apiserver-legacy-service-account-token-tracking"


@pytest.mark.parametrize(
    ("method", "path", "query", "right"),
    [
        ("GET", "/api/v1/namespaces/d/pods/a", {}, Right("get", "", "pods", "a")),
        ("GET", "/api/v1/pods", {}, Right("list", "", "pods")),
        ("GET", "/api/v1/pods", {"watch": "true"}, Right("watch", "", "pods")),
        (
            "PUT",
            "/apis/apps/v1/namespaces/d/replicasets/a/status",
            {},
            Right("update", "apps", "replicasets/status", "a"),
        ),
        ("POST", "/apis/apps/v1/namespaces/d/replicasets", {}, Right("create", "apps", "replicasets")),
        ("PUT", "/api/v1/namespaces/d/finalize", {}, Right("update", "", "namespaces/finalize", "d")),
        ("DELETE", "/api/v1/namespaces/d", {}, Right("delete", "", "namespaces", "d")),
        ("DELETE", "/api/v1/namespaces/d/secrets", {}, Right("deletecollection", "", "secrets")),
        ("PATCH", "/api/v1/nodes/n/status", {}, Right("patch", "", "nodes/status", "n")),
        ("GET", "/apis/apps/v1", {}, None),
        ("GET", "/api", {}, None),
        ("GET", "/version", {}, None),
    ],
)
def test_request_requires_this_right(method: str, path: str, query: dict[str, str], right: Right | None) -> None:
    assert wanted_right(Request(method=method, path=path, query=query)) == right


@pytest.mark.parametrize(
    ("role", "right", "allowed"),
    [
        ("replicaset-controller", Right("list", "", "pods"), True),
        ("replicaset-controller", Right("get", "", "pods", "a"), False),
        ("replicaset-controller", Right("patch", "events.k8s.io", "events", "a"), True),
        ("namespace-controller", Right("deletecollection", "example.com", "websites"), True),
        ("namespace-controller", Right("patch", "example.com", "websites", "a"), False),
        ("disruption-controller", Right("get", "example.com", "websites/scale", "a"), True),
        ("disruption-controller", Right("get", "example.com", "websites", "a"), False),
        ("legacy-service-account-token-cleaner", Right("get", "", "configmaps", TRACKING), True),
        ("legacy-service-account-token-cleaner", Right("get", "", "configmaps", "other"), False),
    ],
)
def test_bootstrap_role_permits_only_its_rights(role: str, right: Right, allowed: bool) -> None:
    assert may(roles()[role], right) is allowed


@pytest.mark.parametrize(
    ("client", "path", "violates"),
    [
        ("replicaset-controller", "/api/v1/namespaces/d/pods/a", True),
        ("replicaset-controller", "/apis/apps/v1/namespaces/d/replicasets/a", False),
        (INFORMERS, "/api/v1/namespaces/d/pods", False),
        (INFORMERS, "/api/v1/namespaces/d/pods/a", True),
        ("website-controller", "/api/v1/namespaces/d/pods/a", False),
    ],
)
def test_a_request_beyond_the_role_is_seen(client: str, path: str, violates: bool) -> None:
    violations: list[str] = []
    WithinItsRole().observe(Sent("manager", client, Request(method="GET", path=path), False), violations.append)
    assert bool(violations) is violates
