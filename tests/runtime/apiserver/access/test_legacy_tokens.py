"""Tokens of Secrets: their user, the reasons to reject them, and the record of their use.

Cases of kubernetes v1.36 pkg/serviceaccount/legacy_test.go, jwt_test.go.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.runtime.apiserver.access.legacy_tokens import INVALID_SINCE, LAST_USED, LegacyTokens
from kcm.runtime.apiserver.registry.users import AUTHENTICATED, User
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.conftest import Api

KEY, OTHER = (SigningKey(generate_private_key(SECP256R1())) for _ in range(2))
ROBOT = "system:serviceaccount:default:robot"
TODAY, TOMORROW = "2001-09-09", "2001-09-10"


@pytest.fixture
def api() -> Api:
    made = Api(legacy=LegacyTokens([OTHER, KEY]))
    made.create("serviceaccounts", {"metadata": {"name": "robot"}})
    return made


def claims(api: Api, **changes: Any) -> dict[str, Any]:
    private = {
        "namespace": "default",
        "secret.name": "token",
        "service-account.name": "robot",
        "service-account.uid": api.get("serviceaccounts", "robot").meta["uid"],
    }
    registered = {"iss": "kubernetes/serviceaccount", "sub": ROBOT}
    return registered | {f"kubernetes.io/serviceaccount/{name}": value for name, value in private.items()} | changes


def keep(api: Api, token: str, labels: Mapping[str, str] = {}) -> None:
    """Store a token in the Secret that it names."""
    data = {"token": base64.b64encode(token.encode()).decode()}
    annotations = {"kubernetes.io/service-account.name": "robot"}
    meta = {"name": "token", "annotations": annotations, "labels": dict(labels)}
    api.create("secrets", {"metadata": meta, "type": "kubernetes.io/service-account-token", "data": data})


def labels(api: Api) -> dict[str, str]:
    found: dict[str, str] = api.get("secrets", "token").meta.get("labels") or {}
    return found


def test_token_authenticates_its_account_and_its_use_is_recorded_once_a_day(api: Api) -> None:
    token = KEY.sign(claims(api))
    keep(api, token)
    user = api.server.user_of(token)
    uid = api.get("serviceaccounts", "robot").meta["uid"]
    groups = ("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED)
    assert user == User(ROBOT, uid=uid, groups=groups)
    assert labels(api) == {LAST_USED: TODAY}
    version = api.get("secrets", "token").meta["resourceVersion"]
    assert api.server.user_of(token) == user
    assert api.get("secrets", "token").meta["resourceVersion"] == version
    api.advance(86400.0)
    assert api.server.user_of(token) == user
    assert labels(api) == {LAST_USED: TOMORROW}


def test_token_review_does_not_record_a_use(api: Api) -> None:
    token = KEY.sign(claims(api))
    keep(api, token)
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = api.send("POST", reviews, {"spec": {"token": token}}).obj["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, ROBOT)
    assert labels(api) == {}
    for_others = api.send("POST", reviews, {"spec": {"token": token, "audiences": ["vault"]}})
    assert for_others.obj["status"] == {"user": {}, "error": "invalid bearer token"}


def test_recorded_use_in_the_future_is_kept(api: Api) -> None:
    token = KEY.sign(claims(api))
    keep(api, token, {LAST_USED: TOMORROW})
    assert api.server.user_of(token) is not None
    assert labels(api) == {LAST_USED: TOMORROW}


def test_token_labelled_invalid_is_refused_and_its_use_recorded(api: Api) -> None:
    token = KEY.sign(claims(api))
    keep(api, token, {INVALID_SINCE: "2001-01-01"})
    assert api.server.user_of(token) is None
    assert labels(api) == {INVALID_SINCE: "2001-01-01", LAST_USED: TODAY}


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other"},
        {"sub": ""},
        {"sub": "system:serviceaccount:default:other"},
        {"kubernetes.io/serviceaccount/namespace": ""},
        {"kubernetes.io/serviceaccount/secret.name": "other"},
        {"kubernetes.io/serviceaccount/secret.name": ""},
        {"kubernetes.io/serviceaccount/service-account.name": ""},
        {"kubernetes.io/serviceaccount/service-account.uid": ""},
        {"kubernetes.io/serviceaccount/service-account.uid": "of another"},
    ],
)
def test_token_with_other_claims_is_refused(api: Api, changes: dict[str, str]) -> None:
    token = KEY.sign(claims(api, **changes))
    keep(api, token)
    assert api.server.user_of(token) is None
    assert labels(api) == {}


def test_token_of_another_signer_or_not_in_its_secret_is_rejected(api: Api) -> None:
    foreign = SigningKey(generate_private_key(SECP256R1())).sign(claims(api))
    keep(api, foreign)
    assert api.server.user_of(foreign) is None
    assert api.server.user_of(KEY.sign(claims(api))) is None
    assert api.server.user_of("no token") is None


@pytest.mark.parametrize("gone", ["secrets/token", "serviceaccounts/robot"])
def test_token_without_its_secret_or_account_is_rejected(api: Api, gone: str) -> None:
    token = KEY.sign(claims(api))
    keep(api, token)
    assert api.server.user_of(token) is not None
    api.delete(*gone.split("/"))
    assert api.server.user_of(token) is None


@pytest.mark.parametrize("going", ["secrets/token", "serviceaccounts/robot"])
def test_token_of_a_terminating_secret_or_account_is_rejected(api: Api, going: str) -> None:
    token = KEY.sign(claims(api))
    keep(api, token)
    resource, name = going.split("/")
    body = {"metadata": {"finalizers": ["example.com/stays"]}}
    api.send("PATCH", api.path(resource, name), body, type_="application/merge-patch+json")
    api.delete(resource, name)
    assert api.server.user_of(token) is None
