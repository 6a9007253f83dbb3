"""Validation and evaluation of the four kinds of access reviews.

Cases of kubernetes v1.36 pkg/apis/authorization/validation/validation_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.registry.users import ADMIN, Access, Decision, User

ROOT = "/apis/authorization.k8s.io/v1"
REVIEWS, SELF = f"{ROOT}/subjectaccessreviews", f"{ROOT}/selfsubjectaccessreviews"
LOCAL = f"{ROOT}/namespaces/default/localsubjectaccessreviews"
PODS = {"resource": "pods", "verb": "get", "namespace": "default"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"user": "jane", "resourceAttributes": PODS, **fields}}


def test_everything_is_allowed_by_default(api) -> None:
    answered = api.send("POST", REVIEWS, spec())
    assert (answered.status, answered.obj["status"]) == (201, {"allowed": True})
    assert answered.obj["kind"] == "SubjectAccessReview"


def test_review_passes_attributes_to_the_authorizer_and_returns_its_reason(make_api) -> None:
    asked: list[Access] = []

    def authorize(access: Access) -> Decision:
        asked.append(access)
        return Decision(allowed=False, denied=True, reason="because")

    api = make_api(authorize=authorize)
    answered = api.send("POST", REVIEWS, spec(uid="7", groups=["dev"], extra={"a": ["b"]}))
    assert answered.obj["status"] == {"allowed": False, "denied": True, "reason": "because"}
    api.send("POST", SELF, {"spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}})
    api.send("POST", LOCAL, spec())
    assert asked == [
        Access(User("jane", "7", ("dev",), {"a": ("b",)}), PODS),
        Access(ADMIN, {"path": "/metrics", "verb": "get"}),
        Access(User("jane"), PODS),
    ]


@pytest.mark.parametrize(
    ("path", "body", "causes"),
    [
        (
            REVIEWS,
            {"spec": {}},
            {
                "spec.resourceAttributes": "Invalid value: null: exactly one of nonResourceAttributes or "
                "resourceAttributes must be specified",
                "spec.user": 'Invalid value: "": at least one of user or group must be specified',
            },
        ),
        (
            SELF,
            spec(nonResourceAttributes={"path": "/"}),
            {
                "spec.nonResourceAttributes": 'Invalid value: {"path":"/"}: cannot be specified in combination with '
                "resourceAttributes"
            },
        ),
        (REVIEWS, {**spec(), "metadata": {"name": "x"}}, {"metadata": 'Invalid value: {"name":"x"}: must be empty'}),
        (
            LOCAL,
            spec(resourceAttributes={**PODS, "namespace": "other"}),
            {"spec.resourceAttributes.namespace": 'Invalid value: "other": must match metadata.namespace'},
        ),
    ],
)
def test_invalid_review_is_rejected(api, path: str, body: dict[str, Any], causes: dict[str, str]) -> None:
    refused = api.send("POST", path, body)
    assert (refused.status, refused.causes) == (422, causes)


def test_reviews_are_not_stored(api) -> None:
    before = api.server.revision
    api.send("POST", REVIEWS, spec())
    assert api.server.revision == before
    assert api.send("GET", REVIEWS).status == 405
    assert api.send("GET", f"{REVIEWS}/x").status == 405
    assert api.send("DELETE", f"{REVIEWS}/x").status in (404, 405)
