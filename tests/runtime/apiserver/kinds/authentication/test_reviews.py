"""TokenReviews and SelfSubjectReviews. The expected values are responses of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.runtime.apiserver.access.account_tokens import ISSUER, AccountTokens
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.conftest import Api

KEY = SigningKey(generate_private_key(SECP256R1()))
ROOT = "/apis/authentication.k8s.io/v1"
JANE = {"username": "jane", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"a": ["b"]}}
INVALID = {"user": {}, "error": "invalid bearer token"}


@pytest.fixture
def api() -> Api:
    made = Api(accounts=AccountTokens(KEY), users={"secret": User("jane", "7", ("dev",), {"a": ("b",)})})
    made.create("serviceaccounts", {"metadata": {"name": "robot"}})
    return made


def status(api: Api, token: str, **spec: Any) -> dict[str, Any]:
    answer = api.send("POST", f"{ROOT}/tokenreviews", {"spec": {"token": token, **spec}})
    assert answer.status == 201, answer.obj
    found: dict[str, Any] = answer.obj["status"]
    return found


def account_token(api: Api, **spec: Any) -> str:
    answer = api.send("POST", api.path("serviceaccounts", "robot", "token"), {"spec": spec})
    return str(answer.obj["status"]["token"])


def test_static_token_authenticates_its_user_for_the_servers_audience(api: Api) -> None:
    assert status(api, "secret") == {"authenticated": True, "user": JANE, "audiences": [ISSUER]}
    assert status(api, "secret", audiences=["vault"]) == INVALID


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "sécret"])
def test_unknown_token_is_rejected(api: Api, token: str) -> None:
    assert status(api, token) == INVALID


def test_account_token_authenticates_its_account_for_its_audiences(api: Api) -> None:
    token = account_token(api, audiences=["vault", "x"])
    found = status(api, token, audiences=["vault", "y"])
    assert (found["authenticated"], found["audiences"]) == (True, ["vault"])
    assert found["user"]["username"] == "system:serviceaccount:default:robot"
    assert found["user"]["uid"] == api.get("serviceaccounts", "robot").meta["uid"]
    assert found["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert [*found["user"]["extra"]] == ["authentication.kubernetes.io/credential-id"]
    because = f'token audiences ["vault" "x"] is invalid for the target audiences ["{ISSUER}"]'
    assert status(api, token) == {"user": {}, "error": f"[invalid bearer token, {because}]"}


def test_review_of_an_expired_account_token_has_the_reason(api: Api) -> None:
    token = account_token(api)
    api.advance(3661.0)
    assert status(api, token)["error"] == "[invalid bearer token, service account token has expired]"
    token = account_token(api)
    api.send("DELETE", api.path("serviceaccounts", "robot"))
    assert status(api, token)["error"] == '[invalid bearer token, serviceaccounts "robot" not found]'


def test_a_review_without_a_token_is_refused(api: Api) -> None:
    answer = api.send("POST", f"{ROOT}/tokenreviews", {"spec": {}})
    assert (answer.status, answer.obj["message"]) == (400, "token is required for TokenReview in authentication")


def test_self_subject_review_returns_the_user(api: Api) -> None:
    answer = api.send("POST", f"{ROOT}/selfsubjectreviews", {})
    assert answer.obj["status"] == {
        "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
    }
